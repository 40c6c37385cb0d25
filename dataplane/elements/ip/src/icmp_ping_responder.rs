//! ICMPPingResponder: answers pings.

use thruway_element::{
    ArgErrors, Args, Cx, Element, Entry, Operation, Reason, Replicas, Spec, Topic, Verdict, Wants,
    reasons,
};
use thruway_packet::{Anno, Batch, Packet};
use thruway_wire::icmp::{IcmpHeader, icmp_type};
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::{Header, ip_protocol};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "ICMPPingResponder",
        topic: Topic::Ip,
        summary: "answers ICMP echo requests",
        docs: "Turns each ICMP echo request into its reply (RFC 792): addresses swapped, \
               time-to-live 255, DF cleared, checksums updated, destination annotation set to \
               where it goes, paint cleared. Expects marked IP headers. Everything else leaves by \
               output 1, or is dropped where there is none; so are fragments, which would need \
               reassembly first, and requests to a multicast or broadcast address, which need not \
               be answered (RFC 1122 section 3.2.2.6) and whose address cannot be a source.",
        example: "InfiniteSource(\\<4500001c00000000400174e0010000010200000208 00f7fd00010001>, \
                  LIMIT 1, STOP true) -> MarkIPHeader -> ICMPPingResponder -> Print(ok) -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        drops: Other::DROPS,
        wants: Wants { classes: &["icmp type echo"], ..Wants::NOTHING },
        cost: &[Operation::HeaderWrite.times(2.0)],
        replicas: Replicas::Alike,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet is not answered.
    pub(super) enum Other {
        NotEcho = "not-echo": "it is no ICMP echo request",
        Fragment = "fragment": "it is a fragment of one",
        NotUnicast = "not-unicast": "it was sent to a multicast or broadcast address",
    }
}

/// Turns requests into their replies, by what it is made of; others leave by output 1.
pub(crate) struct Responder<Other>(pub fn(&mut Packet) -> Result<(), Other>);

impl<Other: Into<Reason> + 'static> Element for Responder<Other> {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let now = cx.now();
        cx.filter(batch, |packet| match (self.0)(packet) {
            Ok(()) => {
                packet.set_timestamp(now);
                Verdict::Pass
            }
            Err(other) => Verdict::reject(1, other),
        });
    }
}

fn build(_args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Responder(reply)))
}

/// Turns a request into its reply.
pub(super) fn reply(packet: &mut Packet) -> Result<(), Other> {
    let parsed = Ipv4Header::parse_mut(packet.network_mut());
    let (header, payload) = parsed.map_err(|_| Other::NotEcho)?;
    if header.protocol() != ip_protocol::ICMP {
        return Err(Other::NotEcho);
    }
    if header.is_fragment() {
        return Err(Other::Fragment);
    }
    let (icmp, _) = IcmpHeader::view_mut(payload).map_err(|_| Other::NotEcho)?;
    if icmp.icmp_type() != icmp_type::ECHO {
        return Err(Other::NotEcho);
    }
    let (src, dst) = (header.src_addr(), header.dst_addr());
    if dst.is_multicast() || dst.is_broadcast() {
        return Err(Other::NotUnicast);
    }
    icmp.update_type(icmp_type::ECHO_REPLY);
    IcmpHeader::fix_zero_checksum(payload);
    header.update_src(dst.to_bits());
    header.update_dst(src.to_bits());
    let old = header.flags_offset();
    header.update_checksum(thruway_wire::checksum::Delta::of_u16(old, 0));
    header.set_flags_offset(0);
    let old = u16::from(header.ttl()) << 8;
    header.update_checksum(thruway_wire::checksum::Delta::of_u16(old, 0xff00));
    header.set_ttl(255);
    packet.set_dst_ip(src.octets());
    packet.set_anno_number(Anno::PAINT, 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_wire::checksum;

    fn request(dst: [u8; 4], kind: u8, flags_offset: u16, body: &[u8]) -> Packet {
        let len = 8 + body.len();
        let mut header = Ipv4Header::new(1, [1, 0, 0, 1].into(), dst.into(), len).unwrap();
        header.set_flags_offset(flags_offset);
        header.fill_checksum(&[]);
        let mut bytes = vec![0; 20 + len];
        let rest = header.emit(&mut bytes).unwrap();
        IcmpHeader::new(kind, 0, 0x0001_0002).emit_message(body, rest).unwrap();
        let mut packet = Packet::new(&bytes).unwrap();
        packet.set_network(0, 20);
        packet
    }

    #[test]
    fn a_reply_of_zeros_is_sound() {
        let mut bytes = request([9, 9, 9, 9], 8, 0, &[0; 4]).data().to_vec();
        IcmpHeader::new(8, 0, 0).emit_message(&[0; 4], &mut bytes[20..]).unwrap();
        let mut packet = Packet::new(&bytes).unwrap();
        packet.set_network(0, 20);
        assert_eq!(reply(&mut packet), Ok(()));
        assert_eq!(packet.data()[20..], [0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn replies_are_sound(
            dst in 0u32..0xe000_0000,
            body in prop::collection::vec(any::<u8>(), 0..100),
            df in any::<bool>(),
        ) {
            let flags = if df { 0x4000 } else { 0 };
            let mut packet = request(dst.to_be_bytes(), 8, flags, &body);
            prop_assert_eq!(reply(&mut packet), Ok(()));
            let (header, message) = Ipv4Header::parse(packet.data()).unwrap();
            prop_assert!(header.checksum_ok(&[]) && checksum::checksum(message) == 0);
            prop_assert_eq!((header.src(), header.dst_addr().octets()), (dst, [1, 0, 0, 1]));
            prop_assert_eq!((header.ttl(), header.flags_offset(), message[0]), (255, 0, 0));
            prop_assert_eq!(&message[8..], &body[..]);
            prop_assert_eq!(packet.dst_ip(), [1, 0, 0, 1]);
        }
    }

    #[test]
    fn others_are_left_alone() {
        let me = [2, 0, 0, 2];
        assert_eq!(reply(&mut request(me, 0, 0, &[])), Err(Other::NotEcho));
        assert_eq!(reply(&mut request(me, 8, 0x2000, &[])), Err(Other::Fragment));
        assert_eq!(reply(&mut request([224, 0, 0, 1], 8, 0, &[])), Err(Other::NotUnicast));
        assert_eq!(reply(&mut Packet::new(&[0; 60]).unwrap()), Err(Other::NotEcho));
    }
}
