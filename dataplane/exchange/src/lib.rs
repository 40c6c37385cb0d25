//! The exchange: lock-free rings that hand packets to an isolated function (a *Worker*) and back,
//! in place, after "An efficient data exchange mechanism for chained network functions" (Cerrato
//! et al., JPDC 114, 2018); here *the paper*.
//!
//! A *link* connects one Master thread with one Worker. It is one region with three rings:
//!
//! - **primary**: slots go Master, Worker, Master, in place;
//! - **auxiliary**: packets that a Worker makes in consequence of a slot;
//! - **injection**: packets that a Worker makes on its own (not in the paper).
//!
//! # Ownership of a primary slot
//!
//! Indices count up for ever (modulo 2^32); a slot is an index modulo the ring's length.
//!
//! | indices | owner | ended by |
//! |---|---|---|
//! | M.cons + slots > i >= M.prod | Master, empty | `Master::publish`: M.prod past it |
//! | M.prod > i >= W.prod | Worker | `Worker::advance` or `flush`: W.prod past it |
//! | W.prod > i >= M.cons | Master, to take back | `Master::poll`: M.cons past it |
//!
//! | forbidden | why | what happens |
//! |---|---|---|
//! | Worker: W.prod past M.prod (Property 1) | gives back what it never had | `PeerFault::Index` |
//! | Worker: W.prod back | would hand a slot twice | `PeerFault::Index` |
//! | Master: M.cons past W.prod (Property 2) | takes what the Worker works on | cannot: `poll` stops there |
//! | Master: M.prod past M.cons + slots (Properties 3, 4) | overwrites what is not taken back | cannot: `Refusal::Full` |
//! | Worker: writes a slot after W.prod passed it | the Master may be reading it | unseen: the Master uses copies only |
//!
//! # A link's life
//!
//! | state | goes to | by | forbidden |
//! |---|---|---|---|
//! | made (`Mapped::create`, `Master::new`) | open | the Worker maps it (`Worker::new`), once | a second Worker: refused in the handshake |
//! | open | faulty | a `PeerFault` | back to open: a Worker that lied once is not believed again |
//! | open, faulty | reclaimed | `Master::reclaim`, once the Worker is gone | before: it could still write |
//! | reclaimed | | the region is given up; a restarted Worker gets a new one | a second use of the region |
//!
//! *Absent here:* packets, elements, threads, clocks. The caller passes the time.
//! `unsafe` code is in `mapped`, `model`, `worker`, `arena` and `attach` only.

#[cfg(not(any(loom, miri)))]
mod arena;
#[cfg(not(any(loom, miri)))]
mod attach;
mod bell;
#[cfg(not(any(loom, miri)))]
mod control;
mod fault;
#[cfg(not(any(loom, miri)))]
mod mapped;
mod master;
pub mod model;
#[cfg(not(any(loom, miri)))]
pub mod socket;
mod storage;
mod token;
mod tuning;
#[cfg(not(any(loom, miri)))]
mod wake;
mod worker;

#[cfg(not(any(loom, miri)))]
pub use arena::Arena;
#[cfg(not(any(loom, miri)))]
pub use attach::{
    AttachError, Attached, MasterBell, WorkerLink, WorkerPart, attach, attach_by,
    receive_configuration,
};
pub use bell::{Bell, Rest, SleepWord, prepare_wait, rest, ring};
#[cfg(not(any(loom, miri)))]
pub use control::{Control, Doorbell, FutexWaiter};
pub use fault::{PeerFault, Refusal};
#[cfg(not(any(loom, miri)))]
pub use mapped::{GroupRegion, LinkError, Mapped};
pub use master::{FILL_AHEAD, Master, PREFETCH, Put, Take};
pub use storage::{Location, Span, Storage};
/// Pages that a link may ask for.
#[cfg(not(any(loom, miri)))]
pub use thruway_region::Pages;
pub use token::{LinkFigures, Origin, SlotTag, Token};
pub use tuning::Tuning;
#[cfg(not(any(loom, miri)))]
pub use wake::WakeLine;
pub use worker::{Aside, Current, NoRoom, Outgoing, Worker};
