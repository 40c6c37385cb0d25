//! How subscribers, tunnels and routes are written, and how they are packed into words.

use std::fmt;
use std::net::Ipv4Addr;

use thruway_element::text::split_words;
use thruway_element::{IpPrefix, Names};
use thruway_lpm::Prefix4;
use thruway_wire::MacAddr;
use thruway_wire::mpls::FIRST_UNRESERVED;

use crate::mpls_push::MAX_LABEL;

/// Bits of a VLAN identifier.
pub(super) const VLAN_BITS: u32 = 12;
/// Bits of a tunnel's number.
pub(super) const TUNNEL_BITS: u32 = 10;
/// Most labels in front of a tunnel's packets.
const MAX_LABELS: usize = 2;
/// The kinds of entries.
const EXPECTED: &str = "expected SUBSCRIBER SVLAN CVLAN KEY ADDR[/LEN] [ETHER PORT], \
                        TUNNEL NUMBER ADDR ETHER PORT [LABEL...], or ROUTE ADDR/LEN TUNNEL";
/// How an entry that is to be removed is named.
const NAMED: &str = "expected SUBSCRIBER SVLAN CVLAN, TUNNEL NUMBER, or ROUTE ADDR/LEN";

/// The line that a subscriber is on: outer and inner VLAN as one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line(pub(super) u32);

impl Line {
    #[inline]
    pub(super) fn new(outer: u16, inner: u16) -> Line {
        Line(u32::from(outer & 0xfff) << VLAN_BITS | u32::from(inner & 0xfff))
    }

    #[inline]
    pub(super) fn vlans(self) -> (u16, u16) {
        ((self.0 >> VLAN_BITS) as u16 & 0xfff, self.0 as u16 & 0xfff)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (outer, inner) = self.vlans();
        write!(f, "{outer} {inner}")
    }
}

/// The subscriber on a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subscriber {
    /// The GRE key of its packets; no other subscriber has it.
    pub(super) key: u32,
    /// His addresses.
    pub(super) prefix: Prefix4,
}

impl Subscriber {
    pub(super) fn pack(&self) -> [u64; 2] {
        let length = u64::from(self.prefix.len());
        [self.key.into(), u64::from(self.prefix.first()) | length << 32]
    }

    /// The key, and whether `addr` is one of his, of a packed entry.
    #[inline]
    pub(super) fn owns([key, prefix]: [u64; 2], addr: u32) -> (u32, bool) {
        let length = (prefix >> 32) as u32;
        let mask = u32::MAX.checked_shl(32 - length.min(32)).unwrap_or(0);
        (key as u32, (addr ^ prefix as u32) & mask == 0)
    }

    pub(super) fn unpack([key, prefix]: [u64; 2]) -> Option<Subscriber> {
        let prefix = Prefix4::new(prefix as u32, (prefix >> 32) as u8).ok()?;
        Some(Subscriber { key: key as u32, prefix })
    }
}

/// How packets get to an end of tunnels in the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tunnel {
    /// Its address.
    pub(super) remote: u32,
    /// The next hop.
    pub(super) mac: MacAddr,
    /// Output.
    pub(super) port: u16,
    labels: [u32; MAX_LABELS],
    count: usize,
}

impl Tunnel {
    /// The labels, the last one to be on top.
    #[inline]
    pub(super) fn labels(&self) -> &[u32] {
        &self.labels[..self.count.min(MAX_LABELS)]
    }

    pub(super) fn pack(&self) -> [u64; 3] {
        let [first, second] = self.labels.map(u64::from);
        [
            first << 2 | self.count as u64,
            self.mac.to_u64() << 16 | u64::from(self.port),
            u64::from(self.remote) | second << 32,
        ]
    }

    #[inline]
    pub(super) fn unpack([first, locate, second]: [u64; 3]) -> Tunnel {
        Tunnel {
            remote: second as u32,
            mac: MacAddr::from_u64(locate >> 16),
            port: locate as u16,
            labels: [(first >> 2) as u32 & MAX_LABEL, (second >> 32) as u32 & MAX_LABEL],
            count: (first & 3) as usize,
        }
    }
}

/// The tunnel as it is written, but for its number.
impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", Ipv4Addr::from(self.remote), self.mac.dashed(), self.port)?;
        self.labels().iter().try_for_each(|label| write!(f, " {label}"))
    }
}

/// Where in a table an entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Subscriber(Line),
    Tunnel(u32),
    Route(Prefix4),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Subscriber(line) => write!(f, "SUBSCRIBER {line}"),
            Name::Tunnel(number) => write!(f, "TUNNEL {number}"),
            Name::Route(prefix) => write!(f, "ROUTE {prefix}"),
        }
    }
}

