//! MarkIPHeader: says where the IP header is, without a check.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, ShortCut, Spec, Topic,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<MarkIpHeader>(Spec {
    name: "MarkIPHeader",
    topic: Topic::Ip,
    summary: "marks the IP header without checking it",
    docs: "Marks the network header OFFSET bytes into the packet, and the transport header \
           behind it by the header length in it. Nothing is checked: CheckIPHeader does \
           that. A packet that is too short for an IP header there goes on unmarked.",
    example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
              -> MarkIPHeader -> DecIPTTL -> Print(ok) -> Discard",
    straight: true,
    changes: Changes::Nothing,
    cost: &[Operation::HeaderRead.once()],
    replicas: Replicas::Alike,
    short_cut: ShortCut::Passes,
    large_packets: true,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct MarkIpHeader {
    /// where the IP header begins
    #[arg(optional, or = "0")]
    offset: usize,
}

#[inline]
fn mark(packet: &mut Packet, offset: usize) {
    match packet.data().get(offset..).and_then(|bytes| bytes.first_chunk::<20>()) {
        Some(header) => {
            let header_len = usize::from(header[0] & 0x0f) * 4;
            packet.set_network(offset, header_len);
        }
        None => packet.clear_network(),
    }
}

impl Element for MarkIpHeader {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            mark(packet, self.offset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_what_is_long_enough() {
        let mut packet = Packet::new(&[0x46; 40]).unwrap();
        mark(&mut packet, 14);
        assert_eq!((packet.network_offset(), packet.transport_offset()), (Some(14), Some(38)));
        mark(&mut packet, 21);
        assert_eq!(packet.network_offset(), None);
        mark(&mut packet, usize::MAX);
        assert_eq!(packet.network_offset(), None);
    }
}
