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

    /// The address without host bits.
    pub fn network(&self) -> Ipv4Addr {
        self.addr & self.mask
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

impl Ip6Prefix {
    /// The address without host bits.
    pub fn network(&self) -> Ipv6Addr {
        let host_bits = 128_u32.saturating_sub(self.length.into());
        let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
        Ipv6Addr::from_bits(self.addr.to_bits() & mask)
    }

    /// Whether the prefix contains `addr`.
    pub fn contains(&self, addr: Ipv6Addr) -> bool {
        let differ = self.addr.to_bits() ^ addr.to_bits();
        differ.leading_zeros() >= u32::from(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_bits_are_those_behind_the_length() {
        let v6 = |text: &str, length| Ip6Prefix { addr: text.parse().unwrap(), length };
        for (prefix, network) in [
            (v6("2001:db8::1", 128), "2001:db8::1"),
            (v6("2001:db8::1", 127), "2001:db8::"),
            (v6("2001:db8:ffff::1", 36), "2001:db8:f000::"),
            (v6("ffff::1", 0), "::"),
        ] {
            let network: Ipv6Addr = network.parse().unwrap();
            assert_eq!(prefix.network(), network);
            assert!(prefix.contains(network) && prefix.contains(prefix.addr));
        }
        assert!(!v6("2001:db8::", 127).contains("2001:db8::2".parse().unwrap()));
        let v4 = IpPrefix::parse("192.0.2.77/28").unwrap();
        assert_eq!(v4.network(), Ipv4Addr::new(192, 0, 2, 64));
        assert!(v4.contains(v4.network()) && !v4.contains(Ipv4Addr::new(192, 0, 2, 80)));
    }
}
