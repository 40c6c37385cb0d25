//! Figures that anyone may read at any moment, without asking the thread of their element.

use std::sync::Arc;

use crate::Element;
use crate::cx::Cx;

/// An element that publishes figures besides its counters: numbers of which only its thread knows.
///
/// Its thread writes them a few times a second, between two rounds, to where every thread reads
/// them: whoever watches a router asks no thread that moves packets. Each has the name of a read
/// handler, whose [`Merge`](crate::Merge) adds the figures of several threads up or takes the first
/// thread's.
pub trait Publisher: Element {
    /// Names of the figures; the same as long as the element lives.
    fn figures(&self) -> &'static [&'static str];

    /// Writes the figures, in the order of their names. Called for each element of a thread within
    /// one pause: no allocation, lock, system call or formatting.
    fn publish(&self, cx: &mut Cx<'_>, values: &mut [u64]);

    /// What any thread may ask at any time; asked for once the element is initialised.
    fn facts(&self) -> Option<Arc<dyn Facts>> {
        None
    }
}

/// What is known of something that works for an element outside of its thread, such as the process
/// of a function. It is asked by threads that move no packets.
pub trait Facts: Send + Sync {
    /// Each fact by the name of a read handler, as that answers.
    fn facts(&self) -> Vec<(&'static str, String)>;
}
