//! Argument types: how each is written.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use thruway_packet::Anno;
use thruway_wire::MacAddr;

use crate::args::Env;
use crate::spec::Ty;
use crate::text::{unquote, unquote_text};

/// A type that can be an argument.
pub trait FromArg: Sized {
    /// What the manual calls it.
    const TY: Ty;

    /// The value that `text` (with its quotes) stands for.
    ///
    /// # Errors
    /// A message that says what was expected: "'x' is not an integer".
    fn from_arg(text: &str, env: &Env<'_>) -> Result<Self, String>;
}

/// Names that AddressInfo gives to addresses, and PortInfo to ports.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    names: HashMap<String, Named>,
}

/// What one name stands for.
#[derive(Debug, Clone, Default)]
pub struct Named {
    /// IPv4 address.
    pub ip: Option<Ipv4Addr>,
    /// IPv4 prefix.
    pub prefix: Option<IpPrefix>,
    /// IPv6 address.
    pub ip6: Option<Ipv6Addr>,
    /// IPv6 prefix.
    pub prefix6: Option<Ip6Prefix>,
    /// Ethernet address.
    pub ether: Option<MacAddr>,
    /// Frames of a trust group of isolated functions.
    pub group_frames: Option<u32>,
    /// Where random numbers begin (RandomSeed).
    pub seed: Option<u64>,
    /// TCP port (PortInfo).
    pub tcp: Option<u16>,
    /// UDP port (PortInfo).
    pub udp: Option<u16>,
    /// Pattern of rewriters (IPRewriterPatterns).
    pub pattern: Option<Declared>,
    /// An element that rewriters ask for patterns (RoundRobinIPMapper).
    pub mapper: Option<Declared>,
}

/// What an element declares for others to read: they know how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// A name that no other declaration has: what is shared of it is under that name.
    pub owner: String,
    /// Class of the element that declares it.
    pub class: &'static str,
    /// Its texts.
    pub texts: Vec<String>,
}

impl Addresses {
    /// The entry of `name`, made if there is none. Names inside of compound elements are entered
    /// with their full path.
    pub fn entry(&mut self, name: &str) -> &mut Named {
        self.names.entry(name.to_owned()).or_default()
    }

    /// What `name` stands for as seen from element `from`: the innermost compound's name counts.
    /// A suffix (`:ip`, `:ipnet`, `:ip6`, `:eth`...) is ignored.
    pub fn look_up<T>(
        &self,
        from: &str,
        name: &str,
        pick: impl Fn(&Named) -> Option<T>,
    ) -> Option<T> {
        self.find(from, name.rsplit_once(':').map_or(name, |(bare, _)| bare), pick)
    }

    /// The same of a name without a suffix.
    fn find<T>(&self, from: &str, bare: &str, pick: impl Fn(&Named) -> Option<T>) -> Option<T> {
        let mut scope = from;
        loop {
            scope = scope.rsplit_once('/').map_or("", |(outer, _)| outer);
            let full = if scope.is_empty() { bare.to_owned() } else { format!("{scope}/{bare}") };
            if let Some(found) = self.names.get(&full).and_then(&pick) {
                return Some(found);
            }
            if scope.is_empty() {
                return None;
            }
        }
    }

    /// The IPv4 address `name` as seen from element `from`. `NAME:bcast` is the broadcast address
    /// of its prefix; `NAME:gw` is the address of that very name, or else the first one of the
    /// prefix.
    pub fn ip(&self, from: &str, name: &str) -> Option<Ipv4Addr> {
        let of_prefix = |bits: fn(u32, u32) -> u32| {
            let prefix = self.look_up(from, name, |named| named.prefix)?;
            Some(Ipv4Addr::from(bits(prefix.addr.into(), prefix.mask.into())))
        };
        match suffix(name).as_deref() {
            Some("bcast") => of_prefix(|addr, mask| addr | !mask),
            Some("gw") => self
                .find(from, name, |named| named.ip)
                .or_else(|| of_prefix(|addr, mask| addr & mask | 1)),
            None | Some("ip" | "ip4") => self.look_up(from, name, |named| named.ip),
            Some(_) => None,
        }
    }

