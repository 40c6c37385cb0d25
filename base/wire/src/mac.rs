//! Ethernet addresses.

use core::fmt;
use core::str::FromStr;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An Ethernet (EUI-48) address, first byte on the wire first.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All ones: every station.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// All zeros: none.
    pub const ZERO: Self = Self([0; 6]);

    /// The address in the low 48 bits.
    #[must_use]
    #[inline]
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// From the low 48 bits.
    #[must_use]
    #[inline]
    pub const fn from_u64(value: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = value.to_be_bytes();
        Self([a, b, c, d, e, f])
    }

    /// All ones.
    #[must_use]
    #[inline]
    pub const fn is_broadcast(self) -> bool {
        self.to_u64() == Self::BROADCAST.to_u64()
    }

    /// Group address: multicast or broadcast.
    #[must_use]
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The group address of an IPv4 multicast group (RFC 1112 section 6.4).
    #[must_use]
    pub const fn ipv4_multicast(group: core::net::Ipv4Addr) -> Self {
        let [_, b, c, d] = group.octets();
        Self([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The group address of an IPv6 multicast group (RFC 2464 section 7).
    #[must_use]
    pub const fn ipv6_multicast(group: core::net::Ipv6Addr) -> Self {
        let [.., a, b, c, d] = group.octets();
        Self([0x33, 0x33, a, b, c, d])
    }

    /// Shown with dashes, as Click prints addresses: `00-11-22-33-44-55`.
    #[must_use]
    pub const fn dashed(self) -> impl fmt::Display {
        Separated(self, '-')
    }
}

impl From<[u8; 6]> for MacAddr {
    #[inline]
    fn from(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }
}

/// An address and the separator of its bytes.
struct Separated(MacAddr, char);

impl fmt::Display for Separated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self(MacAddr([a, b, c, d, e, g]), s), upper) = (self, f.alternate());
        if upper {
            write!(f, "{a:02X}{s}{b:02X}{s}{c:02X}{s}{d:02X}{s}{e:02X}{s}{g:02X}")
        } else {
            write!(f, "{a:02x}{s}{b:02x}{s}{c:02x}{s}{d:02x}{s}{e:02x}{s}{g:02x}")
        }
    }
}

/// With colons, `00:11:22:33:44:55`; `{:#}` in capitals.
impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Separated(*self, ':').fmt(f)
    }
}

/// Text that is not an Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacParseError;

impl fmt::Display for MacParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an Ethernet address: expected six hexadecimal bytes, as 00:11:22:33:44:55")
    }
}

impl core::error::Error for MacParseError {}

/// Six hexadecimal bytes of one or two digits, all separated by `:` or all by `-`.
impl FromStr for MacAddr {
    type Err = MacParseError;

    fn from_str(text: &str) -> Result<Self, MacParseError> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut parts = text.split(separator);
        let mut bytes = [0; 6];
        for byte in &mut bytes {
            *byte = parse_byte(parts.next().ok_or(MacParseError)?)?;
        }
        if parts.next().is_some() { Err(MacParseError) } else { Ok(Self(bytes)) }
    }
}

/// `u8::from_str_radix` would also take a sign.
fn parse_byte(text: &str) -> Result<u8, MacParseError> {
    let digits = text.len() <= 2 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if !digits {
        return Err(MacParseError);
    }
    u8::from_str_radix(text, 16).map_err(|_| MacParseError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let mac = MacAddr([0, 0x11, 0x22, 0xab, 0xcd, 0xef]);
        assert_eq!(mac.to_string(), "00:11:22:ab:cd:ef");
        assert_eq!(mac.dashed().to_string(), "00-11-22-ab-cd-ef");
        assert_eq!(format!("{:#}", mac.dashed()), "00-11-22-AB-CD-EF");
        assert_eq!("0:11:22:AB:cd:ef".parse(), Ok(mac));
        assert_eq!("00-11-22-ab-cd-ef".parse(), Ok(mac));
        assert_eq!(MacAddr::from_u64(mac.to_u64()), mac);
    }

    #[test]
    fn not_addresses() {
        for text in [
            "",
            ":::::",
            "1:2:3:4:5",
            "1:2:3:4:5:6:7",
            "1-2-3:4-5-6",
            "+1:2:3:4:5:6",
            "001:2:3:4:5:6",
            "g:2:3:4:5:6",
            "1:2:3:4:5:6 ",
            "é:2:3:4:5:6",
        ] {
            assert_eq!(text.parse::<MacAddr>(), Err(MacParseError), "{text}");
        }
    }

    #[test]
    fn groups() {
        assert!(MacAddr::BROADCAST.is_broadcast() && MacAddr::BROADCAST.is_multicast());
        assert!(!MacAddr::ZERO.is_multicast());
        assert_eq!(
            MacAddr::ipv4_multicast([224, 128, 0, 5].into()).to_string(),
            "01:00:5e:00:00:05"
        );
        assert_eq!(
            MacAddr::ipv6_multicast("ff02::1:ff12:3456".parse().unwrap()).to_string(),
            "33:33:ff:12:34:56"
        );
    }
}
