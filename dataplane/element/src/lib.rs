//! The Element trait, specs, arguments, handlers, drop reasons.
//!
//! An element is one file: a [`Spec`] that declares what the rest of the system derives from it, a
//! `build` function from arguments to state, and an implementation of [`Element`]. Elements know
//! nothing of the engine that runs them: they see batches and a [`Cx`].
//!
//! *Absent here:* any I/O, any thread, any global. An element reaches the outside by `Cx` alone.
#![forbid(unsafe_code)]

mod addresses;
mod answers;
mod arg_error;
pub mod args;
mod capability;
mod connection_transfer;
pub mod cost;
mod cx;
pub mod declared;
mod entry;
mod env;
mod exception;
mod handoff;
mod host;
mod later;
mod names;
mod nearest;
mod one_thread;
mod outbox;
mod outside;
mod parts;
mod paths;
mod per_session;
mod prefix;
mod pressing;
mod probe;
mod publisher;
mod purpose;
mod reason;
mod registered;
mod replicas;
mod session_mover;
mod session_transfer;
pub mod spec;
mod stats;
mod storage;
mod stream_plan;
pub mod text;
mod threading;
mod topic;
mod transfer;
mod values;
mod wants;

pub use addresses::{Addresses, Declared};
pub use answers::Answers;
pub use arg_error::{ArgError, ArgErrors};
pub use args::Args;
pub use capability::{
    Buffer, CostModel, FlowDispatch, FlowEntry, HandoffQueue, HotSwap, Resize, SessionFunction,
    StreamMember,
};
pub use connection_transfer::{
    ConnectionParts, ConnectionTransfer, Connections, StreamTransfer, Streams,
};
pub use cost::{Apart, Cost, Load, Made, NOTHING_MORE, Operation};
pub use cx::{Cx, Neighbours, Verdict};
pub use declared::{Arguments, Handlers};
pub use entry::{Build, Catalog, Entry, Registry, Share};
pub use env::{Env, Shared};
pub use exception::{Exception, Fails};
pub use handoff::{Handoff, Staged};
pub use host::{Calls, Driver, Flows, Host, LogSink, Store, Threads, Visit, Wiring};
pub use later::{Answer, HandlerError, Later, Promise};
pub use names::{Names, handler_value};
pub use nearest::nearest;
pub use outbox::{Outbox, Target};
pub use outside::{Origin, Outside, Pending, Progress, Ready, Remote, RemoteCall};
pub use parts::{PART_HEAD_LEN, parts, write_part};
pub use paths::{Paths, Reach};
pub use per_session::{Known, NoAnswer, Opening, PerSession, Session};
pub use prefix::{Ip6Prefix, IpPrefix};
pub use pressing::Pressing;
pub use probe::{Egress, PROBE_TAG, Probe, Probed, SHORT_CUT_TIMER, ShortCut};
pub use publisher::{Facts, Publisher};
pub use purpose::{Purpose, ThreadNumber};
pub use reason::Reason;
pub use registered::{Capabilities, Cast};
pub use session_mover::SessionMover;
pub use session_transfer::{SessionTransfer, Transfer, TransferForm};
pub use spec::{
    Access, Alias, Arg, ArgRule, Changes, Drop, Handler, Merge, Replicas, Scratch, Spec, Ty, Wants,
};
pub use stats::{NodeStats, Stats};
pub use storage::{Backlog, Storage};
pub use stream_plan::StreamPlan;
pub use threading::Threading;
pub use topic::Topic;
pub use transfer::Transfers;
pub use values::{AnnoArg, Bandwidth, FromArg, Nanos, Size, UdpPort};

/// The element of CONTRIBUTING.md, which must compile.
#[cfg(doctest)]
#[doc = include_str!("../../../CONTRIBUTING.md")]
mod contributing {}

use std::any::Any;

pub use thruway_flow::chain::{Demand, Role};
pub use thruway_flow::manager::{Input, Refusal, Settings};
pub use thruway_flow::plan::Hop;
pub use thruway_flow::{Direction, Ended, Life, Phase, Rule};
use thruway_packet::{Batch, MAX_BATCH};
pub use thruway_payload::{Layer, Needs, Next, StreamCursor, StreamFunction};

/// What [`Element::run`] wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// There was work, call again.
    Again,
    /// Nothing to do until something else happens (a packet moves, a timer, a handler, an fd).
    Idle,
    /// Nothing to do before this time, nanoseconds as [`Cx::now`].
    At(i64),
}

/// A network function: what a node of the graph does.
///
/// One value serves one thread. A graph run by several threads has a replica of the element in
/// each thread that reaches it, built by the same `build` function; what replicas share they take
/// from [`Args::shared`].
pub trait Element: Any + Send {
    /// Called once before packets flow: opens files and devices, starts timers.
    ///
    /// # Errors
    /// A message that names the thing and the remedy; the configuration is then not run.
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let _ = cx;
        Ok(())
    }

    /// Handles a batch that arrived at input `port`. It is never empty.
    ///
    /// What is left in the batch when this returns goes on through output 0 (or is freed, where
    /// there is no output); so an element that only changes bytes loops over the batch, one that
    /// sorts uses [`Cx::filter`], and a sink leaves the batch as it is.
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        let _ = (cx, port, batch);
    }

    /// Fills the empty `batch` with up to `max` packets for a pull at output `port`.
    ///
    /// The default serves agnostic elements: it pulls at input 0 and processes the packets. If none
    /// is left, it pulls again a limited number of times: a caller takes an empty batch to mean
    /// that there are no packets, and sleeps.
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize, batch: &mut Batch) {
        let _ = port;
        for _ in 0..MAX_BATCH {
            cx.pull(0, max, batch);
            if batch.is_empty() {
                return;
            }
            self.process(cx, 0, batch);
            if !batch.is_empty() || cx.has_returned() {
                return;
            }
        }
    }

    /// The element's task (where [`Threading::has_task`]): makes or moves packets.
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        let _ = cx;
        Run::Idle
    }

    /// A timer set by [`Cx::set_timer`] has come.
    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        let _ = (cx, token);
    }

    /// Called once after the last packet: flushes and closes. What cannot be written is said.
    ///
    /// # Errors
    /// A message that names the thing and what was lost.
    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let _ = cx;
        Ok(())
    }
}
