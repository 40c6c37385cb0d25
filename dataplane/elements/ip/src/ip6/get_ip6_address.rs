//! GetIP6Address: an address from the packet into the annotation.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Verdict,
    reasons,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<GetIp6Address>(Spec {
    name: "GetIP6Address",
    topic: Topic::Ip6,
    summary: "copies an IPv6 address from the packet into the annotation",
    docs: "Copies the 16 bytes at OFFSET into the IPv6 destination annotation, which \
           LookupIP6Route and IP6NDSolicitor look at. 24 is the destination of a packet that \
           begins with its IPv6 header. Packets that end before are dropped.",
    example: "InfiniteSource(\\<6000000000003b4020010db8000000000000000000000001 \
              20010db8000000000000000000000002>, LIMIT 1, STOP true) -> GetIP6Address(24) \
              -> Print(ok) -> Discard",
    straight: true,
    drops: GetIp6AddressDrop::DROPS,
    changes: Changes::Nothing,
    cost: &[Operation::HeaderRead.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

reasons! {
    /// Why there is no address.
    enum GetIp6AddressDrop {
        Short = "too-short": "the packet ends before the address does",
    }
}

#[derive(Arguments, Handlers)]
struct GetIp6Address {
    /// where in the packet the address is
    #[arg(required)]
    offset: u32,
}

#[inline]
fn get(packet: &mut Packet, offset: u32) -> Verdict {
    let bytes = packet.data().get(offset as usize..).and_then(|bytes| bytes.first_chunk());
    let Some(addr) = bytes.copied() else { return Verdict::drop(GetIp6AddressDrop::Short) };
    packet.set_dst_ip6(addr);
    Verdict::Pass
}

impl Element for GetIp6Address {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| get(packet, self.offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        let bytes: Vec<u8> = (0..20).collect();
        for (offset, first) in [(0, Some(0)), (4, Some(4)), (5, None), (u32::MAX, None)] {
            let mut packet = Packet::new(&bytes).unwrap();
            let verdict = get(&mut packet, offset);
            assert_eq!(verdict == Verdict::Pass, first.is_some());
            assert_eq!(packet.dst_ip6()[0], first.unwrap_or(0));
        }
    }
}
