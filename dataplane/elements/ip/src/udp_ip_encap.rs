//! UDPIPEncap: UDP and IPv4 headers in front.

use std::net::Ipv4Addr;

use thruway_element::{
    Args, Arguments, Cx, Element, Entry, HandlerError, Handlers, Names, Operation, Reason,
    Replicas, Spec, Topic, UdpPort, Verdict,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::checksum::Sum;
use thruway_wire::udp::UdpHeader;
use thruway_wire::{Header, ip_protocol};

use super::outer::{Destination, Encap, Outer};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<UdpIpEncap>(Spec {
    name: "UDPIPEncap",
    topic: Topic::Ip,
    summary: "puts UDP and IPv4 headers in front of packets",
    docs: "Puts a UDP header and an IPv4 header with time-to-live 250 in front of every packet, \
           marks the latter and sets the destination annotation to its destination. DST may be \
           DST_ANNO, which takes the address from the destination annotation. Without CHECKSUM \
           the UDP checksum is 0, which is \"none\". Packets that would grow beyond 65,535 bytes \
           are dropped. CheckIPHeader and Strip(28) are the other end.",
    example: "InfiniteSource(DATA abc, LIMIT 1, STOP true) \
              -> UDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 1234) -> CheckIPHeader -> CheckUDPHeader \
              -> Print(ok) -> Discard",
    straight: true,
    drops: Encap::DROPS,
    cost: &[Operation::HeaderWrite.times(2.0), Operation::ChecksumLine.once()],
    replicas: Replicas::Apart("each has its part of the identifications"),
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
#[handler(
    both, name = "src", "source address", read = self.outer.read(name),
    run = self.outer.write(name, value)?
)]
#[handler(
    both, name = "sport", "source port", get = self.ports.0,
    run = self.ports.0 = self.port(name, value)?
)]
#[handler(
    both, name = "dst", "destination address, or DST_ANNO", read = self.outer.read(name),
    run = self.outer.write(name, value)?
)]
#[handler(
    both, name = "dport", "destination port", get = self.ports.1,
    run = self.ports.1 = self.port(name, value)?
)]
struct UdpIpEncap {
    #[arg(required, name = "SRC", value = Ipv4Addr, "source address")]
    #[arg(required, name = "SPORT", value = UdpPort, "source port")]
    #[arg(required, name = "DST", value = Destination, "destination address, or DST_ANNO")]
    #[new(outer(args, src, dst))]
    outer: Outer,
    #[arg(required, name = "DPORT", value = UdpPort, "destination port")]
    #[new((sport.0, dport.0))]
    ports: (u16, u16),
    #[new(args.names())]
    names: Names,
    /// whether the UDP checksum is set
    #[arg(optional, or = "true")]
    checksum: bool,
}

fn outer(args: &Args<'_>, src: Ipv4Addr, dst: Destination) -> Outer {
    let mut outer = Outer::new(args, ip_protocol::UDP, src, dst);
    outer.header().set_ttl(250);
    outer
}

impl UdpIpEncap {
    #[inline]
    fn encap(&mut self, packet: &mut Packet) -> Verdict {
        let Ok(header) = UdpHeader::new(self.ports.0, self.ports.1, packet.len()) else {
            return Verdict::drop(Encap::TooLong);
        };
        if !packet.push(UdpHeader::LEN) {
            return Verdict::Drop(Reason::NO_MEMORY);
        }
        let (src, dst) = self.outer.addresses(packet);
        let data = packet.data_mut();
        // There is room: it was just pushed.
        let _ = header.emit(data);
        if self.checksum {
            let pseudo = Sum::pseudo_v4(src, dst, ip_protocol::UDP, data.len());
            let _ = UdpHeader::fill_checksum(data, pseudo);
        }
        self.outer.encap(packet)
    }
}

impl Element for UdpIpEncap {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.encap(packet));
    }
}

impl UdpIpEncap {
    fn port(&self, name: &str, value: &str) -> Result<u16, HandlerError> {
        Ok(self.names.handler_value::<UdpPort>(name, value)?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_elements_rig::Rig;
    use thruway_wire::ipv4::Ipv4Header;

    proptest! {
        #[test]
        fn round_trip(body in prop::collection::vec(any::<u8>(), 0..100), checksum: bool) {
            let texts = ["1.0.0.1", "53", "DST_ANNO", "99", &checksum.to_string()];
            let mut rig = Rig::new(&ENTRY, &texts, 1).unwrap();
            let mut packet = Packet::new(&body).unwrap();
            packet.set_dst_ip([9, 8, 7, 6]);
            let out = rig.push([packet]);
            let (ip, datagram) = Ipv4Header::parse(out[0][0].data()).unwrap();
            prop_assert!(ip.checksum_ok(&[]) && ip.dst_addr().octets() == [9, 8, 7, 6]);
            let (udp, payload) = UdpHeader::parse(datagram).unwrap();
            prop_assert_eq!((udp.src_port(), udp.dst_port()), (53, 99));
            prop_assert_eq!(udp.checksum() != 0, checksum);
            let pseudo = ip.pseudo_sum(datagram.len());
            prop_assert_eq!(UdpHeader::checksum_ok(datagram, pseudo), Ok(true));
            prop_assert_eq!(payload, &body[..]);
        }
    }
}
