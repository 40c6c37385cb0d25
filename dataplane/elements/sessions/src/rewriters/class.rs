//! What distinguishes the rewriters: which packets have a flow, what of it is the key of a mapping,
//! and what is set.

use thruway_flow::tcp::Segment;
use thruway_packet::Packet;
use thruway_wire::checksum::{Delta, Sum};
use thruway_wire::flow::FiveTuple;
use thruway_wire::icmp::icmp_type;
use thruway_wire::ip_protocol::{DCCP, ICMP, TCP, UDP};
use thruway_wire::ipv4::Ipv4Header;
use zerocopy::FromBytes;

use crate::rewrite::{Ends, Ports};
use crate::rewriters::pattern::Pattern;
use crate::rewriters::state::{track_packets, track_tcp};
use crate::rewriters::store::{Key, Rewritten};

/// A sort of rewriter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// IPRewriter: TCP and UDP by their five-tuple.
    Ip,
    /// TCPRewriter.
    Tcp,
    /// UDPRewriter: TCP, UDP and DCCP, without tracking of their states.
    Udp,
    /// IPAddrRewriter: by the source, replies by their destination.
    Address,
    /// IPAddrPairRewriter: by both addresses.
    Pair,
    /// ICMPPingRewriter: by addresses and identifier. The identifier is the source port of
    /// requests, and one more is their destination port: so replies differ from requests.
    Ping,
}

/// TCP flags and offset are in the first 14 bytes, its checksum in the first 18.
const TCP_BYTES: usize = 18;
/// Ports and checksum of UDP; ports of DCCP and the part of its header that has the checksum.
const PORTS_BYTES: usize = 8;

/// No flow: packets with this key are handled by their input alone.
pub(super) const NO_KEY: Key = [0; 4];

fn ident_flow(src: u32, dst: u32, ident: u16, is_request: bool) -> FiveTuple<u32> {
    let next = ident.wrapping_add(1);
    let (src_port, dst_port) = if is_request { (ident, next) } else { (next, ident) };
    FiveTuple { src, dst, src_port, dst_port, protocol: ICMP }
}

impl Class {
    /// The flow of a packet with marked headers, as this class defines it; for an IPAddrRewriter
    /// the source. `None`: it has none.
    #[inline]
    pub(super) fn flow(self, packet: &Packet) -> Option<FiveTuple<u32>> {
        let (header, _) = Ipv4Header::ref_from_prefix(packet.network_head::<20>()?).ok()?;
        let (src, dst, protocol) = (header.src(), header.dst(), header.protocol());
        let addresses = |dst| FiveTuple { src, dst, src_port: 0, dst_port: 0, protocol: 0 };
        match self {
            Class::Address => return Some(addresses(0)),
            Class::Pair => return Some(addresses(dst)),
            _ if !header.is_first_fragment() => return None,
            _ => {}
        }
        let transport = packet.transport();
        let least = match (self, protocol) {
            (Class::Ip | Class::Tcp | Class::Udp, TCP) => TCP_BYTES,
            (Class::Ip | Class::Udp, UDP) | (Class::Udp, DCCP) => PORTS_BYTES,
            (Class::Ping, ICMP) => {
                let head = transport.first_chunk::<PORTS_BYTES>()?;
                let is_request = head[0] == icmp_type::ECHO;
                let ident = u16::from_be_bytes([head[4], head[5]]);
                let is_ping = is_request || head[0] == icmp_type::ECHO_REPLY;
                return is_ping.then(|| ident_flow(src, dst, ident, is_request));
            }
            _ => return None,
        };
        let head = transport.first_chunk::<4>().filter(|_| transport.len() >= least)?;
        let [a, b, c, d] = *head;
        let (src_port, dst_port) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        Some(FiveTuple { src, dst, src_port, dst_port, protocol })
    }

    /// The flow by which replies of an IPAddrRewriter are found.
    pub(super) fn reply_flow(self, packet: &Packet) -> Option<FiveTuple<u32>> {
        if self != Class::Address {
            return None;
        }
        let (header, _) = Ipv4Header::ref_from_prefix(packet.network_head::<20>()?).ok()?;
        let dst = header.dst();
        Some(FiveTuple { src: 0, dst, src_port: 0, dst_port: 0, protocol: 0 })
    }

    /// Whether a packet of this flow may begin a mapping: replies to no request do not.
    pub(super) fn begins(self, flow: &FiveTuple<u32>) -> bool {
        self != Class::Ping || flow.dst_port == flow.src_port.wrapping_add(1)
    }

    /// What counts of a five-tuple; `None` where there are no five-tuples.
    pub(super) fn reduced(self, flow: &FiveTuple<u32>) -> Option<FiveTuple<u32>> {
        let addresses = FiveTuple { src_port: 0, dst_port: 0, protocol: 0, ..*flow };
        match self {
            Class::Ip | Class::Tcp | Class::Udp => Some(*flow),
            Class::Pair => Some(addresses),
            Class::Address => Some(FiveTuple { dst: 0, ..addresses }),
            Class::Ping => None,
        }
    }

