//! SetTCPChecksum, SetUDPChecksum: the right checksum into transport headers.

use thruway_element::{
    Alias, ArgError, Args, Arguments, Changes, Cost, CostModel, Cx, Element, Entry, Handlers, Load,
    Operation, Replicas, Spec, Topic, Verdict, reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::tcp::TcpHeader;
use thruway_wire::udp::UdpHeader;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<SetTransportChecksum>(Spec {
    name: "SetTCPChecksum",
    aliases: &[Alias { name: "SetUDPChecksum", summary: "sets that of UDP; has no FIXOFF" }],
    topic: Topic::Ip,
    summary: "sets the TCP or UDP checksum",
    docs: "Expects TCP packets (SetUDPChecksum: UDP packets) whose IP header is marked, and \
           computes and sets their checksum. The protocol field is not looked at. With FIXOFF, a \
           TCP header length that cannot be is first set to the whole segment. Packets whose \
           lengths do not fit, such as fragments, are dropped; the first is reported to the user.",
    example: "InfiniteSource(\\<4500001c00000000401177cf0100000102000002 0001000200080000>, \
              LIMIT 1, STOP true) -> MarkIPHeader -> SetUDPChecksum -> Print(ok) -> Discard",
    straight: true,
    drops: SetTcpChecksumDrop::DROPS,
    cost: &[Operation::ChecksumLine.once()],
    changes: Changes::Headers,
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
})
.with_cost_model::<SetTransportChecksum>();

reasons! {
    /// Why there is no checksum to set.
    enum SetTcpChecksumDrop {
        Length = "bad-length": "the lengths in the headers and that of the packet do not fit",
        Fragment = "fragment": "a fragment has no whole segment to sum",
    }
}

#[derive(Arguments, Handlers)]
struct SetTransportChecksum {
    #[new(args.class() == "SetUDPChecksum")]
    udp: bool,
    #[arg(
        optional, name = "FIXOFF", value = bool, or = "false",
        "whether impossible header lengths are set right"
    )]
    #[new(for_tcp(args, udp, fixoff)?)]
    fix_offset: bool,
    reported: bool,
}

/// Gives a header length that cannot be the length of the segment.
fn fix_length(segment: &mut [u8]) {
    let len = segment.len().min(60) & !3;
    let Ok((header, _)) = TcpHeader::view_mut(segment) else { return };
    if header.header_len() < TcpHeader::LEN || header.header_len() > len {
        // 20 to 60: there is room for the fixed part.
        let _ = header.set_header_len(len);
    }
}

#[inline]
fn set(packet: &mut Packet, udp: bool, fix_offset: bool) -> Result<(), SetTcpChecksumDrop> {
    let (ip, body) =
        Ipv4Header::parse_mut(packet.network_mut()).map_err(|_| SetTcpChecksumDrop::Length)?;
    if ip.is_fragment() {
        return Err(SetTcpChecksumDrop::Fragment);
    }
    let filled = if udp {
        let len = UdpHeader::view(body).map_err(|_| SetTcpChecksumDrop::Length)?.0.len();
        // Of the name, not of the field: as documented that is not looked at.
        UdpHeader::fill_checksum(body, pseudo(ip, thruway_wire::ip_protocol::UDP, len.into()))
    } else {
        if fix_offset {
            fix_length(body);
        }
        let sum = pseudo(ip, thruway_wire::ip_protocol::TCP, body.len());
        TcpHeader::fill_checksum(body, sum)
    };
    filled.map_err(|_| SetTcpChecksumDrop::Length)
}

#[inline]
fn pseudo(ip: &Ipv4Header, protocol: u8, len: usize) -> thruway_wire::checksum::Sum {
    thruway_wire::checksum::Sum::pseudo_v4(ip.src(), ip.dst(), protocol, len)
}

fn for_tcp(args: &Args<'_>, udp: bool, fixoff: bool) -> Result<bool, ArgError> {
    if udp && args.given("FIXOFF") {
        return Err(args.error("FIXOFF", "SetUDPChecksum takes no arguments"));
    }
    Ok(fixoff)
}

impl Element for SetTransportChecksum {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let before = batch.len();
        cx.filter(batch, |packet| match set(packet, self.udp, self.fix_offset) {
            Ok(()) => Verdict::Pass,
            Err(bad) => Verdict::drop(bad),
        });
        if batch.len() < before && !self.reported {
            self.reported = true;
            let name = if self.udp { "SetUDPChecksum" } else { "SetTCPChecksum" };
            cx.log(&format!("{name}: bad lengths"));
        }
    }
}

impl CostModel for SetTransportChecksum {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let lines = Load::lines(load.payload_bytes);
        // Both headers are checked; the pseudo header is as much to sum as one of IP.
        Some(vec![
            Operation::HeaderCheck.once(),
            Operation::HeaderRead.once(),
            Operation::ChecksumIp.once(),
            Operation::ChecksumLine.times(lines),
            Operation::HeaderWrite.once(),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(body: &[u8]) -> Packet {
        let ip = Ipv4Header::new(0, [1, 0, 0, 1].into(), [2, 0, 0, 2].into(), body.len()).unwrap();
        let mut bytes = vec![0; 20 + body.len()];
        ip.emit(&mut bytes).unwrap().copy_from_slice(body);
        let mut packet = Packet::new(&bytes).unwrap();
        packet.set_network(0, 20);
        packet
    }

    proptest! {
        /// A full sum over pseudo header and segment is the oracle.
        #[test]
        fn sums_to_zero_or_is_refused(body in prop::collection::vec(any::<u8>(), 0..60)) {
            for (protocol, udp, at) in [(6, false, 16), (17, true, 6)] {
                let mut packet = packet(&body);
                match set(&mut packet, udp, false) {
                    Ok(()) => {
                        let body = &packet.data()[20..];
                        let len = match udp {
                            true => usize::from(u16::from_be_bytes([body[4], body[5]])),
                            false => body.len(),
                        };
                        let mut whole = vec![1, 0, 0, 1, 2, 0, 0, 2, 0, protocol, 0, len as u8];
                        whole.extend(&body[..len]);
                        prop_assert_eq!(thruway_wire::checksum::checksum(&whole), 0);
                        prop_assert!(!udp || body[at] | body[at + 1] != 0);
                    }
                    Err(_) => prop_assert_eq!(&packet.data()[20..], &body[..]),
                }
            }
        }

        #[test]
        fn impossible_lengths_are_fixed(body in prop::collection::vec(any::<u8>(), 20..90)) {
            prop_assert_eq!(set(&mut packet(&body), false, true), Ok(()));
        }
    }
}
