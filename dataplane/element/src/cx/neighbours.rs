//! The elements around an element, and those that store packets among them.

use crate::host::Host;
use crate::outbox::{Outbox, Target};
use crate::storage::{Backlog, Storage};

/// The elements around an element: see [`crate::Cx::neighbours`].
pub struct Neighbours<'a> {
    node: u32,
    out: &'a Outbox,
    host: &'a dyn Host,
}

impl<'a> Neighbours<'a> {
    pub(super) fn new(node: u32, out: &'a Outbox, host: &'a dyn Host) -> Neighbours<'a> {
        Neighbours { node, out, host }
    }

    /// Where packets of output `port` come to: the element and its input.
    pub fn leads_to(&self, port: usize) -> Option<(u32, usize)> {
        match self.out.target(self.node, port) {
            Target::Slot(slot) => self.host.input_of(slot),
            _ => None,
        }
    }

    /// The packet stores (elements that called [`crate::Cx::set_full`]) that packets from output
    /// `port` end in, if all paths end in one: then a source may rest while all are full.
    pub fn stores_downstream(&self, port: usize) -> Option<Vec<u32>> {
        self.host.stores_downstream(self.out, self.node, port)
    }

    /// Elements that press back and that packets from here may come to, in front of `ends`: the
    /// element itself is one of them if it is on a loop. See [`crate::Pressing`].
    pub(crate) fn pressing_downstream(&self, ends: &[u32]) -> Vec<u32> {
        self.host.pressing_downstream(self.out, self.node, ends)
    }

    /// Whether a storing element is full.
    #[inline]
    pub fn is_full(&self, node: u32) -> bool {
        self.host.store(node).is_some_and(|store| store.is_full)
    }

    /// How full another element is, if it stores packets.
    #[inline]
    pub fn storage(&self, node: u32) -> Option<Storage> {
        self.host.storage(node)
    }

    /// The backlog of another element, if it stores packets.
    #[inline]
    pub fn backlog(&self, node: u32) -> Option<Backlog> {
        self.host.backlog(node)
    }

    /// The nearest elements that store packets: downstream of output 0 or, where packets are
    /// pulled through this element, upstream of its input 0.
    pub fn nearest_stores(&self) -> Vec<u32> {
        let is_pulled = self.host.is_pull_input(self.node, 0);
        self.nearest((0, is_pulled), &|node| self.storage(node).is_some())
    }

    /// The nearest elements downstream of output 0 that store packets.
    pub fn nearest_stores_downstream(&self) -> Vec<u32> {
        self.nearest((0, false), &|node| self.storage(node).is_some())
    }

    /// The nearest elements downstream of output `port` that keep packets for later.
    pub fn nearest_buffers_downstream(&self, port: usize) -> Vec<u32> {
        self.nearest((port, false), &|node| self.backlog(node).is_some())
    }

    fn nearest(&self, (port, upstream): (usize, bool), wanted: &dyn Fn(u32) -> bool) -> Vec<u32> {
        self.host.nearest(self.out, (self.node, port, upstream), wanted)
    }
}
