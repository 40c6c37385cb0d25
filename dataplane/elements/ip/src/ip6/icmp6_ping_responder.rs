//! ICMP6PingResponder: answers pings over IPv6.

use thruway_element::{ArgErrors, Args, Element, Entry, Operation, Replicas, Spec, Topic, reasons};
use thruway_packet::{Anno, Packet};
use thruway_wire::icmpv6::{Icmpv6Header, icmpv6_type};
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::{Header, ip_protocol};

use crate::icmp_ping_responder::Responder;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "ICMP6PingResponder",
        topic: Topic::Ip6,
        summary: "answers ICMPv6 echo requests",
        docs: "Turns each ICMPv6 echo request into its reply (RFC 4443 section 4.2): addresses \
               swapped, hop limit 255, checksum updated, IPv6 destination annotation set to where \
               it goes, paint cleared. Expects marked IPv6 headers. Everything else leaves by \
               output 1, or is dropped where there is none; so are requests behind extension \
               headers, requests to a multicast address, which cannot be a source, and requests \
               from an address that is no single node's.",
        example: "InfiniteSource(\\<6000000000083aff 20010db8000000000000000000000001 \
                  20010db8000000000000000000000002 8000244600010001>, LIMIT 1, STOP true) \
                  -> MarkIP6Header -> ICMP6PingResponder -> Print(ok) -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        drops: Other::DROPS,
        cost: &[Operation::HeaderWrite.times(2.0)],
        replicas: Replicas::Alike,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet is not answered.
    enum Other {
        NotEcho = "not-echo": "it is no ICMPv6 echo request",
        NotUnicast = "not-unicast": "it was sent to a group, or from no single node",
    }
}

fn build(_args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Responder(reply)))
}

/// Turns a request into its reply.
fn reply(packet: &mut Packet) -> Result<(), Other> {
    let parsed = Ipv6Header::parse_mut(packet.network_mut());
    let (header, payload) = parsed.map_err(|_| Other::NotEcho)?;
    if header.next_header() != ip_protocol::ICMPV6 {
        return Err(Other::NotEcho);
    }
    let (icmp, _) = Icmpv6Header::view_mut(payload).map_err(|_| Other::NotEcho)?;
    if icmp.icmp_type() != icmpv6_type::ECHO || icmp.code() != 0 {
        return Err(Other::NotEcho);
    }
    let (src, dst) = (header.src_addr(), header.dst_addr());
    if dst.is_multicast() || src.is_multicast() || src.is_unspecified() || src.is_loopback() {
        return Err(Other::NotUnicast);
    }
    // The checksum's pseudo header has the same addresses, swapped: the same sum.
    icmp.update_type(icmpv6_type::ECHO_REPLY);
    header.update_src(&dst.octets());
    header.update_dst(&src.octets());
    header.set_hop_limit(255);
    packet.set_dst_ip6(src.octets());
    packet.set_anno_number(Anno::PAINT, 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv6Addr;

    const FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

    fn request(src: Ipv6Addr, dst: Ipv6Addr, kind: u8, body: &[u8]) -> Packet {
        let len = Icmpv6Header::LEN + body.len();
        let header = Ipv6Header::new(ip_protocol::ICMPV6, src, dst, len).unwrap();
        let mut bytes = vec![0; Ipv6Header::LEN + len];
        let rest = header.emit(&mut bytes).unwrap();
        Icmpv6Header::new(kind, 0, 0x0001_0002)
            .emit_message((&src.octets(), &dst.octets()), body, rest)
            .unwrap();
        let mut packet = Packet::new(&bytes).unwrap();
        packet.set_network(0, Ipv6Header::LEN);
        packet
    }

    proptest! {
        #[test]
        fn replies_are_sound(low in any::<u64>(), body in prop::collection::vec(any::<u8>(), 0..99)) {
            let me = Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(low));
            let mut packet = request(FAR, me, icmpv6_type::ECHO, &body);
            prop_assert_eq!(reply(&mut packet), Ok(()));
            let (header, message) = Ipv6Header::parse(packet.data()).unwrap();
            let sum = header.pseudo_sum(ip_protocol::ICMPV6, message.len()).with(message);
            prop_assert_eq!(sum.checksum(), 0);
            prop_assert_eq!((header.src_addr(), header.dst_addr()), (me, FAR));
            prop_assert_eq!((header.hop_limit(), message[0], message[1]), (255, 129, 0));
            prop_assert_eq!(&message[8..], &body[..]);
            prop_assert_eq!(packet.dst_ip6(), FAR.octets());
        }
    }

    #[test]
    fn others_are_left_alone() {
        let (me, group) = ("fd00::1".parse().unwrap(), "ff02::1".parse().unwrap());
        let reply_of = |src, dst, kind| reply(&mut request(src, dst, kind, &[]));
        assert_eq!(reply_of(FAR, me, icmpv6_type::ECHO_REPLY), Err(Other::NotEcho));
        assert_eq!(reply_of(FAR, group, icmpv6_type::ECHO), Err(Other::NotUnicast));
        let unspecified = Ipv6Addr::UNSPECIFIED;
        assert_eq!(reply_of(unspecified, me, icmpv6_type::ECHO), Err(Other::NotUnicast));
        assert_eq!(reply(&mut Packet::new(&[0; 60]).unwrap()), Err(Other::NotEcho));
    }
}