    /// The IPv4 prefix `name` as seen from element `from`. As in Click, a name that stands for an
    /// address too means that host, unless its suffix is `:ipnet`, `:ip4net` or `:net`.
    pub fn prefix(&self, from: &str, name: &str) -> Option<IpPrefix> {
        let net = || self.look_up(from, name, |named| named.prefix);
        if matches!(suffix(name).as_deref(), Some("ipnet" | "ip4net" | "net")) {
            return net();
        }
        let host = |addr| IpPrefix { addr, mask: Ipv4Addr::BROADCAST };
        self.ip(from, name).map(host).or_else(|| net().filter(|_| !name.contains(':')))
    }
}

/// What stands behind a name's colon, in small letters.
fn suffix(name: &str) -> Option<String> {
    name.rsplit_once(':').map(|(_, suffix)| suffix.to_ascii_lowercase())
}

/// An integer as Click writes it: decimal, `0x` hexadecimal, `0b` binary or `0` octal, with
/// underscores between digits.
fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    let plain = digits.starts_with(|c: char| c.is_ascii_hexdigit()) && !digits.ends_with('_');
    let value = i128::from_str_radix(&digits.replace('_', ""), radix).ok().filter(|_| plain)?;
    Some(if negative { -value } else { value })
}

macro_rules! integers {
    ($name:ident: $($ty:ty),+) => {$(
        impl FromArg for $ty {
            const TY: Ty = Ty::$name;

            fn from_arg(text: &str, _env: &Env<'_>) -> Result<$ty, String> {
                let text = unquote_text(text);
                let Some(value) = integer(&text) else {
                    return Err(format!("'{text}' is not an integer"));
                };
                <$ty>::try_from(value).map_err(|_| {
                    format!("{text} is out of range; it must be from {} to {}", <$ty>::MIN, <$ty>::MAX)
                })
            }
        }
    )+};
}
integers!(Int: i8, i16, i32, i64);
integers!(UInt: u8, u16, u32, u64, usize);

impl FromArg for bool {
    const TY: Ty = Ty::Bool;

    fn from_arg(text: &str, _env: &Env<'_>) -> Result<bool, String> {
        match unquote_text(text).as_str() {
            "1" | "true" | "yes" | "t" | "y" => Ok(true),
            "0" | "false" | "no" | "f" | "n" => Ok(false),
            other => Err(format!("'{other}' is not a bool; write true or false")),
        }
    }
}

impl FromArg for f64 {
    const TY: Ty = Ty::Float;

    fn from_arg(text: &str, _env: &Env<'_>) -> Result<f64, String> {
        let text = unquote_text(text);
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| format!("'{text}' is not a real number"))
    }
}

impl FromArg for String {
    const TY: Ty = Ty::Str;

    fn from_arg(text: &str, _env: &Env<'_>) -> Result<String, String> {
        Ok(unquote_text(text))
    }
}

impl FromArg for Vec<u8> {
    const TY: Ty = Ty::Data;

    fn from_arg(text: &str, _env: &Env<'_>) -> Result<Vec<u8>, String> {
        Ok(unquote(text))
    }
}

impl FromArg for Ipv4Addr {
    const TY: Ty = Ty::Ip;

    fn from_arg(text: &str, env: &Env<'_>) -> Result<Ipv4Addr, String> {
        let text = unquote_text(text);
        text.parse()
            .ok()
            .or_else(|| env.addresses.ip(env.name, &text))
            .ok_or_else(|| format!("'{text}' is not an IP address"))
    }
}

impl FromArg for Ipv6Addr {
    const TY: Ty = Ty::Ip6;

    fn from_arg(text: &str, env: &Env<'_>) -> Result<Ipv6Addr, String> {
        let text = unquote_text(text);
        text.parse()
            .ok()
            .or_else(|| env.addresses.look_up(env.name, &text, |named| named.ip6))
            .ok_or_else(|| format!("'{text}' is not an IPv6 address"))
    }
}

impl FromArg for MacAddr {
    const TY: Ty = Ty::Ether;

    fn from_arg(text: &str, env: &Env<'_>) -> Result<MacAddr, String> {
        let text = unquote_text(text);
        text.parse()
            .ok()
            .or_else(|| env.addresses.look_up(env.name, &text, |named| named.ether))
            .ok_or_else(|| format!("'{text}' is not an Ethernet address"))
    }
}

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

    /// Whether `addr` lies within.
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

