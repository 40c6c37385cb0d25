//! ICMPPingEncap: packets become the data of echo requests.

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handlers, Operation, Reason, Replicas, Spec, Topic,
    Ty, Verdict,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::icmp::{IcmpHeader, icmp_type};
use thruway_wire::{Header, ip_protocol};

use super::outer::{Destination, Encap, Outer};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<IcmpPingEncap>(
    Spec {
        name: "ICMPPingEncap",
        topic: Topic::Ip,
        summary: "puts ICMP echo request and IPv4 headers in front of packets",
        docs: "Makes every packet the data of an ICMP echo request (RFC 792) from SRC to DST with \
               time-to-live 255, marks the IP header and sets the destination annotation. IP \
               identification and ICMP sequence number, both in network order, count from 1 and skip \
               0. Packets that would grow beyond 65,535 bytes are dropped.",
        example: "InfiniteSource(DATA abc, LIMIT 1, STOP true) -> ICMPPingEncap(1.0.0.1, 2.0.0.2) \
                  -> CheckIPHeader -> CheckICMPHeader -> Print(ok) -> Discard",
        straight: true,
        args: &[
            Arg::required("SRC", Ty::Ip, "source address"),
            Arg::required("DST", Ty::Ip, "destination address"),
            Arg::keyword("IDENTIFIER", Ty::UInt, "ICMP identifier").or("0"),
        ],
        drops: Encap::DROPS,
        cost: &[Operation::HeaderWrite.times(2.0), Operation::ChecksumLine.once()],
        replicas: Replicas::Apart("each has its part of the identifications and sequence numbers"),
        ..Spec::DEFAULT
    },
    build,
);

/// Makes echo requests of packets, or other ICMP messages.
pub(super) struct PingMaker {
    pub(super) outer: Outer,
    pub(super) identifier: u16,
    pub(super) kind: u8,
    pub(super) code: u8,
}

impl PingMaker {
    /// From SRC, DST and IDENTIFIER.
    pub(super) fn from_args(args: &Args<'_>, ttl: u8) -> Result<PingMaker, ArgErrors> {
        let dst = Destination::Fixed(args.get("DST")?);
        let mut outer = Outer::new(args, ip_protocol::ICMP, args.get("SRC")?, dst);
        outer.header().set_ttl(ttl);
        outer.set_id(outer.id().max(1));
        let identifier = args.get("IDENTIFIER")?;
        Ok(PingMaker { outer, identifier, kind: icmp_type::ECHO, code: 0 })
    }

    /// Puts the headers in front; `outer.id()` was the sequence number.
    #[inline]
    pub(super) fn encap(&mut self, packet: &mut Packet) -> Verdict {
        if !packet.push(IcmpHeader::LEN) {
            return Verdict::Drop(Reason::NO_MEMORY);
        }
        let rest = u32::from(self.identifier) << 16 | u32::from(self.outer.id());
        // There is room: it was just pushed.
        let _ = IcmpHeader::new(self.kind, self.code, rest).emit(packet.data_mut());
        let _ = IcmpHeader::fill_checksum(packet.data_mut());
        let verdict = self.outer.encap(packet);
        self.outer.set_id(self.outer.id().max(1));
        verdict
    }
}

#[derive(Handlers)]
#[handler(
    both, name = "src", "source address", read = self.maker.outer.read(name),
    write = self.maker.outer.write(name, value)
)]
#[handler(
    both, name = "dst", "destination address", read = self.maker.outer.read(name),
    write = self.maker.outer.write(name, value)
)]
pub(super) struct IcmpPingEncap {
    pub(super) maker: PingMaker,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(IcmpPingEncap { maker: PingMaker::from_args(args, 255)? }))
}

impl Element for IcmpPingEncap {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.maker.encap(packet));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_elements_rig::Rig;
    use thruway_wire::checksum;
    use thruway_wire::ipv4::Ipv4Header;

    proptest! {
        #[test]
        fn sound_requests(body in prop::collection::vec(any::<u8>(), 0..100), identifier: u16) {
            let identifier_text = format!("IDENTIFIER {identifier}");
            let mut rig = Rig::new(&ENTRY, &["1.0.0.1", "2.0.0.2", &identifier_text], 1).unwrap();
            let packets = (0..3).map(|_| Packet::new(&body).unwrap());
            for (at, packet) in rig.push(packets)[0].iter().enumerate() {
                let (ip, message) = Ipv4Header::parse(packet.data()).unwrap();
                prop_assert!(ip.checksum_ok(&[]) && checksum::checksum(message) == 0);
                let (icmp, data) = IcmpHeader::parse(message).unwrap();
                let count = at as u16 + 1;
                prop_assert_eq!((ip.id(), icmp.sequence(), ip.ttl()), (count, count, 255));
                prop_assert_eq!((icmp.ident(), data), (identifier, &body[..]));
            }
        }
    }

    #[test]
    fn the_count_skips_zero() {
        let mut rig = Rig::new(&ENTRY, &["1.0.0.1", "2.0.0.2"], 1).unwrap();
        let mut ids = std::collections::HashSet::new();
        for _ in 0..65_535 {
            let out = rig.push([Packet::new(&[]).unwrap()]);
            ids.insert(Ipv4Header::parse(out[0][0].data()).unwrap().0.id());
        }
        assert!(ids.len() == 65_535 && !ids.contains(&0));
    }
}