/// An entry of one of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// With Ethernet address and port, where these are known and not to be learnt.
    Subscriber(Line, Subscriber, Option<(MacAddr, u16)>),
    Tunnel(u32, Tunnel),
    /// To a tunnel.
    Route(Prefix4, u32),
}

impl Item {
    pub(super) fn name(&self) -> Name {
        match self {
            Item::Subscriber(line, ..) => Name::Subscriber(*line),
            Item::Tunnel(number, _) => Name::Tunnel(*number),
            Item::Route(prefix, _) => Name::Route(*prefix),
        }
    }
}

/// The context for parsing entries.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) names: Names,
    /// Ports towards subscribers; they come first.
    pub(super) access: usize,
    /// All ports.
    pub(super) ports: usize,
}

impl Reading {
    fn vlan(&self, word: &str) -> Result<u16, String> {
        let vlan: u16 = self.names.parse(word)?;
        // 0 is no VLAN, 4095 is reserved (IEEE 802.1Q table 9-2).
        if (1..=4094).contains(&vlan) {
            Ok(vlan)
        } else {
            Err(format!("'{word}' is not a VLAN; it must be from 1 to 4094"))
        }
    }

    fn line(&self, outer: &str, inner: &str) -> Result<Line, String> {
        Ok(Line::new(self.vlan(outer)?, self.vlan(inner)?))
    }

    fn prefix(&self, word: &str) -> Result<Prefix4, String> {
        let prefix: IpPrefix = self.names.parse(word)?;
        let length = prefix.length().ok_or_else(|| format!("'{word}': the mask has holes"))?;
        Prefix4::new(prefix.addr.into(), length).map_err(|error| error.to_string())
    }

    fn port(&self, word: &str, core: bool) -> Result<u16, String> {
        let port: u16 = self.names.parse(word)?;
        let (from, to) = if core { (self.access, self.ports) } else { (0, self.access) };
        if (from..to).contains(&usize::from(port)) {
            return Ok(port);
        }
        let side = if core { "the core" } else { "subscribers" };
        Err(format!("port {port} does not lead to {side}; ports {from} to {} do", to - 1))
    }

    fn tunnel_number(&self, word: &str) -> Result<u32, String> {
        let number: u32 = self.names.parse(word)?;
        let most = (1 << TUNNEL_BITS) - 1;
        if number <= most {
            Ok(number)
        } else {
            Err(format!("no tunnel {number}; its number must be from 0 to {most}"))
        }
    }

    fn subscriber(&self, words: &[&str]) -> Result<Item, String> {
        let [outer, inner, key, prefix, locate @ ..] = words else {
            return Err(EXPECTED.to_owned());
        };
        let subscriber = Subscriber { key: self.names.parse(key)?, prefix: self.prefix(prefix)? };
        if subscriber.prefix.first() == 0 {
            return Err(format!("'{prefix}' is not a valid subscriber address"));
        }
        let locate = match locate {
            [] => None,
            [_, _] if subscriber.prefix.len() != 32 => {
                return Err("ETHER and PORT go with one address; write no LEN".to_owned());
            }
            [mac, port] => Some((self.names.parse(mac)?, self.port(port, false)?)),
            _ => return Err(EXPECTED.to_owned()),
        };
        Ok(Item::Subscriber(self.line(outer, inner)?, subscriber, locate))
    }

    fn tunnel(&self, words: &[&str]) -> Result<Item, String> {
        let [number, remote, mac, port, rest @ ..] = words else {
            return Err(EXPECTED.to_owned());
        };
        if rest.len() > MAX_LABELS {
            return Err(format!("{} labels; a tunnel has at most {MAX_LABELS}", rest.len()));
        }
        let mut labels = [0; MAX_LABELS];
        for (label, word) in labels.iter_mut().zip(rest) {
            *label = self.names.parse(word)?;
            if !(FIRST_UNRESERVED..=MAX_LABEL).contains(label) {
                let most = MAX_LABEL;
                return Err(format!("label {label}; it must be from {FIRST_UNRESERVED} to {most}"));
            }
        }
        let remote: Ipv4Addr = self.names.parse(remote)?;
        let tunnel = Tunnel {
            remote: remote.into(),
            mac: self.names.parse(mac)?,
            port: self.port(port, true)?,
            labels,
            count: rest.len(),
        };
        Ok(Item::Tunnel(self.tunnel_number(number)?, tunnel))
    }

