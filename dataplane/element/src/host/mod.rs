//! What an engine does for elements, besides moving packets: [`Host`], and traits for what only
//! few elements ask for, which [`crate::Cx`] shows by an accessor each.

mod calls;
mod driver;
mod flows;
mod threads;
mod wiring;

use std::any::Any;
use std::os::fd::{OwnedFd, RawFd};

use thruway_packet::Batch;

pub use calls::Calls;
pub use driver::{Driver, LogSink};
pub use flows::Flows;
pub use threads::Threads;
pub use wiring::{Store, Wiring};

use crate::outbox::Outbox;
use crate::spec::Spec;

/// The action of one element at another, with what makes a [`crate::Cx`] of the other.
pub type Visit<'a> = dyn FnMut(&mut dyn Any, &mut Outbox, &mut dyn Host) + 'a;

/// Services of the engine for elements of any kind.
pub trait Host: Wiring + Threads + Calls + Driver + Flows {
    /// Pulls up to `max` packets at input `port` of `node`, into the empty `batch`.
    fn pull(&mut self, out: &mut Outbox, at: (u32, usize), max: usize, batch: &mut Batch);

    /// Calls [`crate::Element::timer`] of `node` at time `at` (once).
    fn set_timer(&mut self, node: u32, token: u32, at: i64);

    /// Forgets all timers of `node` with this token.
    fn clear_timer(&mut self, node: u32, token: u32);

    /// Lets the thread's sleep end when `fd` (a duplicate of descriptor number `key`) is readable;
    /// `None` ends that.
    fn watch(&mut self, key: RawFd, fd: Option<OwnedFd>);

    /// Runs `visit` on the element `node`, if this thread has it and it is not running.
    fn visit(&mut self, out: &mut Outbox, node: u32, visit: &mut Visit<'_>) {
        let _ = (out, node, visit);
    }

    /// A line for the user (standard error).
    fn log(&mut self, line: &str);

    /// Index of the element `name`, seen from `node`'s compound element.
    fn find(&self, node: u32, name: &str) -> Option<u32> {
        let _ = (node, name);
        None
    }

    /// Name and class of an element.
    fn describe(&self, node: u32) -> Option<(&str, &str)> {
        let _ = node;
        None
    }

    /// The declarations of an element's class.
    fn spec(&self, node: u32) -> Option<&'static Spec> {
        let _ = node;
        None
    }

    /// Packets a source should make per run when the user did not say: 1 where Click's order must
    /// be kept, a vector otherwise.
    fn burst(&self) -> usize {
        1
    }
}
