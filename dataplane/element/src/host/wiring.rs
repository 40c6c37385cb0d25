//! The graph around an element, and the elements in it that store packets.

use crate::outbox::Outbox;
use crate::storage::{Backlog, Storage};

/// The state of an element that stores packets, as it has reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store {
    /// Whether it is full.
    pub is_full: bool,
    /// Whether a full store applies backpressure to upstream elements that can pause.
    pub presses: bool,
    /// Whether packets pass it at other times: those behind it store them.
    pub passes: bool,
}

/// Connections and stores. By default, there are neither pull inputs nor other elements.
pub trait Wiring {
    /// Number of connected inputs of `node`.
    fn inputs(&self, node: u32) -> usize;

    /// Whether input `port` of `node` is a pull input.
    fn is_pull_input(&self, node: u32, port: usize) -> bool {
        let _ = (node, port);
        false
    }

    /// The element and input of a slot.
    fn input_of(&self, slot: u32) -> Option<(u32, usize)> {
        let _ = slot;
        None
    }

    /// See [`crate::Cx::shortcut_pull`].
    fn shortcut_pull(&mut self, node: u32, output: usize, input: usize) {
        let _ = (node, output, input);
    }

    /// Notes the state of `node`, which stores packets.
    fn set_store(&mut self, node: u32, store: Store) {
        let _ = (node, store);
    }

    /// The noted state of `node`.
    fn store(&self, node: u32) -> Option<Store> {
        let _ = node;
        None
    }

    /// [`crate::Buffer::storage`] of another element of this thread.
    fn storage(&self, node: u32) -> Option<Storage> {
        let _ = node;
        None
    }

    /// The backlog of another element of this thread; `None` for one that keeps no packets
    /// ([`crate::Buffer`]).
    fn backlog(&self, node: u32) -> Option<Backlog> {
        let _ = node;
        None
    }

    /// See [`crate::Neighbours::stores_downstream`].
    fn stores_downstream(&self, out: &Outbox, node: u32, port: usize) -> Option<Vec<u32>> {
        let _ = (out, node, port);
        None
    }

    /// See [`crate::Pressing`].
    fn pressing_downstream(&self, out: &Outbox, node: u32, ends: &[u32]) -> Vec<u32> {
        let _ = (out, node, ends);
        Vec::new()
    }

    /// The nearest nodes for which `wanted` holds: upstream of the pull input `port` of `node`, or
    /// downstream of its output of that number, as the last word of `from` says. In order of their
    /// numbers.
    fn nearest(
        &self,
        out: &Outbox,
        from: (u32, usize, bool),
        wanted: &dyn Fn(u32) -> bool,
    ) -> Vec<u32> {
        let _ = (out, from, wanted);
        Vec::new()
    }
}
