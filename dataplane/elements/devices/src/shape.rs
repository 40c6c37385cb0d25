//! How FromDevice is to shape packets.

use thruway_element::Cx;
use thruway_packet::{Anno, Batch, Packet, PacketKind};
use thruway_port::capture::LinkType;

use super::losses::Lost;
use thruway_elements_captures::encap;

/// How packets are to be.
pub(super) struct Shape {
    pub(super) snaplen: usize,
    pub(super) force_ip: bool,
    pub(super) timestamp: bool,
    pub(super) encap: Option<LinkType>,
}

/// How a captured frame reached the interface it was captured at, judged by its destination.
pub(super) fn kind_of_destination(packet: &Packet, link: LinkType) -> PacketKind {
    match packet.data() {
        [255, 255, 255, 255, 255, 255, ..] if link == LinkType::Ethernet => PacketKind::Broadcast,
        [first, ..] if link == LinkType::Ethernet && first & 1 == 1 => PacketKind::Multicast,
        _ => PacketKind::Host,
    }
}

impl Shape {
    /// Whether packets can be taken as they come.
    pub(super) fn is_plain(&self) -> bool {
        self.snaplen == usize::MAX && !self.force_ip && self.timestamp
    }

    /// Makes packets as they are to be.
    pub(super) fn apply(&self, cx: &mut Cx<'_>, batch: &mut Batch, link: LinkType) {
        batch.extract(
            |packet| {
                let cut = packet.len().saturating_sub(self.snaplen);
                if cut > 0 {
                    let extra = packet.anno_number(Anno::EXTRA_LENGTH) + cut as u32;
                    packet.set_anno_number(Anno::EXTRA_LENGTH, extra.min(u32::from(u16::MAX)));
                    packet.truncate(self.snaplen);
                }
                if !self.timestamp {
                    packet.set_timestamp(0);
                }
                (self.force_ip && !encap::mark_ip(packet, link)).then_some(())
            },
            |packet, ()| cx.drop(Lost::NotIp, packet),
        );
    }
}
