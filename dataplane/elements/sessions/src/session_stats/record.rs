//! A session's record: endpoints, times and counts.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thruway_element::Direction;
use thruway_flow::{Ended, KeyField, SessionDef};
use thruway_packet::Packet;
use thruway_wire::flow::FiveTuple;
use thruway_wire::ip_protocol::{ICMP, ICMPV6};
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::{Header, ipv6_ext};

/// The endpoints of a session. Fields that its definition does not name are unspecified or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Endpoints {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
    pub(super) protocol: u8,
}

/// One direction's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DirectionCounts {
    pub(super) packets: u64,
    /// IP header included, link layer not.
    pub(super) bytes: u64,
    /// Times of the first and last packet, nanoseconds since the Unix epoch; 0 without packets.
    pub(super) first: i64,
    pub(super) last: i64,
    /// All TCP flags that were seen.
    pub(super) flags: u8,
}

/// The events of a session since the last record about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) endpoints: Endpoints,
    /// Forward and reply.
    pub(super) paths: [DirectionCounts; 2],
    /// `None`: it goes on.
    pub(super) ended: Option<Ended>,
}

impl Endpoints {
    /// The endpoints of a packet's session, with the fields that the session's definition names, as
    /// in its forward packets; `None` without an IP header.
    pub(super) fn of(
        packet: &Packet,
        direction: Direction,
        session: &SessionDef,
    ) -> Option<Endpoints> {
        let endpoints = match packet.network().first()? >> 4 {
            4 => {
                let (header, _) = Ipv4Header::view(packet.network()).ok()?;
                endpoints(FiveTuple::of_ipv4(header, packet.transport()), packet, Ipv4Addr::from)
            }
            6 => {
                let (header, payload) = Ipv6Header::parse_cut(packet.network()).ok()?;
                let upper = ipv6_ext::upper_layer(header.next_header(), payload).ok()?;
                endpoints(FiveTuple::of_ipv6(header, &upper), packet, Ipv6Addr::from)
            }
            _ => return None,
        };
        let endpoints =
            if direction == Direction::Reply { endpoints.reversed() } else { endpoints };
        Some(endpoints.limited(session))
    }

    /// The same as replies have them.
    pub(super) fn reversed(self) -> Endpoints {
        let Endpoints { src, dst, src_port, dst_port, protocol } = self;
        Endpoints { src: dst, dst: src, src_port: dst_port, dst_port: src_port, protocol }
    }

    fn limited(self, session: &SessionDef) -> Endpoints {
        let has = |field| session.fields.contains(&field);
        let unspecified = match self.src {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        Endpoints {
            src: if has(KeyField::Src) { self.src } else { unspecified },
            dst: if has(KeyField::Dst) { self.dst } else { unspecified },
            src_port: if has(KeyField::SrcPort) { self.src_port } else { 0 },
            dst_port: if has(KeyField::DstPort) { self.dst_port } else { 0 },
            protocol: if has(KeyField::Protocol) { self.protocol } else { 0 },
        }
    }
}

fn endpoints<A, I: Into<IpAddr>>(
    tuple: FiveTuple<A>,
    packet: &Packet,
    addr: fn(A) -> I,
) -> Endpoints {
    let FiveTuple { src, dst, mut src_port, mut dst_port, protocol } = tuple;
    if let (ICMP | ICMPV6, Some([a, b])) = (protocol, packet.transport().get(4..6)) {
        let ident = u16::from_be_bytes([*a, *b]);
        (src_port, dst_port) = (ident, ident);
    }
    Endpoints { src: addr(src).into(), dst: addr(dst).into(), src_port, dst_port, protocol }
}

/// The first line of a CSV file.
pub(super) const CSV_HEADER: &str = "src,dst,protocol,src_port,dst_port,\
    first,last,packets,bytes,tcp_flags,\
    reply_first,reply_last,reply_packets,reply_bytes,reply_tcp_flags,end\n";

/// Why it was written, as a word.
fn word(ended: Option<Ended>) -> &'static str {
    match ended {
        None => "active",
        Some(Ended::TimedOut) => "idle",
        Some(Ended::Closed) => "closed",
        Some(Ended::Evicted) => "evicted",
        Some(Ended::Removed) => "removed",
    }
}

impl Record {
    /// Appends a line of [`CSV_HEADER`]'s columns. Times are seconds since the Unix epoch, to the
    /// millisecond, and empty where there were no packets.
    pub(super) fn write_csv(&self, out: &mut String) {
        let Endpoints { src, dst, src_port, dst_port, protocol } = self.endpoints;
        // Writing to a String does not fail.
        let _ = write!(out, "{src},{dst},{protocol},{src_port},{dst_port}");
        for direction in &self.paths {
            for time in [direction.first, direction.last] {
                let ms = time.div_euclid(1_000_000);
                let _ = match direction.packets {
                    0 => write!(out, ","),
                    _ => write!(out, ",{}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000)),
                };
            }
            let _ = write!(out, ",{},{},{}", direction.packets, direction.bytes, direction.flags);
        }
        let _ = writeln!(out, ",{}", word(self.ended));
    }
}