    /// An entry of any table.
    pub(super) fn item(&self, text: &str) -> Result<Item, String> {
        match &split_words(text)[..] {
            ["SUBSCRIBER", words @ ..] => self.subscriber(words),
            ["TUNNEL", words @ ..] => self.tunnel(words),
            ["ROUTE", prefix, tunnel] => {
                Ok(Item::Route(self.prefix(prefix)?, self.tunnel_number(tunnel)?))
            }
            ["ROUTE", ..] | [] => Err(EXPECTED.to_owned()),
            [word, ..] => Err(format!("unknown '{word}'; {EXPECTED}")),
        }
    }

    /// The name of an entry.
    pub(super) fn name(&self, text: &str) -> Result<Name, String> {
        match &split_words(text)[..] {
            ["SUBSCRIBER", outer, inner] => Ok(Name::Subscriber(self.line(outer, inner)?)),
            ["TUNNEL", number] => Ok(Name::Tunnel(self.tunnel_number(number)?)),
            ["ROUTE", prefix] => Ok(Name::Route(self.prefix(prefix)?)),
            _ => Err(NAMED.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reading() -> Reading {
        Reading { names: Names::default(), access: 2, ports: 3 }
    }

    proptest! {
        #[test]
        fn subscribers_round_trip(
            key: u32, addr in 1u32.., length in 0u8..=32, other: u32, near: bool,
        ) {
            let prefix = Prefix4::new(addr, length).unwrap();
            let subscriber = Subscriber { key, prefix };
            prop_assert!(subscriber.pack()[0] < 1 << thruway_table::ENTRY_BITS);
            prop_assert_eq!(Subscriber::unpack(subscriber.pack()), Some(subscriber));
            // An address that differs in few bits, so that some are his.
            let other = if near { addr ^ (other >> length.saturating_sub(1).min(31)) } else { other };
            let owns = Subscriber::owns(subscriber.pack(), other);
            prop_assert_eq!(owns, (key, prefix.contains(other)));
        }

        #[test]
        fn tunnels_round_trip(remote: u32, mac in 0u64..1 << 48, port in 2u16..3,
                             labels in prop::collection::vec(16u32..=MAX_LABEL, 0..=2)) {
            let mut all = [0; 2];
            all[..labels.len()].copy_from_slice(&labels);
            let mac = MacAddr::from_u64(mac);
            let tunnel = Tunnel { remote, mac, port, labels: all, count: labels.len() };
            prop_assert!(tunnel.pack()[0] < 1 << thruway_table::ENTRY_BITS);
            prop_assert_eq!(Tunnel::unpack(tunnel.pack()), tunnel);
            let shown = format!("TUNNEL 9 {tunnel}");
            prop_assert_eq!(reading().item(&shown), Ok(Item::Tunnel(9, tunnel)));
        }

        #[test]
        fn any_text(text in "(SUBSCRIBER |TUNNEL |ROUTE |1 |10.0.0.1 |/8 |2:0:0:0:0:1 |[!-~]| ){0,10}") {
            let _ = (reading().item(&text), reading().name(&text));
        }
    }

    #[test]
    fn wrong_entries() {
        for (text, why) in [
            ("", "expected SUBSCRIBER"),
            ("SUBSCIBER 1 2 3 1.0.0.1", "unknown 'SUBSCIBER'"),
            ("SUBSCRIBER 1 2 3", "expected SUBSCRIBER"),
            ("SUBSCRIBER 0 2 3 1.0.0.1", "'0' is not a VLAN"),
            ("SUBSCRIBER 1 4095 3 1.0.0.1", "'4095' is not a VLAN"),
            ("SUBSCRIBER 1 2 3 1.0.0.0/24 2:0:0:0:0:1 0", "ETHER and PORT go with one address"),
            ("SUBSCRIBER 1 2 3 1.0.0.1 2:0:0:0:0:1 2", "port 2 does not lead to subscribers"),
            ("SUBSCRIBER 1 2 3 0.0.0.0/0", "'0.0.0.0/0' is not a valid subscriber"),
            ("TUNNEL 1024 1.0.0.1 2:0:0:0:0:1 2", "no tunnel 1024"),
            ("TUNNEL 1 1.0.0.1 2:0:0:0:0:1 1", "port 1 does not lead to the core; ports 2 to 2 do"),
            ("TUNNEL 1 1.0.0.1 2:0:0:0:0:1 2 15", "label 15; it must be from 16"),
            ("TUNNEL 1 1.0.0.1 2:0:0:0:0:1 2 16 17 18", "3 labels"),
            ("ROUTE 1.0.0.0/255.0.255.0 1", "'1.0.0.0/255.0.255.0': the mask has holes"),
            ("ROUTE 1.0.0.0/8", "expected SUBSCRIBER"),
        ] {
            let refused = reading().item(text).unwrap_err();
            assert!(refused.starts_with(why), "{text}: {refused}");
        }
    }
}