    /// What a pattern made of a flow, as this class can do it.
    pub(super) fn completed(
        self,
        flow: &FiveTuple<u32>,
        to: FiveTuple<u32>,
    ) -> Option<FiveTuple<u32>> {
        let keeps_ports = (to.src_port, to.dst_port) == (flow.src_port, flow.dst_port);
        match self {
            Class::Address if to.dst != flow.dst => None,
            Class::Address | Class::Pair => keeps_ports.then_some(to),
            Class::Ping => Some(FiveTuple { dst_port: to.src_port.wrapping_add(1), ..to }),
            _ => Some(to),
        }
    }

    /// Why a pattern is not for this class.
    pub(super) fn refuses(self, pattern: &Pattern) -> Option<&'static str> {
        let of_addresses = matches!(self, Class::Address | Class::Pair);
        (of_addresses && pattern.has_ports())
            .then_some("only addresses are rewritten: write the pattern as SADDR DADDR")
    }

    /// Changes of checksums: of the IP header's and of the transport header's.
    pub(super) fn deltas(self, flow: &FiveTuple<u32>, to: &FiveTuple<u32>) -> (Delta, Delta) {
        let ip = Delta::of_u32(flow.src, to.src).and(Delta::of_u32(flow.dst, to.dst));
        let source = Delta::of_u16(flow.src_port, to.src_port);
        let transport = match self {
            Class::Ping => source,
            _ => ip.and(source).and(Delta::of_u16(flow.dst_port, to.dst_port)),
        };
        (ip, transport)
    }

    /// What is set in a packet.
    #[inline]
    pub(super) fn ends(self, rewritten: &Rewritten) -> Ends {
        let to = &rewritten.to;
        let (src, dst) = (Some(to.src), Some(to.dst));
        match self {
            Class::Ip | Class::Tcp | Class::Udp => {
                Ends { src, dst, ports: Ports::Both(to.src_port, to.dst_port) }
            }
            Class::Pair => Ends { src, dst, ports: Ports::Keep },
            Class::Address if rewritten.is_reply => Ends { src: None, dst, ports: Ports::Keep },
            Class::Address => Ends { src, dst: None, ports: Ports::Keep },
            Class::Ping => {
                let ident = if rewritten.is_reply { to.dst_port } else { to.src_port };
                Ends { src, dst, ports: Ports::Ident(ident) }
            }
        }
    }

    /// Whether TCP's segments report on mappings.
    pub(super) fn follows_tcp(self) -> bool {
        matches!(self, Class::Ip | Class::Tcp)
    }

    /// The TCP numbers of a packet, if they decide whether it counts.
    #[inline]
    pub(super) fn segment(self, packet: &Packet) -> Option<Segment> {
        let head = packet.network_head::<20>().filter(|head| head[9] == TCP)?;
        if !self.follows_tcp() {
            return None;
        }
        let (header, _) = Ipv4Header::ref_from_prefix(head).ok()?;
        let len = usize::from(header.total_len()).saturating_sub(header.header_len());
        let pseudo = || Sum::pseudo_v4(header.src(), header.dst(), TCP, len);
        let read = Segment::read_cut(packet.transport(), len, pseudo);
        Some(read.unwrap_or(Segment::NONE))
    }

    /// The mapping's state after a packet, from its `state` before. Of a TCP segment only the
    /// believed `flags` count.
    #[inline]
    pub(super) fn track(self, believed: Option<(&Segment, u8)>, state: u8, is_reply: bool) -> u8 {
        match self {
            Class::Ip | Class::Tcp => match believed {
                Some((segment, flags)) => track_tcp(segment, flags, state, is_reply),
                None => track_packets(state, is_reply),
            },
            Class::Udp => track_packets(state, is_reply),
            Class::Address | Class::Pair | Class::Ping => state,
        }
    }

    /// The flow of the packet that an ICMP error quotes, reversed: the flow of its replies.
    pub(super) fn quoted_back(self, quoted: &Quoted) -> Option<FiveTuple<u32>> {
        let Quoted { src, dst, protocol, ports, ident } = *quoted;
        let back = FiveTuple { src: dst, dst: src, src_port: 0, dst_port: 0, protocol: 0 };
        match self {
            Class::Address => Some(FiveTuple { dst: 0, ..back }),
            Class::Pair => Some(back),
            Class::Ping => {
                let (ident, is_request) = ident.filter(|_| protocol == ICMP)?;
                Some(ident_flow(dst, src, ident, !is_request))
            }
            Class::Ip | Class::Tcp | Class::Udp => {
                let takes = match protocol {
                    TCP => true,
                    UDP => self != Class::Tcp,
                    DCCP => self == Class::Udp,
                    _ => false,
                };
                let (src_port, dst_port) = ports.filter(|_| takes)?;
                Some(FiveTuple { src_port: dst_port, dst_port: src_port, protocol, ..back })
            }
        }
    }
}

/// A packet that an ICMP error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quoted {
    pub src: u32,
    pub dst: u32,
    pub protocol: u8,
    /// Where it has them, and they are quoted.
    pub ports: Option<(u16, u16)>,
    /// Of an echo message: its identifier, and whether it is a request.
    pub ident: Option<(u16, bool)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_are_distinguished() {
        for ident in [0, 9, u16::MAX] {
            let request = ident_flow(1, 2, ident, true);
            let reply = ident_flow(2, 1, ident, false);
            assert_eq!(request.reversed(), reply);
            assert!(Class::Ping.begins(&request) && !Class::Ping.begins(&reply));
        }
    }
}
