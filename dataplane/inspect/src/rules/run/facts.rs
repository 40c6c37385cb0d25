//! What is known of a packet besides its payload.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thruway_wire::Header;
use thruway_wire::flow::FiveTuple;
use thruway_wire::icmp::IcmpHeader;
use thruway_wire::ip_protocol;
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::ipv6_ext::upper_layer;
use thruway_wire::tcp::TcpHeader;

use crate::rules::ast::Protocol;
use crate::rules::buffer::Side;
use crate::rules::compiled::Compiled;
use crate::rules::condition::{Condition, FlagsMode};
use crate::rules::run::recognise::App;

/// What is known of a packet, or of the packet that more of a stream came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Its sender.
    pub source: IpAddr,
    /// Its receiver.
    pub destination: IpAddr,
    /// 0 where there are no ports.
    pub source_port: u16,
    /// 0 where there are no ports.
    pub destination_port: u16,
    /// Number of the protocol over IP.
    pub protocol: u8,
    /// Bytes of payload behind the transport header.
    pub payload_len: u32,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Identification, of IPv4.
    pub ip_id: Option<u16>,
    /// Of a packet of TCP.
    pub tcp: Option<TcpHeader>,
    /// Of a packet of ICMP, over IPv4 or IPv6.
    pub icmp: Option<IcmpHeader>,
    /// Its direction in its session; the opening direction if there is no session.
    pub side: Side,
    /// Both ends have taken part in the session.
    pub established: bool,
}

impl Facts {
    /// Of the headers of a packet, from the network header on; none where that is not IP. How many
    /// bytes of payload there are, its direction and whether its session is established is for
    /// others to say.
    pub fn of(headers: &[u8]) -> Option<Facts> {
        match headers.first()? >> 4 {
            4 => Facts::of_ipv4(headers),
            6 => Facts::of_ipv6(headers),
            _ => None,
        }
    }

    fn of_ipv4(bytes: &[u8]) -> Option<Facts> {
        let (header, _) = Ipv4Header::view(bytes).ok()?;
        let upper = bytes.get(header.header_len()..).unwrap_or(&[]);
        let tuple = FiveTuple::of_ipv4(header, upper);
        let upper = if header.is_first_fragment() || !header.is_fragment() { upper } else { &[] };
        let ends = (Ipv4Addr::from_bits(tuple.src).into(), Ipv4Addr::from_bits(tuple.dst).into());
        let facts = Facts::new(ends, (tuple.src_port, tuple.dst_port), tuple.protocol, upper);
        Some(Facts { ttl: header.ttl(), ip_id: Some(header.id()), ..facts })
    }

    fn of_ipv6(bytes: &[u8]) -> Option<Facts> {
        let (header, rest) = Ipv6Header::view(bytes).ok()?;
        let upper = upper_layer(header.next_header(), rest).ok()?;
        let tuple = FiveTuple::of_ipv6(header, &upper);
        let ends = (Ipv6Addr::from(tuple.src).into(), Ipv6Addr::from(tuple.dst).into());
        let bytes = if upper.has_header() { upper.bytes } else { &[] };
        let facts = Facts::new(ends, (tuple.src_port, tuple.dst_port), tuple.protocol, bytes);
        Some(Facts { ttl: header.hop_limit(), ..facts })
    }

    fn new(ends: (IpAddr, IpAddr), ports: (u16, u16), protocol: u8, upper: &[u8]) -> Facts {
        let is_icmp = protocol == ip_protocol::ICMP || protocol == ip_protocol::ICMPV6;
        let tcp = (protocol == ip_protocol::TCP).then(|| TcpHeader::view(upper).ok()).flatten();
        let icmp = is_icmp.then(|| IcmpHeader::view(upper).ok()).flatten();
        Facts {
            source: ends.0,
            destination: ends.1,
            source_port: ports.0,
            destination_port: ports.1,
            protocol,
            payload_len: 0,
            ttl: 0,
            ip_id: None,
            tcp: tcp.map(|(header, _)| *header),
            icmp: icmp.map(|(header, _)| *header),
            side: Side::ToServer,
            established: false,
        }
    }

    fn is_so(&self, condition: &Condition) -> bool {
        let icmp = self.icmp.as_ref();
        let tcp = self.tcp.as_ref();
        match condition {
            Condition::PayloadLen(range) => range.contains(self.payload_len),
            Condition::Ttl(range) => range.contains(self.ttl),
            Condition::IpProtocol(range) => range.contains(self.protocol),
            Condition::IpId(id) => self.ip_id == Some(*id),
            Condition::IcmpType(range) => icmp.is_some_and(|it| range.contains(it.icmp_type())),
            Condition::IcmpCode(range) => icmp.is_some_and(|it| range.contains(it.code())),
            Condition::IcmpId(id) => icmp.is_some_and(|it| it.ident() == *id),
            Condition::IcmpSeq(seq) => icmp.is_some_and(|it| it.sequence() == *seq),
            Condition::TcpSeq(seq) => tcp.is_some_and(|it| it.seq() == *seq),
            Condition::TcpAck(ack) => tcp.is_some_and(|it| it.ack() == *ack),
            Condition::SameAddress => self.source == self.destination,
            Condition::TcpWindow { window, negated } => {
                tcp.is_some_and(|it| (it.window() == *window) != *negated)
            }
            Condition::TcpFlags { flags, mode, ignore } => tcp.is_some_and(|it| {
                let (set, wanted) = (it.flags() & !ignore, flags & !ignore);
                match mode {
                    FlagsMode::Exactly => set == wanted,
                    FlagsMode::All => set & wanted == wanted,
                    FlagsMode::Any => set & wanted != 0,
                    FlagsMode::Not => set & wanted != wanted,
                }
            }),
        }
    }
}

impl Compiled {
    /// Whether a packet is the rule's, by all but its payload.
    pub(super) fn is_about(&self, facts: &Facts, app: App) -> bool {
        self.side.is_none_or(|side| side == facts.side)
            && self.established.is_none_or(|established| established == facts.established)
            && self.is_of(facts.protocol, app)
            && self.conditions.iter().all(|condition| facts.is_so(condition))
            && self.head.contains(
                (facts.source, facts.source_port),
                (facts.destination, facts.destination_port),
            )
    }

    fn is_of(&self, protocol: u8, app: App) -> bool {
        let is_tcp = protocol == ip_protocol::TCP;
        match self.protocol {
            Protocol::Ip => true,
            Protocol::Icmp => protocol == ip_protocol::ICMP || protocol == ip_protocol::ICMPV6,
            Protocol::Udp => protocol == ip_protocol::UDP,
            Protocol::Tcp | Protocol::TcpPacket | Protocol::TcpStream => is_tcp,
            Protocol::Http => is_tcp && app == App::Http,
            Protocol::Tls => is_tcp && app == App::Tls,
            Protocol::Ssh => is_tcp && app == App::Ssh,
            Protocol::Smtp => is_tcp && app == App::Smtp,
            Protocol::Ftp => is_tcp && app == App::Ftp,
            Protocol::Dns => app == App::Dns,
        }
    }
}
