//! One IPv4 packet as a line of text, in the manner of tcpdump.
//!
//! Works on any bytes: what is cut off or absurd is said to be "truncated".

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use thruway_wire::ip_protocol;

/// Which of the IP header's fields stand before the line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fields {
    /// Identification.
    pub id: bool,
    /// Time to live.
    pub ttl: bool,
    /// Type of service.
    pub tos: bool,
    /// Total length.
    pub length: bool,
    /// ICMP identifiers and sequence numbers are shown with their bytes swapped.
    pub swapped: bool,
}

/// The parts of an IPv4 packet that the lines speak of.
pub(crate) struct IpPacket<'a> {
    header: &'a [u8; 20],
    /// From the transport header on, as far as both packet and IP length reach.
    pub transport: &'a [u8],
    /// Bytes of the whole packet.
    packet_len: usize,
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl<'a> IpPacket<'a> {
    /// The packet with its IP header at the start of `network`; `None` if that is too short for
    /// one.
    pub(crate) fn new(network: &'a [u8], packet_len: usize) -> Option<IpPacket<'a>> {
        let header = network.first_chunk::<20>()?;
        let header_len = usize::from(header[0] & 0x0f) * 4;
        let transport = network.get(header_len..).unwrap_or(&[]);
        let mut packet = IpPacket { header, transport, packet_len };
        packet.transport = &transport[..transport.len().min(packet.payload_len())];
        Some(packet)
    }

    fn total_len(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }

    fn header_len(&self) -> usize {
        usize::from(self.header[0] & 0x0f) * 4
    }

    /// Bytes behind the IP header, as the header says.
    fn payload_len(&self) -> usize {
        usize::from(self.total_len()).saturating_sub(self.header_len())
    }

    fn id(&self) -> u16 {
        u16::from_be_bytes([self.header[4], self.header[5]])
    }

    fn offset_field(&self) -> u16 {
        u16::from_be_bytes([self.header[6], self.header[7]])
    }

    fn first_fragment(&self) -> bool {
        self.offset_field() & 0x1fff == 0
    }

    /// IP protocol number.
    pub(crate) fn protocol(&self) -> u8 {
        self.header[9]
    }

    fn src(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.header[12], self.header[13], self.header[14], self.header[15])
    }

    fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.header[16], self.header[17], self.header[18], self.header[19])
    }

    /// Where the payload of the transport protocol begins in `transport`.
    pub(crate) fn payload_offset(&self) -> usize {
        match (self.first_fragment(), self.protocol()) {
            (true, ip_protocol::TCP) => {
                self.transport.get(12).map_or(0, |b| usize::from(b >> 4) * 4)
            }
            (true, ip_protocol::UDP) => 8,
            _ => 0,
        }
    }

    /// Appends the line.
    pub(crate) fn write(&self, out: &mut String, fields: Fields) {
        // Writing to a String does not fail.
        let _ = self.write_fields(out, fields);
        let result = match self.protocol() {
            ip_protocol::TCP => self.tcp(out),
            ip_protocol::UDP => self.udp(out),
            ip_protocol::ICMP => self.icmp(out, fields.swapped),
            protocol => {
                write!(out, "{} > {}: ip-proto-{protocol}", self.src(), self.dst()).map(Some)
            }
        };
        if let Ok(None) = result {
            let _ = write!(out, "truncated-{}", protocol_name(self.protocol()).unwrap_or("ip"));
        }
        self.write_fragment(out);
    }

    fn write_fields(&self, out: &mut String, fields: Fields) -> std::fmt::Result {
        if fields.id {
            write!(out, "id {} ", self.id())?;
        }
        if fields.ttl {
            write!(out, "ttl {} ", self.header[8])?;
        }
        if fields.tos {
            write!(out, "tos {} ", self.header[1])?;
        }
        if fields.length {
            write!(out, "length {} ", self.total_len())?;
        }
        Ok(())
    }

    fn write_fragment(&self, out: &mut String) {
        let field = self.offset_field();
        if field & 0x3fff != 0 {
            let more = if field & 0x2000 != 0 { "+" } else { "" };
            let offset = u32::from(field & 0x1fff) * 8;
            let _ = write!(out, " (frag {}:{}@{offset}{more})", self.id(), self.payload_len());
        }
    }

    /// Source and destination, with ports where there are any; `false` where not.
    fn ports(&self, out: &mut String) -> Result<bool, std::fmt::Error> {
        let (src, dst) = (self.src(), self.dst());
        match (be16(self.transport, 0), be16(self.transport, 2)) {
            (Some(from), Some(to)) if self.first_fragment() => {
                write!(out, "{src}.{from} > {dst}.{to}: ")?;
                Ok(true)
            }
            _ => {
                write!(out, "{src} > {dst}: ")?;
                Ok(false)
            }
        }
    }

    /// `None` means that the text ends in "truncated".
    fn tcp(&self, out: &mut String) -> Result<Option<()>, std::fmt::Error> {
        if !self.ports(out)? {
            return self.no_ports(out, "tcp");
        }
        let (Some(seq), Some(ack)) = (be32(self.transport, 4), be32(self.transport, 8)) else {
            return Ok(None);
        };
        let (Some(offset), Some(flags)) = (self.transport.get(12), self.transport.get(13)) else {
            return Ok(None);
        };
        let header = u32::from(offset >> 4) * 4;
        let mut len = (self.payload_len() as u32).wrapping_sub(header);
        for (bit, letter, counts) in [(2, 'S', 1), (1, 'F', 1), (4, 'R', 0), (8, 'P', 0)] {
            if flags & bit != 0 {
                out.push(letter);
                len = len.wrapping_add(counts);
            }
        }
        if flags & 0x0f == 0 {
            out.push('.');
        }
        let (total, end) = (self.total_len(), seq.wrapping_add(len));
        write!(out, " {seq}:{end}({},{},{total})", len as i32, self.packet_len)?;
        if flags & 0x10 != 0 {
            write!(out, " ack {ack}")?;
        }
        match be16(self.transport, 14) {
            Some(window) => write!(out, " win {window}").map(Some),
            None => Ok(None),
        }
    }

    fn udp(&self, out: &mut String) -> Result<Option<()>, std::fmt::Error> {
        if !self.ports(out)? {
            return self.no_ports(out, "udp");
        }
        match be16(self.transport, 4).filter(|_| self.transport.len() >= 8) {
            Some(len) => write!(out, "udp {len}").map(Some),
            None => Ok(None),
        }
    }

    fn no_ports(&self, out: &mut String, name: &str) -> Result<Option<()>, std::fmt::Error> {
        if self.first_fragment() { Ok(None) } else { out.write_str(name).map(Some) }
    }

    fn icmp(&self, out: &mut String, swapped: bool) -> Result<Option<()>, std::fmt::Error> {
        write!(out, "{} > {}: ", self.src(), self.dst())?;
        if !self.first_fragment() {
            return out.write_str("icmp").map(Some);
        }
        let [kind, code, ..] = *self.transport else { return Ok(None) };
        match kind {
            0 | 8 => {
                let name = if kind == 0 { "echo-reply" } else { "echo" };
                write!(out, "icmp {name} ")?;
                let (Some(id), Some(seq)) = (be16(self.transport, 4), be16(self.transport, 6))
                else {
                    return Ok(None);
                };
                let shown = |value: u16| if swapped { value.swap_bytes() } else { value };
                write!(out, "({}, {})", shown(id), shown(seq)).map(Some)
            }
            3 => self.unreachable(out, code),
            _ => {
                match icmp_type_name(kind) {
                    Some(name) => write!(out, "icmp {name}")?,
                    None => write!(out, "icmp type {kind}")?,
                }
                match (icmp_code_name(kind, code), code) {
                    (Some(name), _) => write!(out, " {name}").map(Some),
                    (None, 0) => Ok(Some(())),
                    (None, code) => write!(out, " code {code}").map(Some),
                }
            }
        }
    }

    fn unreachable(&self, out: &mut String, code: u8) -> Result<Option<()>, std::fmt::Error> {
        let name = icmp_code_name(3, code).map_or_else(|| format!("code {code}"), str::to_owned);
        let Some(inner) = self.transport.get(8..).and_then(|inner| inner.first_chunk::<20>())
        else {
            write!(out, "icmp unreachable {name} ")?;
            return Ok(None);
        };
        let [a, b, c, d] = [inner[16], inner[17], inner[18], inner[19]];
        write!(out, "icmp {} unreachable {name}", Ipv4Addr::new(a, b, c, d))?;
        let protocol = inner[9];
        match (code, protocol_name(protocol)) {
            (2, Some(name)) => write!(out, " {name}")?,
            (2, None) => write!(out, " {protocol}")?,
            (3, name) => {
                match name {
                    Some(name) => write!(out, " {name}")?,
                    None => write!(out, " protocol {protocol}")?,
                }
                let ports = 8 + usize::from(inner[0] & 0x0f) * 4;
                let Some(port) = be16(self.transport, ports + 2) else { return Ok(None) };
                write!(out, "/{port}")?;
            }
            (4, _) => match be16(self.transport, 6) {
                Some(mtu) if mtu != 0 => write!(out, " (mtu {mtu})")?,
                _ => {}
            },
            _ => {}
        }
        Ok(Some(()))
    }
}

