//! Figures that any thread reads at any moment, without a command for their element's thread.

use std::sync::Arc;

use crate::Element;
use crate::cx::Cx;

/// An element that publishes figures besides its counters: numbers in its thread's own memory.
///
/// Its thread copies them into shared words a few times a second, between two rounds. So monitoring
/// interrupts no thread that moves packets. Each figure has the name of a read handler; that
/// handler's [`Merge`](crate::Merge) adds the figures of several threads up, or takes the first
/// thread's.
pub trait Publisher: Element {
    /// Names of the figures; the same as long as the element lives.
    fn figures(&self) -> &'static [&'static str];

    /// Writes the figures, in the order of their names. The thread calls it for all of its elements
    /// between two rounds: no allocation, lock, system call or formatting.
    fn publish(&self, cx: &mut Cx<'_>, values: &mut [u64]);

    /// Facts that any thread reads at any time. Called once, after the element is initialised.
    fn facts(&self) -> Option<Arc<dyn Facts>> {
        None
    }
}

/// Facts about something that works for an element outside of its thread, such as the process of a
/// function. Only threads that move no packets call it.
pub trait Facts: Send + Sync {
    /// Each fact: the name of a read handler, and that handler's answer.
    fn facts(&self) -> Vec<(&'static str, String)>;
}
