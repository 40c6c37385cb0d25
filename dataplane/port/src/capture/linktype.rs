//! What the first byte of a captured frame is: the link-layer header types of capture files.
//! (The numbers are those of the LINKTYPE registry at tcpdump.org, which files carry.)

use std::fmt;

/// The link-layer header type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// BSD loopback: four bytes of address family in the writer's byte order, then the packet.
    Null,
    /// Ethernet II or 802.3.
    Ethernet,
    /// PPP, perhaps in HDLC-like framing (RFC 1662).
    Ppp,
    /// PPP in HDLC-like framing (RFC 1662), always.
    PppHdlc,
    /// PPPoE session packets (RFC 2516), from the PPPoE header on.
    Pppoe,
    /// An IPv4 or IPv6 header; the version field says which. Also read from the platform-dependent
    /// numbers 12 and 14.
    Raw,
    /// OpenBSD loopback: four bytes of address family in network byte order, then the packet.
    Loop,
    /// 802.11 without radio header.
    Ieee80211,
    /// 802.11 behind a radiotap header.
    Radiotap,
    /// Linux "cooked" capture, version 1: 16 bytes, then the packet.
    LinuxSll,
    /// Linux "cooked" capture, version 2: 20 bytes, then the packet.
    LinuxSll2,
    /// An IPv4 header.
    Ipv4,
    /// An IPv6 header.
    Ipv6,
    /// A number of the registry that has no name here.
    Unknown(u16),
}

/// Number in files, type, name. The first row of a type is the one written.
const TABLE: [(u16, LinkType, &str); 15] = [
    (0, LinkType::Null, "NULL"),
    (1, LinkType::Ethernet, "ETHERNET"),
    (9, LinkType::Ppp, "PPP"),
    (50, LinkType::PppHdlc, "PPP_HDLC"),
    (51, LinkType::Pppoe, "PPP_ETHER"),
    (101, LinkType::Raw, "RAW"),
    (12, LinkType::Raw, "RAW"),
    (14, LinkType::Raw, "RAW"),
    (105, LinkType::Ieee80211, "IEEE802_11"),
    (108, LinkType::Loop, "LOOP"),
    (113, LinkType::LinuxSll, "LINUX_SLL"),
    (127, LinkType::Radiotap, "IEEE802_11_RADIOTAP"),
    (228, LinkType::Ipv4, "IPV4"),
    (229, LinkType::Ipv6, "IPV6"),
    (276, LinkType::LinuxSll2, "LINUX_SLL2"),
];

impl LinkType {
    /// The type of a registry number.
    pub fn from_number(number: u16) -> LinkType {
        let row = TABLE.iter().find(|row| row.0 == number);
        row.map_or(LinkType::Unknown(number), |row| row.1)
    }

    /// The registry number, as files carry it.
    pub fn number(self) -> u16 {
        match self {
            LinkType::Unknown(number) => number,
            known => TABLE.iter().find(|row| row.1 == known).map_or(0, |row| row.0),
        }
    }

    /// The registry's name without its prefix, or `None` for an unknown number.
    pub fn name(self) -> Option<&'static str> {
        TABLE.iter().find(|row| row.1 == self).map(|row| row.2)
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.number()),
            None => write!(f, "unknown link type {}", self.number()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_survives_except_the_synonyms_of_raw() {
        for number in 0..=u16::MAX {
            let back = LinkType::from_number(number).number();
            let expected = if matches!(number, 12 | 14) { 101 } else { number };
            assert_eq!(back, expected);
        }
    }

    #[test]
    fn unknown_types_say_their_number() {
        assert_eq!(LinkType::from_number(147).to_string(), "unknown link type 147");
        assert_eq!(LinkType::Ethernet.to_string(), "ETHERNET (1)");
    }
}
