//! FixIPSrc: this router's address into packets that it made.

use std::net::Ipv4Addr;

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, ShortCut, Spec, Topic,
};
use thruway_packet::{Anno, Batch, Packet};
use thruway_wire::Header;
use thruway_wire::ipv4::Ipv4Header;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<FixIpSrc>(Spec {
    name: "FixIPSrc",
    topic: Topic::Ip,
    summary: "sets the source address of packets that ask for it",
    docs: "Packets with the Fix IP Source annotation (ICMPError sets it) get the source \
           address IPADDR and a right checksum, and the annotation is cleared: so an ICMP \
           error bears the address of the interface it leaves by (RFC 1812 section 4.3.2.4). \
           All others, and those without a marked IP header, pass unchanged.",
    example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
              -> CheckIPHeader -> Paint(1, FIX_IP_SRC) -> FixIPSrc(9.9.9.9) -> Print(ok) \
              -> Discard",
    straight: true,
    changes: Changes::Headers,
    cost: &[Operation::Annotate.once()],
    replicas: Replicas::Alike,
    short_cut: ShortCut::Passes,
    large_packets: true,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct FixIpSrc {
    /// the source address
    #[arg(required, name = "IPADDR")]
    src: Ipv4Addr,
}

/// Sets source and checksum of a packet that asked for it.
#[cold]
pub(super) fn fix(packet: &mut Packet, src: Ipv4Addr) {
    let Ok((header, options, _)) = Ipv4Header::parse_with_options_mut(packet.network_mut()) else {
        return;
    };
    header.set_src(src.to_bits());
    header.fill_checksum(options);
    packet.set_anno_number(Anno::FIX_IP_SRC, 0);
}

impl Element for FixIpSrc {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            if packet.anno_number(Anno::FIX_IP_SRC) != 0 {
                fix(packet, self.src);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_source_and_checksum() {
        let header = Ipv4Header::new(17, [1, 1, 1, 1].into(), [2, 2, 2, 2].into(), 0).unwrap();
        let mut bytes = [0; 20];
        header.emit(&mut bytes).unwrap();
        let mut packet = Packet::new(&bytes).unwrap();
        packet.set_anno_number(Anno::FIX_IP_SRC, 1);
        fix(&mut packet, [9, 9, 9, 9].into());
        assert_eq!(packet.data(), bytes);
        packet.set_network(0, 20);
        fix(&mut packet, [9, 9, 9, 9].into());
        let (header, options, _) = Ipv4Header::parse_with_options(packet.data()).unwrap();
        assert_eq!(header.src_addr().octets(), [9, 9, 9, 9]);
        assert!(header.checksum_ok(options) && packet.anno_number(Anno::FIX_IP_SRC) == 0);
    }
}
