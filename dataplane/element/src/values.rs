//! Argument types: how each is written.

use std::net::{Ipv4Addr, Ipv6Addr};

use thruway_flow::session::SessionDef;
use thruway_packet::Anno;
use thruway_wire::MacAddr;

use crate::env::Env;
use crate::prefix::{Ip6Prefix, IpPrefix};
use crate::spec::Ty;
use crate::text::{unquote, unquote_text};

/// A type that can be an argument.
pub trait FromArg: Sized {
    /// Its name in the manual.
    const TY: Ty;

    /// The value of `text` (with its quotes).
    ///
    /// # Errors
    /// A message that names the expected value: "'x' is not an integer".
    fn from_arg(text: &str, env: &Env<'_>) -> Result<Self, String>;
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

impl Nanos {
    /// The time, if it is not below 0.
    ///
    /// # Errors
    /// An error text.
    pub fn not_negative(self) -> Result<i64, &'static str> {
        if self.0 < 0 { Err("must not be negative") } else { Ok(self.0) }
    }
}

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

/// A packet annotation by name or offset, of one byte unless the name implies another size.
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

impl FromArg for SessionDef {
    const TY: Ty = Ty::Rule("session definition");

    fn from_arg(text: &str, _env: &Env<'_>) -> Result<SessionDef, String> {
        SessionDef::parse(&unquote_text(text)).map_err(|error| error.message)
    }
}
