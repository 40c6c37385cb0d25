//! CheckTCPHeader, CheckUDPHeader, CheckICMPHeader: is the transport header right?

use std::fmt::Write as _;

use thruway_element::{
    Alias, Arguments, Changes, Cost, CostModel, Cx, Element, Entry, HandlerError, Handlers, Load,
    Operation, Replicas, Spec, Topic, Verdict, reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::icmp::{IcmpHeader, icmp_type, is_error};
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::tcp::TcpHeader;
use thruway_wire::udp::UdpHeader;
use thruway_wire::{Header, checksum, ip_protocol};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<CheckTransportHeader>(Spec {
    name: "CheckTCPHeader",
    aliases: &[
        Alias { name: "CheckUDPHeader", summary: "checks UDP; no checksum (0) is right" },
        Alias { name: "CheckICMPHeader", summary: "checks ICMP and the lengths of its types" },
    ],
    topic: Topic::Ip,
    summary: "checks TCP, UDP or ICMP headers",
    docs: "Expects marked IP headers (CheckIPHeader). Checks that the packet is of the \
           protocol in the element's name, that the lengths of the header and the packet fit, \
           and that the checksum is right. Packets for which that does not hold leave by output \
           1, or are dropped where there is none. The first is reported to the user, all with \
           VERBOSE.\n\n\
           CheckICMPHeader looks at the length by type, too: errors quote at least 28 bytes, \
           timestamps are 20 bytes long, information requests 8. A fragment has no whole \
           message in it, so its length or checksum is wrong: reassemble before.",
    example: "InfiniteSource(\\<4500001c00000000401177cf0100000102000002 00010002 0008fcd8>, \
              LIMIT 1, STOP true) -> CheckIPHeader -> CheckUDPHeader -> Print(ok) -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    straight: true,
    drops: CheckTransportDrop::DROPS,
    cost: &[Operation::ChecksumLine.once()],
    changes: Changes::Nothing,
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
})
.with_cost_model::<CheckTransportHeader>();

reasons! {
    /// Defects of a packet.
    enum CheckTransportDrop {
        Protocol = "wrong-protocol": "no IP packet of this protocol is marked",
        Length = "bad-length": "the lengths in the headers and that of the packet do not fit",
        Checksum = "bad-checksum": "the transport checksum is wrong",
    }
}

/// Which transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Tcp,
    Udp,
    Icmp,
}

impl Sort {
    fn of(class: &str) -> Sort {
        match class {
            "CheckUDPHeader" => Sort::Udp,
            "CheckICMPHeader" => Sort::Icmp,
            _ => Sort::Tcp,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Sort::Tcp => "TCP",
            Sort::Udp => "UDP",
            Sort::Icmp => "ICMP",
        }
    }

    fn text(self, bad: CheckTransportDrop) -> String {
        match bad {
            CheckTransportDrop::Protocol => format!("not {}", self.name()),
            CheckTransportDrop::Length => "bad packet length".to_owned(),
            CheckTransportDrop::Checksum => format!("bad {} checksum", self.name()),
        }
    }
}

#[derive(Arguments, Handlers)]
#[handler(sum, name = "drops", "bad packets", get = self.bad.iter().sum::<u64>())]
#[handler(
    sum, name = "drop_details", "bad packets by cause; with DETAILS",
    read = self.read_drop_details()
)]
struct CheckTransportHeader {
    #[new(Sort::of(args.class()))]
    sort: Sort,
    /// whether every bad packet is reported
    #[arg(keyword, or = "false")]
    verbose: bool,
    /// whether drop_details counts by cause
    #[arg(keyword, or = "false")]
    details: bool,
    bad: [u64; 3],
    complaints: Vec<CheckTransportDrop>,
}

/// Checks one packet.
#[inline]
fn check(packet: &Packet, sort: Sort) -> Result<(), CheckTransportDrop> {
    let bytes = packet.network();
    let Ok((ip, _, cut)) = Ipv4Header::parse_cut(bytes) else {
        return Err(CheckTransportDrop::Protocol);
    };
    let wanted = match sort {
        Sort::Tcp => ip_protocol::TCP,
        Sort::Udp => ip_protocol::UDP,
        Sort::Icmp => ip_protocol::ICMP,
    };
    if ip.protocol() != wanted {
        return Err(CheckTransportDrop::Protocol);
    }
    let body_len = usize::from(ip.total_len()).checked_sub(ip.header_len());
    let body = body_len.and_then(|len| cut.get(..len)).ok_or(CheckTransportDrop::Length)?;
    match sort {
        Sort::Tcp => {
            TcpHeader::parse(body).map_err(|_| CheckTransportDrop::Length)?;
            sum_is(ip.pseudo_sum(body.len()).with(body).checksum())
        }
        Sort::Udp => {
            let right = UdpHeader::parse(body).map_err(|_| CheckTransportDrop::Length)?.0;
            let right = UdpHeader::checksum_ok(body, ip.pseudo_sum(usize::from(right.len())));
            right
                .map_err(|_| CheckTransportDrop::Length)?
                .then_some(())
                .ok_or(CheckTransportDrop::Checksum)
        }
        Sort::Icmp => {
            let (header, _) = IcmpHeader::parse(body).map_err(|_| CheckTransportDrop::Length)?;
            if !icmp_len_fits(header.icmp_type(), body.len()) {
                return Err(CheckTransportDrop::Length);
            }
            sum_is(checksum::checksum(body))
        }
    }
}

