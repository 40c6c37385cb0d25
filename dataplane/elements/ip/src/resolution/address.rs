//! Addresses that are resolved: IPv4's by ARP, IPv6's by neighbour discovery.

use std::fmt::Display;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};

use thruway_element::FromArg;
use thruway_packet::Packet;
use thruway_wire::MacAddr;
use thruway_wire::ethernet::ethertype;

/// A network address that stands in a packet's annotation.
pub trait Address: Copy + Display + Eq + FromArg + Hash + Send + 'static {
    /// EtherType of its packets.
    const ETHERTYPE: u16;
    /// No address: `0.0.0.0`, `::`.
    const UNSET: Self;
    /// The name of its queries in Click's counters.
    const QUESTIONS: &'static str;

    /// The next hop of a packet.
    fn of(packet: &Packet) -> Self;

    /// Bits that differ between addresses.
    fn spread(self) -> u32;

    /// The Ethernet address, where it follows from the address itself.
    fn group(self) -> Option<MacAddr>;
}

impl Address for Ipv4Addr {
    const ETHERTYPE: u16 = ethertype::IPV4;
    const UNSET: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
    const QUESTIONS: &'static str = "ARP queries";

    #[inline]
    fn of(packet: &Packet) -> Ipv4Addr {
        Ipv4Addr::from_octets(packet.dst_ip())
    }

    #[inline]
    fn spread(self) -> u32 {
        self.to_bits()
    }

    fn group(self) -> Option<MacAddr> {
        match self {
            Ipv4Addr::BROADCAST => Some(MacAddr::BROADCAST),
            // RFC 1112 section 6.4
            group if group.is_multicast() => Some(MacAddr::ipv4_multicast(group)),
            _ => None,
        }
    }
}

impl Address for Ipv6Addr {
    const ETHERTYPE: u16 = ethertype::IPV6;
    const UNSET: Ipv6Addr = Ipv6Addr::UNSPECIFIED;
    const QUESTIONS: &'static str = "ND Solicitation Message";

    #[inline]
    fn of(packet: &Packet) -> Ipv6Addr {
        Ipv6Addr::from_octets(packet.dst_ip6())
    }

    #[inline]
    fn spread(self) -> u32 {
        let bits = self.to_bits();
        (bits ^ bits >> 32 ^ bits >> 64 ^ bits >> 96) as u32
    }

    fn group(self) -> Option<MacAddr> {
        // RFC 2464 section 7
        self.is_multicast().then(|| MacAddr::ipv6_multicast(self))
    }
}
