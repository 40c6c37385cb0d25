//! MarkIP6Header: says where the IPv6 header is, without a check.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::ipv6::Ipv6Header;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<MarkIp6Header>(Spec {
    name: "MarkIP6Header",
    topic: Topic::Ip6,
    summary: "marks the IPv6 header without checking it",
    docs: "Marks the network header OFFSET bytes into the packet, and the transport header 40 \
           bytes behind it. Nothing is checked: CheckIP6Header does that. A packet that is too \
           short for an IPv6 header there goes on unmarked.",
    example: "InfiniteSource(\\<6000000000003b4020010db8000000000000000000000001 \
              20010db8000000000000000000000002>, LIMIT 1, STOP true) -> MarkIP6Header \
              -> IP6Print -> Discard",
    straight: true,
    changes: Changes::Nothing,
    cost: &[Operation::HeaderRead.once()],
    replicas: Replicas::Alike,
    large_packets: true,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct MarkIp6Header {
    /// where the IPv6 header begins
    #[arg(optional, as = u32, or = "0")]
    offset: usize,
}

#[inline]
fn mark(packet: &mut Packet, offset: usize) {
    // A 32-bit number: no overflow.
    if packet.len() >= offset + Ipv6Header::LEN {
        packet.set_network(offset, Ipv6Header::LEN);
    } else {
        packet.clear_network();
    }
}

impl Element for MarkIp6Header {
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
        let mut packet = Packet::zeroed(60).unwrap();
        mark(&mut packet, 20);
        assert_eq!((packet.network_offset(), packet.transport_offset()), (Some(20), Some(60)));
        mark(&mut packet, 21);
        assert_eq!(packet.network_offset(), None);
        mark(&mut packet, u32::MAX as usize);
        assert_eq!(packet.network_offset(), None);
    }
}
