//! StripTransportHeader and UnstripTransportHeader: the packet's front behind its TCP or UDP
//! header, and back.

use thruway_element::{
    Alias, Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
    Verdict, reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::ip_protocol;
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::tcp::TcpHeader;
use thruway_wire::udp::UdpHeader;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<StripTransportHeader>(Spec {
    name: "StripTransportHeader",
    aliases: &[
        Alias { name: "StripTCPHeader", summary: "for TCP only" },
        Alias { name: "StripUDPHeader", summary: "the same; UDP or TCP" },
        Alias {
            name: "UnstripTransportHeader",
            summary: "gives back what StripTransportHeader took, and nothing where the packet \
                      begins at or before its transport header",
        },
        Alias { name: "UnstripTCPHeader", summary: "the same" },
    ],
    topic: Topic::Ethernet,
    summary: "lets packets begin behind the TCP or UDP header",
    docs: "Takes off all that is in front of the payload of TCP and UDP packets over IPv4 with a \
           marked IP header, options included; the bytes stay in the head room. Other packets, \
           and those that end before, are dropped.",
    example: "InfiniteSource(DATA abc, LIMIT 1, STOP true) \
              -> UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2) -> StripTransportHeader -> Print -> Discard",
    straight: true,
    drops: StripTransportDrop::DROPS,
    cost: &[Operation::HeaderRead.once(), Operation::HeaderMove.once()],
    changes: Changes::Headers,
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet goes no further.
    enum StripTransportDrop {
        NoHeader = "no-transport-header": "no TCP or UDP header is known in it",
        TooShort = "too-short": "it ends before its payload",
    }
}

#[derive(Arguments, Handlers)]
struct StripTransportHeader {
    /// TCP only.
    #[new(args.class() == "StripTCPHeader")]
    tcp: bool,
    #[new(args.class().starts_with("Unstrip"))]
    give_back: bool,
}

/// Lets the packet begin at `place`, an offset to its present front.
fn begin_at(packet: &mut Packet, place: isize) -> bool {
    match usize::try_from(place) {
        Ok(forward) => packet.pull(forward),
        Err(_) => packet.unpull(place.unsigned_abs()),
    }
}

/// Length of the transport header of a packet that begins with its IP header.
fn header_len(packet: &Packet, tcp: bool) -> Option<usize> {
    let (ip, _) = Ipv4Header::view(packet.data()).ok()?;
    match ip.protocol() {
        ip_protocol::TCP => {
            let (header, _) = TcpHeader::view(packet.transport()).ok()?;
            Some(header.header_len())
        }
        ip_protocol::UDP if !tcp => Some(UdpHeader::LEN),
        _ => None,
    }
}

fn strip(packet: &mut Packet, tcp: bool) -> Verdict {
    let Some(place) = packet.network_signed_offset() else {
        return Verdict::drop(StripTransportDrop::NoHeader);
    };
    if !begin_at(packet, place) {
        return Verdict::drop(StripTransportDrop::TooShort);
    }
    let (Some(at), Some(len)) = (packet.transport_offset(), header_len(packet, tcp)) else {
        return Verdict::drop(StripTransportDrop::NoHeader);
    };
    match packet.pull(at + len) {
        true => Verdict::Pass,
        false => Verdict::drop(StripTransportDrop::TooShort),
    }
}

fn unstrip(packet: &mut Packet) -> Verdict {
    match packet.transport_signed_offset() {
        Some(place @ ..0) if !begin_at(packet, place) => {
            Verdict::drop(StripTransportDrop::TooShort)
        }
        Some(_) => Verdict::Pass,
        None => Verdict::drop(StripTransportDrop::NoHeader),
    }
}

impl Element for StripTransportHeader {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let tcp = self.tcp;
        match self.give_back {
            true => cx.filter(batch, unstrip),
            false => cx.filter(batch, |packet| strip(packet, tcp)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_and_marks(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            (at, len, pull) in (0usize..40, 0usize..60, 0usize..40),
        ) {
            let mut packet = Packet::new(&bytes).unwrap();
            packet.set_network(at, len);
            let _ = packet.pull(pull);
            if strip(&mut packet, false) == Verdict::Pass {
                prop_assert!(bytes.ends_with(packet.data()));
                prop_assert_eq!(unstrip(&mut packet), Verdict::Pass);
                prop_assert_eq!(packet.data(), &bytes[at + len..]);
            }
        }
    }
}
