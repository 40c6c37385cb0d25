//! A packet in one line of a summary.

use std::net::Ipv4Addr;

use thruway_element::text::unquote;
use thruway_wire::{ip_protocol, ipv4};

use super::super::window::parse_instant;
use super::field::{self, Field};
use super::options;

/// Addresses, ports and protocol of packets with lines that lack them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FlowId {
    pub src: Option<Ipv4Addr>,
    pub dst: Option<Ipv4Addr>,
    pub sport: Option<u16>,
    pub dport: Option<u16>,
    pub protocol: Option<u8>,
}

impl FlowId {
    /// The flow written `SRC SPORT DST DPORT [PROTO]`, a dash for what is open.
    pub(crate) fn parse(words: &[&str]) -> Option<FlowId> {
        fn part<T: std::str::FromStr>(word: &str) -> Option<Option<T>> {
            if word == "-" { Some(None) } else { word.parse().ok().map(Some) }
        }
        let [src, sport, dst, dport, rest @ ..] = words else { return None };
        let protocol = match rest {
            [] => None,
            [word, ..] => Some(protocol(word)?),
        };
        Some(FlowId {
            src: part(src)?,
            dst: part(dst)?,
            sport: part(sport)?,
            dport: part(dport)?,
            protocol,
        })
    }
}

/// The protocol of a letter, name or number.
pub(crate) fn protocol(text: &str) -> Option<u8> {
    match text {
        "T" => Some(ip_protocol::TCP),
        "U" => Some(ip_protocol::UDP),
        "I" => Some(ip_protocol::ICMP),
        other => other.parse().ok().or_else(|| ip_protocol::from_name(other)),
    }
}

/// The fields that one line gives.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    /// Nanoseconds since 1970, and what `ts_sec` and `ts_usec` say of it.
    pub time: Option<i64>,
    pub seconds: Option<i64>,
    pub microseconds: Option<i64>,
    pub src: Option<Ipv4Addr>,
    pub dst: Option<Ipv4Addr>,
    pub len: Option<u32>,
    pub protocol: Option<u8>,
    pub id: u16,
    pub tos: u8,
    pub ttl: Option<u8>,
    pub ip_sum: Option<u16>,
    /// Flags and fragment offset, by `ip_frag`, and by `ip_fragoff`, which is finer.
    pub frag: Option<u16>,
    pub frag_off: Option<u16>,
    pub ip_options: Vec<u8>,
    pub sport: Option<u16>,
    pub dport: Option<u16>,
    pub seq: u32,
    pub ack: u32,
    pub flags: u16,
    pub tcp_options: Vec<u8>,
    /// Length that the line gives the header, options included, bytes; 0 where it does not.
    pub ip_header_len: usize,
    /// Likewise.
    pub tcp_header_len: usize,
    pub window: u16,
    pub urgent: u16,
    pub udp_len: Option<u16>,
    pub icmp_type: u8,
    pub icmp_code: u8,
    /// The second word of the ICMP header.
    pub icmp_rest: [u16; 2],
    pub payload: Option<Vec<u8>>,
    pub payload_len: Option<u32>,
    pub count: Option<u32>,
    pub link: Option<u8>,
    pub aggregate: Option<u32>,
    pub eth: [Option<[u8; 6]>; 2],
    /// Whether a field was given that only a packet with an IP header has.
    pub has_ip: bool,
}

