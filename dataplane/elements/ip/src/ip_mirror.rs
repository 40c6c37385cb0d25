//! IPMirror: packets back to where they came from.

use thruway_element::{
    Arguments, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Verdict, reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::{Header, ip_protocol};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<IpMirror>(Spec {
    name: "IPMirror",
    topic: Topic::Ip,
    summary: "swaps source and destination of IP packets",
    docs: "Swaps source and destination address of the marked IP header; in TCP and UDP packets \
           that are no later fragments the ports too, and in TCP sequence and acknowledgement \
           number. No checksum changes by that, and annotations stay. Packets whose IP header is \
           not marked are dropped.",
    example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
              -> CheckIPHeader -> IPMirror -> CheckIPHeader -> Print(ok) -> Discard",
    straight: true,
    drops: NoHeader::DROPS,
    cost: &[Operation::HeaderWrite.once()],
    replicas: Replicas::Alike,
    large_packets: true,
    ..Spec::DEFAULT
});

reasons! {
    /// Why there is nothing to swap.
    enum NoHeader {
        NoHeader = "no-ip-header": "no IP header is marked",
    }
}

#[derive(Arguments, Handlers)]
struct IpMirror;

#[inline]
fn mirror(packet: &mut Packet) -> Verdict {
    let Ok((ip, _, body)) = Ipv4Header::parse_with_options_mut(packet.network_mut()) else {
        return Verdict::drop(NoHeader::NoHeader);
    };
    let (src, dst) = (ip.src(), ip.dst());
    ip.set_src(dst);
    ip.set_dst(src);
    if !ip.is_first_fragment() || !matches!(ip.protocol(), ip_protocol::TCP | ip_protocol::UDP) {
        return Verdict::Pass;
    }
    if let Some([a, b, c, d]) = body.first_chunk_mut() {
        std::mem::swap(a, c);
        std::mem::swap(b, d);
    }
    if ip.protocol() == ip_protocol::TCP
        && let Some(numbers) = body.get_mut(4..12)
    {
        let (seq, ack) = numbers.split_at_mut(4);
        seq.swap_with_slice(ack);
    }
    Verdict::Pass
}

impl Element for IpMirror {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, mirror);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_wire::checksum;

    proptest! {
        /// Twice is nothing, and the sum over all bytes stays: so do all checksums.
        #[test]
        fn involution(mut bytes in prop::collection::vec(any::<u8>(), 0..60), udp: bool) {
            let ip = Ipv4Header::new(if udp { 17 } else { 6 }, [1; 4].into(), [2; 4].into(), 0);
            let total = bytes.len() as u16;
            if let Some(front) = bytes.first_chunk_mut::<20>() {
                let mut ip = ip.unwrap();
                ip.update_total_len(total);
                ip.emit(front).unwrap();
            }
            let mut packet = Packet::new(&bytes).unwrap();
            packet.set_network(0, 20);
            let passes = mirror(&mut packet) == Verdict::Pass;
            prop_assert_eq!(passes, bytes.len() >= 20);
            if passes {
                prop_assert_eq!(checksum::checksum(packet.data()), checksum::checksum(&bytes));
                prop_assert_eq!(&packet.data()[12..16], &[2; 4]);
                mirror(&mut packet);
            }
            prop_assert_eq!(packet.data(), &bytes[..]);
        }
    }
}
