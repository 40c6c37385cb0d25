//! Sessions, sent from the host that serves them to a backup host.
//!
//! An element of the active host puts [`Record`]s into batches, and one of the backup host takes
//! batches out ([`Batch`]). Between them stand a thread each, which alone do I/O ([`Active`],
//! [`Backup`]), and an authenticated stream over TCP (`frame`). Queues between threads are bounded
//! and never waited for: what finds no room is sent again by a transfer of all sessions.
//!
//! *Absent here:* what a session is. A record carries the states of functions as bytes.
#![forbid(unsafe_code)]

mod active;
mod backup;
mod commit;
mod frame;
mod greeting;
mod key;
mod link;
mod record;
mod stream;

pub use active::Active;
pub use backup::Backup;
pub use commit::{Ledger, Offered, OutputCommit, Released, WhenLate};
pub use frame::{Frame, FrameReader, FrameWriter, Kind, PAYLOAD_MAX, StreamError};
pub use greeting::{Greeting, VERSION};
pub use key::{Key, KeyError};
pub use link::{Batch, Counts, Link};
pub use record::{RECORD_LEN_MAX, Record, RecordError, Records, Session, SessionKey};
