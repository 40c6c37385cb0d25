//! A switchover waits until the functions have given their packets back: what comes meanwhile is
//! held here, and goes to the other host behind the last record.

use thruway_element::Cx;
use thruway_packet::{Batch, Packet};

use super::Replicate;
use super::held::Held;
use super::idle::Idle;

impl Replicate {
    /// Whether no function holds a packet. Until then packets that come are held.
    pub(super) fn is_drained(&mut self, cx: &mut Cx<'_>) -> bool {
        self.held.get_or_insert_with(Held::new);
        (0..self.elements).all(|node| cx.transfers().is_settled(node))
    }

    /// Whether the stream has room for what is held.
    pub(super) fn has_room_for_held(&self) -> bool {
        let buffers = self.held.as_ref().map_or(0, Held::buffers);
        self.link.outgoing.free_buffers() >= buffers
    }

    /// Holds packets of a network; if there are too many, this host serves on.
    pub(super) fn hold(&mut self, cx: &mut Cx<'_>, network: usize, batch: &mut Batch) {
        if self.held.as_mut().is_some_and(|held| held.take(network, batch)) {
            return;
        }
        self.switchover_until = None;
        cx.log(
            "Replicate: this host did not switch over: too many packets came before the functions \
             had given theirs back",
        );
        self.serve_held(cx);
        cx.pass_on(network, batch);
    }

    /// Serves what was held: this host does not switch over.
    pub(super) fn serve_held(&mut self, cx: &mut Cx<'_>) {
        if cx.now() >= self.leased_until {
            return self.drop_held(cx, Idle::Unleased);
        }
        for (network, packet) in self.take_held() {
            cx.emit(network, packet);
        }
    }

    /// Passes what was held on to the other host.
    pub(super) fn pass_held_on(&mut self, cx: &mut Cx<'_>, stream: u64) {
        for (network, packet) in self.take_held() {
            self.tunnel.offer_one(cx, (stream, network), packet);
        }
    }

    /// Drops what was held.
    pub(super) fn drop_held(&mut self, cx: &mut Cx<'_>, why: Idle) {
        for (_, packet) in self.take_held() {
            cx.drop(why, packet);
        }
    }

    fn take_held(&mut self) -> impl Iterator<Item = (usize, Packet)> + use<> {
        self.held.take().into_iter().flat_map(Held::into_packets)
    }
}