impl FromArg for IpPrefix {
    const TY: Ty = Ty::IpPrefix;

    fn from_arg(text: &str, env: &Env<'_>) -> Result<IpPrefix, String> {
        let text = unquote_text(text);
        let named = || env.addresses.prefix(env.name, &text);
        IpPrefix::parse(&text).or_else(named).ok_or_else(|| {
            format!("'{text}' is not an IP prefix; write ADDRESS/LENGTH, such as 10.0.0.0/8")
        })
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

impl FromArg for Ip6Prefix {
    const TY: Ty = Ty::Ip6Prefix;

    fn from_arg(text: &str, env: &Env<'_>) -> Result<Ip6Prefix, String> {
        let text = unquote_text(text);
        let (addr, length) = text.split_once('/').unwrap_or((&text, "128"));
        let written = || {
            let length = length.parse().ok().filter(|length| *length <= 128)?;
            Some(Ip6Prefix { addr: addr.parse().ok()?, length })
        };
        let named = || env.addresses.look_up(env.name, &text, |named| named.prefix6);
        written().or_else(named).ok_or_else(|| format!("'{text}' is not an IPv6 prefix"))
    }
}

/// A UDP port: a number, a name from PortInfo, or one that rules know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpPort(pub u16);

impl FromArg for UdpPort {
    const TY: Ty = Ty::Port;

    fn from_arg(text: &str, env: &Env<'_>) -> Result<UdpPort, String> {
        let text = unquote_text(text);
        if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let named = env.addresses.look_up(env.name, &text, |named| named.udp);
            let port = named.or_else(|| thruway_flow::names::known_port(&text));
            return port.map(UdpPort).ok_or_else(|| {
                format!("'{text}' is not a UDP port; write a number or a name given by PortInfo")
            });
        }
        u16::from_arg(&text, env).map(UdpPort)
    }
}

/// A time, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Nanos(pub i64);

/// Splits `12.5ms` into number and unit.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')))
        .unwrap_or(text.len());
    let number = text[..end].replace('_', "").parse::<f64>().ok()?;
    Some((number, text[end..].trim()))
}

impl FromArg for Nanos {
    const TY: Ty = Ty::Time;

    fn from_arg(text: &str, _env: &Env<'_>) -> Result<Nanos, String> {
        let text = unquote_text(text);
        let scale = |unit: &str| {
            Some(match unit {
                "" | "s" | "sec" => 1e9,
                "ms" | "msec" => 1e6,
                "us" | "usec" => 1e3,
                "ns" | "nsec" => 1.0,
                "m" | "min" => 60e9,
                "h" | "hr" => 3600e9,
                "d" | "day" => 86_400e9,
                _ => return None,
            })
        };
        let time = number_and_unit(&text).and_then(|(n, unit)| Some((n * scale(unit)?).round()));
        match time {
            Some(ns) if ns.abs() < i64::MAX as f64 => Ok(Nanos(ns as i64)),
            _ => Err(format!("'{text}' is not a time; write a number with s, ms, us, ns, min, h")),
        }
    }
}

/// A number of bytes, with `k`, `M` or `G` (powers of 1,024).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Size(pub u64);

impl FromArg for Size {
    const TY: Ty = Ty::Size;

    fn from_arg(text: &str, _env: &Env<'_>) -> Result<Size, String> {
        let text = unquote_text(text);
        let digits = text.trim_end_matches(['k', 'K', 'M', 'G', 'B']);
        let shift = match text[digits.len()..].trim_end_matches('B') {
            "" => Some(0),
            "k" | "K" => Some(10),
            "M" => Some(20),
            "G" => Some(30),
            _ => None,
        };
        let bytes =
            shift.and_then(|shift| digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift));
        bytes.map(Size).ok_or_else(|| {
            format!("'{text}' is not a number of bytes; write a number, with k, M or G")
        })
    }
}

/// A rate in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bandwidth(pub u64);

impl FromArg for Bandwidth {
    const TY: Ty = Ty::Bandwidth;