/// An Ethernet address with colons or dashes.
fn ether(text: &str) -> Option<[u8; 6]> {
    let mut address = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut address {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(address)
}

/// Flags and fragment offset; `unit` is the bytes that 1 stands for.
fn fragment(text: &str, unit: u16) -> Option<u16> {
    match text {
        "." => return Some(0),
        "!" => return Some(ipv4::DONT_FRAGMENT),
        "F" => return Some(ipv4::MORE_FRAGMENTS),
        // Some offset, to be a later fragment at all.
        "f" => return Some(100),
        _ => {}
    }
    let digits = text.trim_end_matches(['+', '!']);
    let offset = digits.parse::<u32>().ok()? / u32::from(unit);
    let offset = u16::try_from(offset).ok().filter(|offset| *offset <= ipv4::OFFSET_MASK)?;
    let marks = &text[digits.len()..];
    let flag = |mark: char, flag: u16| if marks.contains(mark) { flag } else { 0 };
    Some(offset | flag('+', ipv4::MORE_FRAGMENTS) | flag('!', ipv4::DONT_FRAGMENT))
}

/// TCP flags by letters, or as a number in old dumps.
fn tcp_flags(text: &str) -> Option<u16> {
    if text == "." {
        return Some(0);
    }
    if let Ok(number) = text.parse::<u16>() {
        return (number < 512).then_some(number);
    }
    text.chars().try_fold(0, |flags, letter| {
        let bit = match letter {
            // Old letters of ECE and CWR, and another of CWR.
            'X' => 6,
            'Y' | 'W' => 7,
            letter => "FSRPAUECN".find(letter)?,
        };
        Some(flags | 1 << bit)
    })
}

fn ecn(text: &str) -> Option<u8> {
    match text {
        "no" | "0" => Some(0),
        "ect1" | "ECT(1)" | "1" => Some(1),
        "ect2" | "ECT(0)" | "2" => Some(2),
        "ce" | "CE" | "3" => Some(3),
        _ => None,
    }
}

/// Bytes of an IP or TCP header with its options: from 20 to 60, in words of four.
fn header_len(text: &str) -> Option<usize> {
    text.parse().ok().filter(|len| (20..=60).contains(len) && len % 4 == 0)
}

impl Record {
    /// Takes a field's text; `None` when it is none of the field's. `minor` is the version of the
    /// format: the first counted fragment offsets in units of 8 bytes.
    pub(crate) fn set(&mut self, field: Field, text: &str, minor: u32) -> Option<()> {
        use Field::*;
        match field {
            // Lengths beyond the line, sums over absent payload, and the thread that wrote it:
            // nothing to set.
            None | Thread | WireLen | IpCaptureLen | PayloadMd5 | PayloadMd5Hex => {}
            Timestamp | NanoTimestamp => self.time = Some(parse_instant(text)?),
            Seconds => self.seconds = Some(text.parse().ok()?),
            Microseconds => self.microseconds = Some(text.parse().ok()?),
            AllMicroseconds => self.time = Some(text.parse::<i64>().ok()?.checked_mul(1000)?),
            Payload => {
                self.payload = Some(unquote(text));
                self.has_ip = true;
            }
            PayloadLen => {
                self.payload_len = Some(text.parse().ok()?);
                self.has_ip = true;
            }
            Count => self.count = Some(text.parse().ok()?),
            Link | Direction => {
                self.link = Some(match text {
                    ">" | "L" => 0,
                    "<" | "R" | "X" => 1,
                    number => number.parse().ok()?,
                });
            }
            Aggregate => self.aggregate = Some(text.parse().ok()?),
            EthDst => self.eth[0] = Some(ether(text)?),
            EthSrc => self.eth[1] = Some(ether(text)?),
            IpSrc | IpDst | IpLen | IpProto | IpId | IpTos | IpDscp | IpEcn | IpTtl | IpSum
            | IpFrag | IpFragOff | IpOpt | IpHl => self.set_ip(field, text, minor)?,
            _ => self.set_transport(field, text)?,
        }
        Some(())
    }

    fn set_ip(&mut self, field: Field, text: &str, minor: u32) -> Option<()> {
        use Field::*;
        self.has_ip = true;
        match field {
            IpSrc => self.src = Some(text.parse().ok()?),
            IpDst => self.dst = Some(text.parse().ok()?),
            IpLen => self.len = Some(text.parse().ok()?),
            IpHl => self.ip_header_len = header_len(text)?,
            IpProto => self.protocol = Some(protocol(text)?),
            IpId => self.id = text.parse().ok()?,
            IpTos => self.tos = text.parse().ok()?,
            IpDscp => {
                let dscp = text.parse::<u8>().ok().filter(|dscp| *dscp < 64)?;
                self.tos = self.tos & 3 | dscp << 2;
            }
            IpEcn => self.tos = self.tos & !3 | ecn(text)?,
            IpTtl => self.ttl = Some(text.parse().ok()?),
            IpSum => self.ip_sum = Some(text.parse().ok()?),
            IpFrag => self.frag = Some(fragment(text, 1)?),
            IpFragOff => {
                self.frag_off = Some(fragment(text, if minor == 0 { 1 } else { 8 })?);
            }
            _ => self.ip_options = options::parse_ip(text)?,
        }
        Some(())
    }

    fn set_transport(&mut self, field: Field, text: &str) -> Option<()> {
        use Field::*;
        self.has_ip = true;
        match field {
            Sport => self.sport = Some(text.parse().ok()?),
            Dport => self.dport = Some(text.parse().ok()?),
            TcpSeq => self.seq = text.parse().ok()?,
            TcpAck => self.ack = text.parse().ok()?,
            TcpOff => self.tcp_header_len = header_len(text)?,
            TcpFlags => self.flags = tcp_flags(text)?,
            TcpOpt | TcpNtOpt | TcpSack => self.tcp_options = options::parse_tcp(text)?,
            TcpWindow => self.window = text.parse().ok()?,
            TcpUrp => self.urgent = text.parse().ok()?,
            UdpLen => self.udp_len = Some(text.parse().ok()?),
            IcmpType | IcmpTypeName => self.icmp_type = field::icmp_type(text)?,
            IcmpCode | IcmpCodeName => self.icmp_code = field::icmp_code(self.icmp_type, text)?,
            IcmpFlowId => self.icmp_rest[0] = text.parse().ok()?,
            IcmpSeq | IcmpNextMtu => self.icmp_rest[1] = text.parse().ok()?,
            _ => return Option::None,
        }
        Some(())
    }

    /// When the packet was seen, if the line says.
    pub(crate) fn timestamp(&self) -> Option<i64> {
        let seconds = self.seconds.map(|seconds| seconds.saturating_mul(1_000_000_000));
        let parts = match (seconds, self.microseconds) {
            (None, None) => None,
            (seconds, micros) => {
                let micros = micros.unwrap_or(0).saturating_mul(1000);
                Some(seconds.unwrap_or(0).saturating_add(micros))
            }
        };
        self.time.or(parts)
    }

    /// Flags and fragment offset.
    pub(crate) fn fragment(&self) -> u16 {
        self.frag_off.or(self.frag).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_and_flags_are_read_in_all_their_forms() {
        assert_eq!(fragment("0+", 8), Some(0x2000));
        assert_eq!(fragment("1480+", 8), Some(0x2000 | 185));
        assert_eq!(fragment("0!", 8), Some(0x4000));
        assert_eq!(fragment("185", 1), Some(185));
        assert_eq!(fragment("65536", 8), None);
        assert_eq!(fragment("x", 8), None);
        assert_eq!(tcp_flags("SA"), Some(0x12));
        assert_eq!(tcp_flags("XYN"), Some(0x1C0));
        assert_eq!(tcp_flags("18"), Some(18));
        assert_eq!(tcp_flags("Q"), None);
    }

    #[test]
    fn flows_and_addresses() {
        let flow = FlowId::parse(&["1.0.0.1", "5", "-", "-", "U"]).expect("a flow");
        assert_eq!((flow.sport, flow.dst, flow.protocol), (Some(5), None, Some(17)));
        assert!(FlowId::parse(&["1.0.0.1", "5", "2.0.0.2"]).is_none());
        assert!(FlowId::parse(&["1.0.0.1", "70000", "2.0.0.2", "1"]).is_none());
        assert_eq!(ether("00-0A-95-A6-D9-BC"), Some([0, 10, 0x95, 0xA6, 0xD9, 0xBC]));
        assert_eq!(ether("0:1:2:3:4"), None);
    }
}
