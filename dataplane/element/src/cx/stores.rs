//! Neighbouring elements that store packets, as an element sees them.

use super::Cx;
use crate::session_mover::SessionMover;
use crate::storage::{Backlog, Storage};

impl Cx<'_> {
    /// The packet stores (elements that called [`Cx::set_full`]) that packets from output `port`
    /// end in, if all paths end in one: then a source may rest while all are full.
    pub fn stores_downstream(&self, port: usize) -> Option<Vec<u32>> {
        self.wires.stores_downstream(self.node, port)
    }

    /// Whether a storing element is full.
    #[inline]
    pub fn is_full(&self, node: u32) -> bool {
        self.wires.stores.get(node) == Some(true)
    }

    /// How full another element is, if it stores packets.
    #[inline]
    pub fn storage(&self, node: u32) -> Option<Storage> {
        self.host.storage(node)
    }

    /// The nearest elements that store packets: downstream of output 0 or, where packets are
    /// pulled through this element, upstream of its input 0.
    pub fn nearest_stores(&self) -> Vec<u32> {
        let stores = |node| self.host.storage(node).is_some();
        self.wires.nearest((self.node, 0), self.is_pull_input(0), &stores)
    }

    /// The nearest elements downstream of output 0 that store packets.
    pub fn nearest_stores_downstream(&self) -> Vec<u32> {
        self.wires.nearest((self.node, 0), false, &|node| self.host.storage(node).is_some())
    }

    /// The backlog of another element, if it stores packets.
    #[inline]
    pub fn backlog(&self, node: u32) -> Option<Backlog> {
        self.host.backlog(node)
    }

    /// Calls `f` with another element of this thread that can move its sessions; `None` if the
    /// element cannot.
    pub fn session_mover<R>(
        &mut self,
        node: u32,
        visit: impl FnOnce(&mut dyn SessionMover) -> R,
    ) -> Option<R> {
        let (mut visit, mut found) = (Some(visit), None);
        self.host.session_mover(node, &mut |mover| {
            found = visit.take().map(|visit| visit(mover));
        });
        found
    }

    /// The nearest elements downstream of output `port` that keep packets for later.
    pub fn nearest_buffers_downstream(&self, port: usize) -> Vec<u32> {
        let keeps = |node| self.host.backlog(node).is_some();
        self.wires.nearest((self.node, port), false, &keeps)
    }
}
