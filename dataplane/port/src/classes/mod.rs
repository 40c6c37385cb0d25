//! The two classes that frames are received in, each in a ring of its own: what strangers can send
//! at will without holding a connection (SYNs, datagrams, fragments) fills the ring of others, and
//! takes no slot of open connections. See ADR 47.
//!
//! The kernel distinguishes them, before it takes a slot: for packet sockets by filters of classic
//! BPF ([`socket_filter`]), for AF_XDP in the steering program ([`steering`]).

pub(crate) mod extended;
pub(crate) mod socket_filter;
pub(crate) mod steering;

/// Which ring a frame is received in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Whole TCP segments that ask for no connection, ARP and neighbour discovery (RFC 4861) of the
    /// link.
    Preferred,
    /// All others.
    Other,
}

impl Class {
    pub(crate) const ALL: [Class; 2] = [Class::Preferred, Class::Other];
}

/// While more than half of the ring of others is full, they keep one of so many frames that are
/// read, and all that the preferred ring leaves.
pub(crate) const SHARE: usize = 8;

pub(crate) const ETHERNET_LEN: u32 = 14;
const VLAN_LEN: u32 = 4;
pub(crate) const IPV4_LEN: u32 = 20;
pub(crate) const IPV6_LEN: u32 = 40;
const PROTOCOL_TCP: u32 = 6;
pub(crate) const PROTOCOL_ICMPV6: u32 = 58;
/// More fragments follow, or an offset, in the word of IPv4's flags (RFC 791).
const FRAGMENT: u32 = 0x3FFF;
/// Byte of TCP's header that has the flags.
const FLAGS_AT: u32 = 13;
const SYN_AND_ACK: u32 = 0x12;
const SYN: u32 = 0x02;
/// Messages of neighbour discovery, and the hop limit that says that no router forwarded them
/// (RFC 4861).
const DISCOVERY: std::ops::RangeInclusive<u32> = 133..=137;
const NOT_FORWARDED: u32 = 255;

#[cfg(test)]
mod tests;