#[inline]
fn sum_is(sum: u16) -> Result<(), CheckTransportDrop> {
    if sum == 0 { Ok(()) } else { Err(CheckTransportDrop::Checksum) }
}

/// Whether a message of this type can be `len` bytes long: RFC 792; errors quote a header and 8
/// bytes at least.
fn icmp_len_fits(kind: u8, len: usize) -> bool {
    match kind {
        icmp_type::TIMESTAMP | icmp_type::TIMESTAMP_REPLY => len == 20,
        icmp_type::INFORMATION_REQUEST | icmp_type::INFORMATION_REPLY => len == 8,
        _ if is_error(kind) => len >= 8 + 28,
        _ => true,
    }
}

impl CheckTransportHeader {
    #[cold]
    fn note(&mut self, bad: CheckTransportDrop) -> Verdict {
        if self.verbose || self.bad.iter().all(|count| *count == 0) {
            self.complaints.push(bad);
        }
        self.bad[bad as usize] += 1;
        Verdict::reject(1, bad)
    }

    #[cold]
    fn complain(&mut self, cx: &mut Cx<'_>) {
        let sort = self.sort;
        for bad in self.complaints.drain(..) {
            let line = format!("{} header check failed: {}", sort.name(), sort.text(bad));
            cx.log(&line);
        }
    }
}

impl Element for CheckTransportHeader {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| match check(packet, self.sort) {
            Ok(()) => Verdict::Pass,
            Err(bad) => self.note(bad),
        });
        if !self.complaints.is_empty() {
            self.complain(cx);
        }
    }
}

impl CheckTransportHeader {
    fn read_drop_details(&mut self) -> Result<String, HandlerError> {
        if !self.details {
            let why = "drop_details: write DETAILS true to keep details";
            return Err(HandlerError::refused(why));
        }
        let mut text = String::new();
        for bad in
            [CheckTransportDrop::Protocol, CheckTransportDrop::Length, CheckTransportDrop::Checksum]
        {
            let count = self.bad[bad as usize];
            let _ = writeln!(text, "{count}\t{}", self.sort.text(bad));
        }
        Ok(text)
    }
}

impl CostModel for CheckTransportHeader {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let lines = Load::lines(load.payload_bytes);
        // Both headers are checked; the pseudo header is as much to sum as one of IP.
        Some(vec![
            Operation::HeaderCheck.once(),
            Operation::HeaderRead.once(),
            Operation::ChecksumIp.once(),
            Operation::ChecksumLine.times(lines),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(protocol: u8, body: &[u8]) -> Packet {
        let ip = Ipv4Header::new(protocol, [1, 0, 0, 1].into(), [2, 0, 0, 2].into(), body.len());
        let mut bytes = vec![0; 20 + body.len()];
        ip.unwrap().emit(&mut bytes).unwrap().copy_from_slice(body);
        let mut packet = Packet::new(&bytes).unwrap();
        packet.set_network(0, 20);
        packet
    }

    #[test]
    fn lengths_of_icmp_types() {
        assert!(icmp_len_fits(icmp_type::ECHO, 8) && icmp_len_fits(icmp_type::TIMESTAMP, 20));
        assert!(!icmp_len_fits(icmp_type::TIMESTAMP, 24));
        assert!(!icmp_len_fits(icmp_type::UNREACHABLE, 35));
        assert!(icmp_len_fits(icmp_type::UNREACHABLE, 36));
        assert!(!icmp_len_fits(icmp_type::INFORMATION_REPLY, 9));
    }

    proptest! {
        /// What SetTCPChecksum's rule makes right is right; one flipped bit is not; and no bytes
        /// make the check fail otherwise than with a verdict.
        #[test]
        fn filled_is_right(body in prop::collection::vec(any::<u8>(), 20..80), bit in 0usize..160) {
            let mut body = body;
            body[12] = 0x50;
            let pseudo = checksum::Sum::pseudo_v4(0x0100_0001, 0x0200_0002, 6, body.len());
            TcpHeader::fill_checksum(&mut body, pseudo).unwrap();
            prop_assert_eq!(check(&packet(6, &body), Sort::Tcp), Ok(()));
            prop_assert_eq!(check(&packet(6, &body), Sort::Udp), Err(CheckTransportDrop::Protocol));
            body[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(check(&packet(6, &body), Sort::Tcp).is_err());
        }

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..60), protocol in 0u8..20) {
            let mut raw = Packet::new(&bytes).unwrap();
            raw.set_network(0, 20);
            for sort in [Sort::Tcp, Sort::Udp, Sort::Icmp] {
                let _ = check(&raw, sort);
                let _ = check(&packet(protocol, &bytes), sort);
            }
        }
    }
}
