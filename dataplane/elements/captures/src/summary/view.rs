//! A packet as a summary sees it: which of its headers are there, and each field's text.

use std::fmt::Write;
use std::net::Ipv4Addr;

use thruway_element::text::quote;
use thruway_packet::{Anno, Packet};
use thruway_wire::{ip_protocol, ipv4};

use super::field::{self, Field};
use super::md5;
use super::options::{self, Shown};

/// Defects of a packet, for `!bad` lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParseError {
    NoIp,
    Version(u8),
    HeaderLength(u8),
    Length(u16),
    TruncatedHeader,
    /// So many bytes are missing.
    Truncated(usize),
    TransportHeader {
        fragment: bool,
    },
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ParseError::NoIp => f.write_str("no IP header"),
            ParseError::Version(version) => write!(f, "IP version {version}"),
            ParseError::HeaderLength(words) => write!(f, "IP header length {words}"),
            ParseError::Length(len) => write!(f, "IP length {len}"),
            ParseError::TruncatedHeader => f.write_str("truncated IP header"),
            ParseError::Truncated(missing) => write!(f, "truncated IP missing {missing}"),
            ParseError::TransportHeader { fragment: true } => {
                f.write_str("fragmented transport header")
            }
            ParseError::TransportHeader { fragment: false } => {
                f.write_str("truncated transport header")
            }
        }
    }
}

/// A packet and its headers.
pub(crate) struct View<'a> {
    packet: &'a Packet,
    /// From the IP header on, without what lies behind the IP packet's end; empty if there is none.
    ip: &'a [u8],
    /// From the transport header on; empty if there is none, and in later fragments.
    transport: &'a [u8],
    /// Bytes that the capture left out.
    extra: usize,
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Whether a protocol's header begins with two ports.
fn has_ports(protocol: u8) -> bool {
    // TCP, UDP, DCCP, UDP-Lite.
    matches!(protocol, ip_protocol::TCP | ip_protocol::UDP | 33 | 136)
}

impl<'a> View<'a> {
    /// The packet as it is; what is wrong with its IP header, if something is. With `careful`, a
    /// packet shorter than its header says is wrong too, though it is read as far as it goes.
    pub(crate) fn new(
        packet: &'a Packet,
        careful: bool,
        with_extra: bool,
    ) -> (View<'a>, Option<ParseError>) {
        let extra = if with_extra { packet.anno_number(Anno::EXTRA_LENGTH) as usize } else { 0 };
        let none = View { packet, ip: &[], transport: &[], extra };
        let ip = packet.network();
        let (Some(&first), len) = (ip.first(), be16(ip, 2)) else {
            return (none, Some(ParseError::NoIp));
        };
        let header_len = usize::from(first & 0xF) * 4;
        let wrong = match len {
            _ if first >> 4 != 4 => Some(ParseError::Version(first >> 4)),
            _ if header_len < 20 => Some(ParseError::HeaderLength(first & 0xF)),
            Some(len) if usize::from(len) < header_len => Some(ParseError::Length(len)),
            _ => None,
        };
        if wrong.is_some() {
            return (none, wrong);
        }
        // An uncaptured header counts as if its length field were right.
        let total = len.map_or(ip.len(), usize::from);
        let ip = &ip[..ip.len().min(total)];
        let missing = total.saturating_sub(packet.network().len() + extra);
        let bad = match () {
            () if ip.len() < header_len => Some(ParseError::TruncatedHeader),
            () if careful && missing > 0 => Some(ParseError::Truncated(missing)),
            () => None,
        };
        let later = be16(ip, 6).is_some_and(|word| word & ipv4::OFFSET_MASK != 0);
        let transport = if later { &[] } else { ip.get(header_len..).unwrap_or(&[]) };
        (View { packet, ip, transport, extra }, bad)
    }

    /// Appends a field's text; false, and a dash, where the packet has no such thing.
    pub(crate) fn write(&self, field: Field, out: &mut String) -> Option<ParseError> {
        let start = out.len();
        if self.try_write(field, out).is_some() && out.len() > start {
            return None;
        }
        out.truncate(start);
        out.push('-');
        let is_transport = matches!(
            field,
            Field::Sport
                | Field::Dport
                | Field::TcpSeq
                | Field::TcpAck
                | Field::TcpFlags
                | Field::TcpOpt
                | Field::TcpWindow
                | Field::TcpUrp
                | Field::UdpLen
        );
        // A header that the protocol promises, and that is not all there.
        let promised = is_transport && self.protocol().is_some_and(has_ports);
        let fragment = be16(self.ip, 6).is_some_and(|word| word & 0x3FFF != 0);
        promised.then_some(ParseError::TransportHeader { fragment })
    }

    fn protocol(&self) -> Option<u8> {
        self.ip.get(9).copied()
    }

