//! Sessions, sent from the host that serves them to a backup host.
//!
//! An element of each host puts [`Record`]s into batches, or takes batches out ([`Batch`]), as its
//! host serves or not. Between the two elements stand threads, which alone do I/O ([`Peer`]), and
//! an authenticated stream over TCP (`frame`). Queues between threads are bounded and never waited
//! for: what finds no room is sent again by a transfer of all sessions. A [`Term`] says which host
//! serves. Where the two hosts are cut off from each other, a third one, the [`Witness`], grants
//! leases to one of them.
//!
//! *Absent here:* what a session is. A record carries the states of functions as bytes.
#![forbid(unsafe_code)]

mod caller;
mod claimant;
mod commit;
mod connect;
mod conversation;
mod frame;
mod greeting;
mod key;
mod lease;
mod link;
mod listener;
mod packets;
mod peer;
mod record;
mod stream;
mod term;
mod witness;

pub use commit::{Ledger, Offered, OutputCommit, Released, WhenLate};
pub use frame::{Frame, FrameReader, FrameWriter, Kind, PAYLOAD_MAX, StreamError};
pub use greeting::{Greeting, VERSION};
pub use key::{Key, KeyError};
pub use lease::{Claim, LEASE_MAX_MS, Leases, Verdict};
pub use link::{Batch, Channel, Content, Counts, Link};
pub use packets::{Packets, write_packet};
pub use peer::{Peer, WitnessUse};
pub use record::{
    CONNECTION_LEN_MAX, RECORD_LEN_MAX, Record, RecordError, Records, STATES_LEN_MAX, Session,
    SessionKey,
};
pub use term::{Side, Standing, Term, settle};
pub use witness::{Witness, WitnessState};
