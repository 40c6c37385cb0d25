//! The library that the author of an isolated network function writes against.
//!
//! A function is a program of its own. Thruway starts it (`Nf(EXEC "path args")` in a
//! configuration), shares memory with it, and hands it packets, which it reads and changes in
//! place. After NetVM's NetLib (section IV-D of "NetVM: High Performance and Flexible Networking
//! using Virtualization on Commodity Platforms", 2015), a function is a structure of settings and
//! a callback:
//!
//! ```no_run
//! use thruway_nf::{Batch, Config, Verdict};
//!
//! fn main() -> std::process::ExitCode {
//!     let config = Config { name: "short-only", ..Config::DEFAULT };
//!     thruway_nf::run(&config, |start| {
//!         let long = start.counter("long");
//!         Ok(move |batch: &mut Batch<'_>| {
//!             batch.each(|packet| {
//!                 if packet.len() <= 128 {
//!                     return Verdict::Next(0);
//!                 }
//!                 long.add(1);
//!                 Verdict::Drop
//!             })
//!         })
//!     })
//! }
//! ```
//!
//! A closure is the shortest function. One that has timers, handlers or last words implements
//! [`Function`].
//!
//! | to | use |
//! |---|---|
//! | read and change a packet | [`Packet::bytes`], [`Packet::bytes_mut`], [`Packet::push`], [`Packet::pull`], [`Packet::truncate`], [`Packet::extend`] |
//! | send it on or end it | [`Verdict`] |
//! | send more packets in consequence of one, in order | [`Packet::emit`], [`Packet::emit_part`] |
//! | send packets in its own time | [`Cx::inject`] and timers: [`Start::every`], [`Cx::after`] |
//! | keep state of a session | [`Config::scratch_len`], [`Packet::scratch`] |
//! | hear of a session's beginning and end | [`Function::new_session`], [`Function::released_session`] |
//! | count | [`Start::counter`] |
//! | be asked and told while it runs | [`Function::read`], [`Function::write`] |
//! | see and change what flows in connections | [`run_stream`], [`StreamFunction`] |
//! | be several Workers, a thread each, in one process | [`run_workers`], [`Start::worker`] |
//! | test it without a configuration | [`trial`] |
//!
//! While packets wait, the loop makes no system call, takes no lock and allocates nothing; a
//! packet's slot is written only if something about the packet changed.
//!
//! *Absent here:* the engine, elements, and any way to the world but packets. A function that
//! wants more than memory and time does not get it.
#![forbid(unsafe_code)]

mod batch;
mod clock;
mod config;
mod counters;
mod cx;
mod function;
mod host;
mod not_sent;
mod request;
mod requests;
mod responder;
mod room;
mod rounds;
mod session;
mod sessions;
mod streams;
mod timers;
pub mod trial;
mod workers;

pub use batch::{Batch, Packet, Peek, Verdict};
pub use config::Config;
pub use counters::Counter;
pub use cx::Cx;
pub use function::{Function, Start};
pub use not_sent::NotSent;
pub use rounds::{RunError, run, run_on};
pub use session::Session;
pub use streams::{Streams, run_stream};
pub use thruway_nf_abi::message::Welcome;
pub use thruway_payload::{Needs, Next, StreamCursor, StreamFunction};
pub use timers::Timer;
pub use workers::run_workers;

/// The programs of the authors' page compile, and its trials run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/nf-authors.md")]
struct AuthorsPage;
