//! Instantiates a graph and runs it: threads, dispatch, timers.
//!
//! [`Router::new`] builds every element once per thread that reaches it; [`Router::run`] runs the
//! threads until something asks for a stop. Each thread is one `Engine`: a round polls the
//! timers and the tasks, and whatever they emit is dispatched at once, in topological order (one
//! packet alone: depth first, as in Click).
//!
//! *Absent here:* any lock on the packet path. Threads meet in shared elements (a Queue), in the
//! statistics (each written by one thread) and in command queues that are checked once per round.
#![forbid(unsafe_code)]

mod asking;
mod assign;
mod away;
mod build;
mod call;
mod calls;
mod chain;
mod clock;
mod command;
mod control;
mod core;
mod engine;
mod error;
mod figures;
mod flows;
mod handlers;
mod handoff;
mod host;
mod hot_swap;
mod hot_swaps;
mod job;
mod layout;
mod packet_threads;
mod paths;
mod patience;
mod placed;
mod probe;
mod publish;
mod quiet;
mod ranges;
mod remote;
mod replica;
mod resize;
mod rest;
mod rings;
mod router;
mod signals;
mod spread;
mod statistics;
mod streams;
mod timers;
mod topology;
mod trace;
mod traverse;
mod wires;

pub use build::check_arguments;
pub use clock::{ClockKind, Machine, has_constant_cycles};
pub use control::{Control, LogSink, Reconfigure, Reload};
pub use error::{BuildError, Stage};
pub use flows::Flows;
pub use hot_swaps::HotSwaps;
pub use layout::Layout;
pub use patience::{Idle, POLL_MAX_NS};
pub use ranges::ranges;
pub use router::{Options, Outcome, Provide, Router};
pub use spread::Placement;
pub use streams::{Streams, set_up};
pub use topology::named_cores;
pub use trace::{Filter, SHOT_MAX};
