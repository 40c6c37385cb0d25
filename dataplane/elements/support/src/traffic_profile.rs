//! The profile of packets that a source keeps or reads: lengths, and number of sessions.

use std::collections::HashSet;

use thruway_element::cost::{Access, Cost};
use thruway_element::{Made, Operation};
use thruway_wire::Header;
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::flow::FiveTuple;
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::ipv6_ext::upper_layer;
use thruway_wire::vlan::skip_tags;

/// Packets that are looked at: of more than these, the rest is taken to be like the first.
pub const PACKETS_MAX: usize = 1 << 20;

/// The common key of both directions of a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Session {
    /// Of IPv4.
    V4(FiveTuple<u32>),
    /// Of IPv6.
    V6(FiveTuple<[u8; 16]>),
}

/// Packets that are being counted.
#[derive(Default)]
pub struct TrafficProfile {
    packets: usize,
    bytes: u64,
    sessions: HashSet<Session>,
}

impl TrafficProfile {
    /// Of all these packets, but no more than [`PACKETS_MAX`].
    pub fn of<'a>(packets: impl IntoIterator<Item = &'a [u8]>) -> TrafficProfile {
        let mut traffic_profile = TrafficProfile::default();
        for packet in packets.into_iter().take(PACKETS_MAX) {
            traffic_profile.add(packet);
        }
        traffic_profile
    }

    /// Counts a packet, Ethernet or bare IP.
    pub fn add(&mut self, packet: &[u8]) {
        self.packets += 1;
        self.bytes += packet.len() as u64;
        if let Some(session) = in_ethernet(packet).or_else(|| session_of(packet)) {
            self.sessions.insert(session);
        }
    }

    /// Packets counted.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// The profile of a source that repeats these; nothing if there are none.
    pub fn made(&self) -> Option<Made> {
        (self.packets > 0).then(|| Made {
            packet_bytes: self.bytes as f64 / self.packets as f64,
            sessions: self.sessions.len() as f64,
            period: self.packets as f64,
        })
    }
}

/// The cost of making packets with so many lines copied.
pub fn making(lines: f64) -> Vec<Cost> {
    vec![Operation::Make.once(), Operation::CopyLine.times(lines)]
}

/// What it costs to make packets from a trace in memory, each of so many lines, and the trace of so
/// many bytes.
pub fn replaying(lines: f64, bytes: usize) -> Vec<Cost> {
    let copied = Operation::CopyLine.times(lines);
    vec![Operation::Make.once(), copied.reaching(bytes as f64, 1.0, Access::Stream)]
}

fn in_ethernet(packet: &[u8]) -> Option<Session> {
    let (header, rest) = EthernetHeader::view(packet).ok()?;
    match skip_tags(header.ethertype(), rest).ok()? {
        (ethertype::IPV4 | ethertype::IPV6, rest) => session_of(rest),
        _ => None,
    }
}

/// The session of an IP packet: the lesser of its two tuples.
pub fn session_of(packet: &[u8]) -> Option<Session> {
    match packet.first()? >> 4 {
        4 => {
            let (header, _, payload) = Ipv4Header::parse_cut(packet).ok()?;
            let tuple = FiveTuple::of_ipv4(header, payload);
            Some(Session::V4(tuple.min(tuple.reversed())))
        }
        6 => {
            let (header, payload) = Ipv6Header::view(packet).ok()?;
            let upper = upper_layer(header.next_header(), payload).ok()?;
            let tuple = FiveTuple::of_ipv6(header, &upper);
            Some(Session::V6(tuple.min(tuple.reversed())))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thruway_wire::ip_protocol;

    fn udp(source: u8, ports: [u8; 4], payload: usize) -> Vec<u8> {
        let (src, dst) = ([10, 0, 0, source].into(), [10, 0, 0, 9].into());
        let header = Ipv4Header::new(ip_protocol::UDP, src, dst, 8 + payload).unwrap();
        let mut bytes = zerocopy::IntoBytes::as_bytes(&header).to_vec();
        bytes.extend(ports);
        bytes.extend(vec![0; 4 + payload]);
        bytes
    }

    fn framed(packet: &[u8]) -> Vec<u8> {
        [&[0; 12][..], &[0x81, 0, 0, 7, 8, 0], packet].concat()
    }

    #[test]
    fn both_directions_are_one_session_with_and_without_a_frame() {
        let there = udp(1, [0, 80, 1, 0], 10);
        let mut back = there.clone();
        let (src, dst) = (there[12..16].to_vec(), there[16..20].to_vec());
        back[12..16].copy_from_slice(&dst);
        back[16..20].copy_from_slice(&src);
        back[20..24].copy_from_slice(&[1, 0, 0, 80]);
        let other = udp(2, [0, 80, 1, 0], 30);
        let packets = [there.clone(), back, framed(&there), other, vec![0; 4]];
        let made = TrafficProfile::of(packets.iter().map(Vec::as_slice)).made().unwrap();
        assert_eq!(
            made,
            Made { packet_bytes: (38 + 38 + 56 + 58 + 4) as f64 / 5.0, sessions: 2.0, period: 5.0 }
        );
    }

    #[test]
    fn nothing_makes_nothing_and_cut_packets_belong_to_no_session() {
        assert!(TrafficProfile::of([]).made().is_none());
        let whole = framed(&udp(1, [1; 4], 0));
        let cut = (0..38).map(|len| &whole[..len]);
        assert_eq!(TrafficProfile::of(cut).made().unwrap().sessions, 0.0);
    }
}
