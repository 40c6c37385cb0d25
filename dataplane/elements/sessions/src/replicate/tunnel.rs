//! Packets that come to a host that has switched over, on their way to the other one: neighbours
//! and switches learn of the change a moment later.

use std::sync::Arc;

use thruway_element::Cx;
use thruway_packet::{Batch as Packets, Packet};
use thruway_replication::{Batch, Content, Link, PAYLOAD_MAX, write_packet};

use super::idle::Idle;

/// See the module.
pub(super) struct Tunnel {
    link: Arc<Link>,
    batch: Option<Batch>,
}

impl Tunnel {
    pub(super) fn new(link: Arc<Link>) -> Tunnel {
        Tunnel { link, batch: None }
    }

    /// Passes packets of a network on over this stream, those that `is_wanted`.
    pub(super) fn offer(
        &mut self,
        cx: &mut Cx<'_>,
        (stream, network): (u64, usize),
        packets: &mut Packets,
        is_wanted: impl Fn(&Packet) -> bool,
    ) {
        for packet in packets.drain() {
            if is_wanted(&packet) {
                self.offer_one(cx, (stream, network), packet);
            } else {
                cx.drop(Idle::Standby, packet);
            }
        }
    }

    /// Passes a packet of a network on over this stream.
    pub(super) fn offer_one(
        &mut self,
        cx: &mut Cx<'_>,
        (stream, network): (u64, usize),
        packet: Packet,
    ) {
        let is_written = self.write(stream, network, packet.data());
        cx.drop(if is_written { Idle::PassedOn } else { Idle::PassFull }, packet);
    }

    fn write(&mut self, stream: u64, network: usize, frame: &[u8]) -> bool {
        for _ in 0..2 {
            if self.batch.as_ref().is_some_and(|batch| batch.stream != stream) {
                self.flush();
            }
            if self.batch.is_none() {
                let content = Content::Packets;
                let batch = |bytes| Batch { stream, content, bytes, ..Batch::default() };
                self.batch = self.link.outgoing.buffer().map(batch);
            }
            let Some(batch) = &mut self.batch else { return false };
            if write_packet(network, frame, PAYLOAD_MAX, &mut batch.bytes) {
                batch.count += 1;
                return true;
            }
            self.flush();
        }
        false
    }

    /// Sends what there is.
    pub(super) fn flush(&mut self) {
        match self.batch.take() {
            // Whoever has a buffer has room.
            Some(batch) if batch.count > 0 => drop(self.link.outgoing.put(batch)),
            Some(batch) => self.link.outgoing.recycle(batch.bytes),
            None => {}
        }
    }
}
