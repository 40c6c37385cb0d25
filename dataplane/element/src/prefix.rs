//! Address prefixes.

use std::net::{Ipv4Addr, Ipv6Addr};

/// An IPv4 address with a mask, which need not be contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpPrefix {
    /// The address as written: its host bits are kept.
    pub addr: Ipv4Addr,
    /// The mask.
    pub mask: Ipv4Addr,
}

impl IpPrefix {
    /// Prefix length, when the mask is contiguous.
    pub fn length(&self) -> Option<u8> {
        let mask = u32::from(self.mask);
        (mask.leading_ones() + mask.trailing_zeros() >= 32).then_some(mask.leading_ones() as u8)
    }

    /// Whether the prefix contains `addr`.
    pub fn contains(&self, addr: Ipv4Addr) -> bool {
        (u32::from(addr) ^ u32::from(self.addr)) & u32::from(self.mask) == 0
    }

    /// The prefix written `text`: `ADDR/LEN`, `ADDR/MASK`, or `ADDR` alone for one host.
    pub fn parse(text: &str) -> Option<IpPrefix> {
        let (addr, mask) = text.split_once('/').unwrap_or((text, "32"));
        let mask = match mask.parse::<u32>() {
            Ok(length @ 0..=32) => Ipv4Addr::from(u32::MAX.checked_shl(32 - length).unwrap_or(0)),
            Ok(_) => return None,
            Err(_) => mask.parse().ok()?,
        };
        // `1.2/16` means 1.2.0.0/16.
        let octets = addr.split('.').count();
        let addr = match octets {
            1..=3 if text.contains('/') => {
                format!("{addr}{}", ".0".repeat(4 - octets)).parse().ok()?
            }
            _ => addr.parse().ok()?,
        };
        Some(IpPrefix { addr, mask })
    }
}

/// An IPv6 address with a prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ip6Prefix {
    /// The address as written: its host bits are kept.
    pub addr: Ipv6Addr,
    /// Prefix length, 0 to 128.
    pub length: u8,
}