    fn from_arg(text: &str, _env: &Env<'_>) -> Result<Bandwidth, String> {
        let text = unquote_text(text);
        let scale = |unit: &str| {
            let unit = unit.strip_suffix("/s").or(unit.strip_suffix("ps")).unwrap_or(unit);
            let (unit, bits) = match unit {
                "" | "B" | "bytes" | "baud" => {
                    return Some(if unit == "baud" { 0.125 } else { 1.0 });
                }
                _ if unit.ends_with("bits") => (&unit[..unit.len() - 4], true),
                _ if unit.ends_with("bit") => (&unit[..unit.len() - 3], true),
                _ if unit.ends_with('b') => (&unit[..unit.len() - 1], true),
                _ if unit.ends_with("bytes") => (&unit[..unit.len() - 5], false),
                _ => (unit.strip_suffix('B').unwrap_or(unit), false),
            };
            let prefix = match unit {
                "" => 1.0,
                "k" | "K" => 1e3,
                "M" => 1e6,
                "G" => 1e9,
                "T" => 1e12,
                _ => return None,
            };
            Some(if bits { prefix / 8.0 } else { prefix })
        };
        let rate = number_and_unit(&text).and_then(|(n, unit)| Some((n * scale(unit)?).round()));
        match rate {
            Some(rate) if (0.0..1e18).contains(&rate) => Ok(Bandwidth(rate as u64)),
            _ => Err(format!("'{text}' is not a bandwidth; write such as 10Mbps or 100kB/s")),
        }
    }
}

/// A packet annotation by name or offset, for one-byte annotations unless the name says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnnoArg(pub Anno);

impl FromArg for AnnoArg {
    const TY: Ty = Ty::Anno;

    fn from_arg(text: &str, env: &Env<'_>) -> Result<AnnoArg, String> {
        let named = Anno::NAMES.iter().find(|(name, _)| *name == text).map(|(_, anno)| *anno);
        let (offset, size) = text.split_once('/').unwrap_or((text, "1"));
        let at = || Anno::at(usize::from_arg(offset, env).ok()?, size.parse().ok()?);
        named.or_else(at).map(AnnoArg).ok_or_else(|| {
            let names: Vec<&str> = Anno::NAMES.iter().map(|(name, _)| *name).collect();
            format!(
                "'{text}' is not a packet annotation; write an offset below {} or one of {}",
                Anno::SPACE,
                names.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_of_names() {
        let mut addresses = Addresses::default();
        let named = addresses.entry("foo");
        named.prefix = IpPrefix::parse("1.2.3.4/20");
        named.ip = Some(Ipv4Addr::new(1, 2, 3, 4));
        addresses.entry("net").prefix = IpPrefix::parse("10.0.0.0/8");
        let ip = |name| addresses.ip("x", name).map(|ip| ip.to_string());
        assert_eq!(ip("foo").as_deref(), Some("1.2.3.4"));
        assert_eq!(ip("foo:ip").as_deref(), Some("1.2.3.4"));
        assert_eq!(ip("foo:bcast").as_deref(), Some("1.2.15.255"));
        assert_eq!(ip("foo:gw").as_deref(), Some("1.2.0.1"));
        assert_eq!(ip("net:bcast").as_deref(), Some("10.255.255.255"));
        assert_eq!([ip("foo:IP4"), ip("foo:ip")], [Some("1.2.3.4".into()), ip("foo")]);
        addresses.entry("foo:gw").ip = Some(Ipv4Addr::new(1, 2, 3, 9));
        let ip = |name| addresses.ip("x", name).map(|ip| ip.to_string());
        assert_eq!(ip("foo:gw").as_deref(), Some("1.2.3.9"));
        assert_eq!([ip("net"), ip("foo:eth"), ip("foo:ip6")], [None, None, None]);
        let length = |name| addresses.prefix("x", name).and_then(|prefix| prefix.length());
        assert_eq!([length("foo"), length("foo:ipnet"), length("net")], [32, 20, 8].map(Some));
        assert_eq!([length("foo:ip4net"), length("net:net")], [20, 8].map(Some));
        assert_eq!(length("foo:bcast"), Some(32));
        assert_eq!([length("foo:eth"), length("net:eth"), length("net:ip")], [None; 3]);
    }
}