fn protocol_name(protocol: u8) -> Option<&'static str> {
    Some(match protocol {
        ip_protocol::ICMP => "icmp",
        ip_protocol::IGMP => "igmp",
        ip_protocol::IPIP => "ipip",
        ip_protocol::TCP => "tcp",
        ip_protocol::UDP => "udp",
        ip_protocol::DCCP => "dccp",
        ip_protocol::GRE => "gre",
        ip_protocol::SCTP => "sctp",
        _ => return None,
    })
}

fn icmp_type_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        0 => "echo-reply",
        3 => "unreachable",
        4 => "sourcequench",
        5 => "redirect",
        8 => "echo",
        9 => "routeradvert",
        10 => "routersolicit",
        11 => "timeexceeded",
        12 => "parameterproblem",
        13 => "timestamp",
        14 => "timestamp-reply",
        15 => "inforeq",
        16 => "inforeq-reply",
        17 => "maskreq",
        18 => "maskreq-reply",
        _ => return None,
    })
}

fn icmp_code_name(kind: u8, code: u8) -> Option<&'static str> {
    const UNREACHABLE: [&str; 16] = [
        "net",
        "host",
        "protocol",
        "port",
        "needfrag",
        "srcroutefail",
        "netunknown",
        "hostunknown",
        "isolated",
        "netprohibited",
        "hostprohibited",
        "tosnet",
        "toshost",
        "filterprohibited",
        "hostprecedence",
        "precedencecutoff",
    ];
    let names: &[&str] = match kind {
        3 => &UNREACHABLE,
        5 => &["net", "host", "tosnet", "toshost"],
        11 => &["transit", "reassembly"],
        12 => &["erroratptr", "missingopt", "length"],
        _ => &[],
    };
    names.get(usize::from(code)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IP packet from 1.0.0.1 to 2.0.0.2.
    fn packet(protocol: u8, offset: u16, transport: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x45, 7];
        bytes.extend((20 + transport.len() as u16).to_be_bytes());
        bytes.extend(9u16.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend([64, protocol, 0, 0, 1, 0, 0, 1, 2, 0, 0, 2]);
        bytes.extend(transport);
        bytes
    }

    fn line(protocol: u8, offset: u16, transport: &[u8]) -> String {
        let bytes = packet(protocol, offset, transport);
        let mut out = String::new();
        IpPacket::new(&bytes, bytes.len()).unwrap().write(&mut out, Fields::default());
        out
    }

    #[test]
    fn tcp_lines() {
        let mut tcp = vec![0, 80, 4, 0, 0, 0, 0, 10, 0, 0, 0, 20, 0x50, 0x12, 1, 0, 0, 0, 0, 0];
        assert_eq!(line(6, 0, &tcp), "1.0.0.1.80 > 2.0.0.2.1024: S 10:11(1,40,40) ack 20 win 256");
        tcp[13] = 0;
        assert_eq!(line(6, 0, &tcp), "1.0.0.1.80 > 2.0.0.2.1024: . 10:10(0,40,40) win 256");
        assert_eq!(line(6, 0, &tcp[..8]), "1.0.0.1.80 > 2.0.0.2.1024: truncated-tcp");
        assert_eq!(line(6, 0, &tcp[..2]), "1.0.0.1 > 2.0.0.2: truncated-tcp");
    }

    #[test]
    fn udp_and_fragments() {
        let udp = [0, 1, 0, 2, 0, 8, 0, 0];
        assert_eq!(line(17, 0, &udp), "1.0.0.1.1 > 2.0.0.2.2: udp 8");
        assert_eq!(line(17, 0x2000, &udp), "1.0.0.1.1 > 2.0.0.2.2: udp 8 (frag 9:8@0+)");
        assert_eq!(line(17, 2, &udp), "1.0.0.1 > 2.0.0.2: udp (frag 9:8@16)");
        assert_eq!(line(89, 0, &udp), "1.0.0.1 > 2.0.0.2: ip-proto-89");
    }

    #[test]
    fn icmp_lines() {
        assert_eq!(line(1, 0, &[8, 0, 0, 0, 0, 1, 0, 2]), "1.0.0.1 > 2.0.0.2: icmp echo (1, 2)");
        assert_eq!(line(1, 0, &[11, 0]), "1.0.0.1 > 2.0.0.2: icmp timeexceeded transit");
        assert_eq!(line(1, 0, &[40, 3]), "1.0.0.1 > 2.0.0.2: icmp type 40 code 3");
        let mut port = vec![3, 3, 0, 0, 0, 0, 0, 0];
        port.extend(packet(17, 0, &[0, 1, 0, 53]));
        let wanted = "1.0.0.1 > 2.0.0.2: icmp 2.0.0.2 unreachable port udp/53";
        assert_eq!(line(1, 0, &port), wanted);
        assert_eq!(
            line(1, 0, &port[..12]),
            "1.0.0.1 > 2.0.0.2: icmp unreachable port truncated-icmp"
        );
    }

    #[test]
    fn no_bytes_panic() {
        let whole = packet(1, 0, &[3, 3, 0, 0, 0, 0, 0, 0, 0x4f, 0, 0, 0]);
        for end in 0..whole.len() {
            for first in 0..=255 {
                let mut bytes = whole[..end].to_vec();
                if let Some(byte) = bytes.first_mut() {
                    *byte = first;
                }
                if let Some(packet) = IpPacket::new(&bytes, end) {
                    let fields =
                        Fields { id: true, ttl: true, tos: true, length: true, swapped: true };
                    packet.write(&mut String::new(), fields);
                    let _ = packet.transport.get(packet.payload_offset()..);
                }
            }
        }
    }
}