    /// The transport header if it is of this protocol.
    fn of(&self, protocol: u8) -> Option<&'a [u8]> {
        (self.protocol()? == protocol).then_some(self.transport)
    }

    fn tcp(&self) -> Option<&'a [u8]> {
        self.of(ip_protocol::TCP)
    }

    fn icmp(&self) -> Option<&'a [u8]> {
        self.of(ip_protocol::ICMP)
    }

    fn header_len(&self) -> Option<usize> {
        Some(usize::from(self.ip.first()? & 0xF) * 4)
    }

    fn try_write(&self, field: Field, out: &mut String) -> Option<()> {
        use Field::*;
        match field {
            // The writer knows its thread; a packet does not.
            None | Thread => return Option::None,
            Timestamp | NanoTimestamp | Seconds | Microseconds | AllMicroseconds => {
                self.write_time(field, out);
            }
            IpSrc | IpDst | IpFrag | IpFragOff | IpProto | IpEcn | IpOpt => {
                self.write_ip(field, out)?;
            }
            TcpFlags | TcpOpt | TcpNtOpt | TcpSack => self.write_tcp(field, out)?,
            IcmpTypeName | IcmpCodeName => self.write_icmp_name(field, out)?,
            Payload | PayloadMd5 | PayloadMd5Hex => {
                let (at, len) = self.payload();
                let bytes = self.payload_bytes();
                let end = bytes.len().min(at + len);
                let payload = bytes.get(at..end).unwrap_or(&[]);
                match field {
                    Payload => out.push_str(&quote(payload)),
                    PayloadMd5 => md5::write_text(md5::digest(payload), out),
                    _ => md5::write_hex(md5::digest(payload), out),
                }
            }
            Direction => match self.packet.paint() {
                0 => out.push('>'),
                1 => out.push('<'),
                paint => write!(out, "{paint}").ok()?,
            },
            EthSrc | EthDst => {
                let header = self.packet.mac_bytes(12)?;
                let address = if field == EthDst { &header[..6] } else { &header[6..] };
                let parts: Vec<String> = address.iter().map(|b| format!("{b:02X}")).collect();
                out.push_str(&parts.join("-"));
            }
            number => write!(out, "{}", self.number(number)?).ok()?,
        }
        Some(())
    }

    fn write_time(&self, field: Field, out: &mut String) {
        let ns = self.packet.timestamp();
        let (seconds, rest) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
        let _ = match field {
            Field::Seconds => write!(out, "{seconds}"),
            Field::Microseconds => write!(out, "{}", rest / 1000),
            Field::AllMicroseconds => write!(out, "{}", ns.div_euclid(1000)),
            _ => {
                let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
                let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
                match field {
                    Field::Timestamp if rest % 1000 == 0 => {
                        write!(out, "{sign}{seconds}.{:06}", rest / 1000)
                    }
                    _ => write!(out, "{sign}{seconds}.{rest:09}"),
                }
            }
        };
    }

    fn write_ip(&self, field: Field, out: &mut String) -> Option<()> {
        let ip = self.ip;
        match field {
            Field::IpSrc => write!(out, "{}", Ipv4Addr::from_bits(be32(ip, 12)?)).ok()?,
            Field::IpDst => write!(out, "{}", Ipv4Addr::from_bits(be32(ip, 16)?)).ok()?,
            Field::IpFrag => {
                let word = be16(ip, 6)?;
                let more = word & ipv4::MORE_FRAGMENTS != 0;
                out.push(match word & ipv4::OFFSET_MASK {
                    0 if more => 'F',
                    0 if word & ipv4::DONT_FRAGMENT != 0 => '!',
                    0 => '.',
                    _ => 'f',
                });
            }
            Field::IpFragOff => {
                let word = be16(ip, 6)?;
                write!(out, "{}", u32::from(word & ipv4::OFFSET_MASK) * 8).ok()?;
                if word & ipv4::MORE_FRAGMENTS != 0 {
                    out.push('+');
                }
                if word & ipv4::DONT_FRAGMENT != 0 {
                    out.push('!');
                }
            }
            Field::IpProto => match self.protocol()? {
                ip_protocol::TCP => out.push('T'),
                ip_protocol::UDP => out.push('U'),
                ip_protocol::ICMP => out.push('I'),
                other => write!(out, "{other}").ok()?,
            },
            // RFC 3168 section 5: 01 is ECT(1), 10 is ECT(0), which summaries call ect2.
            Field::IpEcn => out.push_str(["no", "ect1", "ect2", "ce"][usize::from(ip.get(1)? & 3)]),
            _ => options::write_ip(out, ip.get(20..self.header_len()?)?),
        }
        Some(())
    }

    fn write_tcp(&self, field: Field, out: &mut String) -> Option<()> {
        let tcp = self.tcp()?;
        if field == Field::TcpFlags {
            // Nine flags: the ninth is NS (RFC 3540), left of the byte with the others.
            let flags = be16(tcp, 12)? & 0x1FF;
            let letters = "FSRPAUECN".chars().enumerate();
            out.extend(letters.filter(|(bit, _)| flags >> bit & 1 == 1).map(|(_, letter)| letter));
            if flags == 0 {
                out.push('.');
            }
            return Some(());
        }
        let header_len = (usize::from(tcp.get(12)? >> 4) * 4).max(20);
        let options = tcp.get(20..header_len)?;
        let shown = match field {
            Field::TcpOpt => Shown::All,
            Field::TcpNtOpt => Shown::NoTimestamp,
            _ => Shown::Sack,
        };
        options::write_tcp(out, options, shown);
        Some(())
    }

    fn write_icmp_name(&self, field: Field, out: &mut String) -> Option<()> {
        let icmp = self.icmp()?;
        let kind = *icmp.first()?;
        out.push_str(&match field {
            Field::IcmpTypeName => field::icmp_type_name(kind),
            _ => field::icmp_code_name(kind, *icmp.get(1)?),
        });
        Some(())
    }

    /// Bytes in which the payload lies.
    fn payload_bytes(&self) -> &'a [u8] {
        if self.ip.is_empty() { self.packet.data() } else { self.ip }
    }

    /// Where the payload begins in [`View::payload_bytes`], and its length as headers say.
    fn payload(&self) -> (usize, usize) {
        let Some(header_len) = self.header_len() else { return (0, self.packet.len()) };
        let total = be16(self.ip, 2).map_or(self.ip.len(), usize::from);
        let transport_len = match self.protocol() {
            // Not there, or a later fragment.
            _ if self.transport.is_empty() => 0,
            Some(ip_protocol::TCP) => {
                self.transport.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4)
            }
            Some(ip_protocol::UDP | 136) => 8,
            _ => 0,
        };
        let fits = header_len + transport_len <= total;
        let at = header_len + if fits { transport_len } else { 0 };
        (at, total.saturating_sub(at))
    }

    /// The fields that are numbers.
    fn number(&self, field: Field) -> Option<u64> {
        use Field::*;
        let ip = self.ip;
        let byte = |at: usize| ip.get(at).map(|byte| u64::from(*byte));
        let whole = self.packet.len() + self.extra;
        Some(match field {
            IpLen => match be16(ip, 2) {
                Some(len) => u64::from(len),
                Option::None => whole as u64,
            },
            IpHl => self.header_len()? as u64,
            IpId => be16(ip, 4)?.into(),
            IpTos => byte(1)?,
            IpDscp => byte(1)? >> 2,
            IpTtl => byte(8)?,
            IpSum => be16(ip, 10)?.into(),
            IpCaptureLen => self.payload_bytes().len() as u64,
            PayloadLen => match ip {
                [] => whole as u64,
                _ => self.payload().1 as u64,
            },
            Count => u64::from(self.packet.anno_number(Anno::EXTRA_PACKETS)) + 1,
            Link => self.packet.paint().into(),
            Aggregate => self.packet.anno_number(Anno::AGGREGATE).into(),
            WireLen => {
                let head = self.packet.mac_offset().unwrap_or(0);
                u64::try_from(whole as i64 - head as i64).ok()?
            }
            _ => return self.transport_number(field),
        })
    }

    fn transport_number(&self, field: Field) -> Option<u64> {
        use Field::*;
        let ports = || has_ports(self.protocol()?).then_some(self.transport);
        let echo = |kind: &u8| matches!(kind, 0 | 8 | 13..=18);
        Some(match field {
            Sport => be16(ports()?, 0)?.into(),
            Dport => be16(ports()?, 2)?.into(),
            TcpSeq => be32(self.tcp()?, 4)?.into(),
            TcpAck => be32(self.tcp()?, 8)?.into(),
            TcpOff => u64::from(self.tcp()?.get(12)? >> 4) * 4,
            TcpWindow => be16(self.tcp()?, 14)?.into(),
            TcpUrp => be16(self.tcp()?, 18)?.into(),
            UdpLen => be16(self.of(ip_protocol::UDP)?, 4)?.into(),
            IcmpType => u64::from(*self.icmp()?.first()?),
            IcmpCode => u64::from(*self.icmp()?.get(1)?),
            IcmpFlowId => {
                be16(self.icmp()?.first().filter(|k| echo(k)).and(self.icmp())?, 4)?.into()
            }
            IcmpSeq => be16(self.icmp()?.first().filter(|k| echo(k)).and(self.icmp())?, 6)?.into(),
            // RFC 1191 section 4: of "fragmentation needed" only.
            IcmpNextMtu => match self.icmp()? {
                icmp @ [3, 4, ..] => be16(icmp, 6)?.into(),
                _ => return Option::None,
            },
            _ => return Option::None,
        })
    }
}
