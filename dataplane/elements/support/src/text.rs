//! Numbers, times and bytes as text, in Click's format.

use std::fmt::Write as _;

use thruway_element::{Env, FromArg, Ty};

/// A time in nanoseconds as seconds with six decimals.
pub fn timestamp(ns: i64) -> String {
    // Whole microseconds, the last one that was over.
    let us = ns.div_euclid(1_000);
    let sign = if us < 0 { "-" } else { "" };
    let us = us.unsigned_abs();
    format!("{sign}{}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// A time span in nanoseconds as Click writes it: `5ms`, `17us`, `1.500000s`.
pub fn interval(ns: i64) -> String {
    match ns {
        1_000_000_000.. | ..0 => format!("{}s", timestamp(ns)),
        _ if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        _ if ns % 1_000 == 0 => format!("{}us", ns / 1_000),
        _ => format!("{ns}ns"),
    }
}

/// C's `%.{digits}g`.
pub fn general(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "nan".into() } else { format!("{value}") };
    }
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    let exponent: i32 = scientific.split_once('e').map_or(0, |(_, e)| e.parse().unwrap_or(0));
    if exponent < -4 || exponent >= digits as i32 {
        let (mantissa, _) = scientific.split_once('e').unwrap_or((&scientific, ""));
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trim_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// The printed part of a packet's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Nothing.
    None,
    /// Hexadecimal digits.
    Hex,
    /// Characters, dots for those that cannot be shown.
    Ascii,
}

/// The argument CONTENTS (or PAYLOAD): a word or a bool.
impl FromArg for Contents {
    const TY: Ty = Ty::Str;

    fn from_arg(text: &str, env: &Env<'_>) -> Result<Contents, String> {
        let text = String::from_arg(text, env)?;
        match text.to_ascii_uppercase().as_str() {
            "NONE" | "NO" | "FALSE" | "0" => Ok(Contents::None),
            "HEX" | "YES" | "TRUE" | "1" => Ok(Contents::Hex),
            "ASCII" => Ok(Contents::Ascii),
            _ => Err(format!("'{text}' is not one of NONE, HEX, ASCII")),
        }
    }
}

impl Contents {
    /// Writes `data` in groups: `gap` comes before byte number `at` of a group's beginning.
    pub fn write(self, out: &mut String, data: &[u8], gap: impl Fn(usize) -> &'static str) {
        if self == Contents::None {
            return;
        }
        let group = self.group();
        for (at, byte) in data.iter().enumerate() {
            if at % group == 0 {
                out.push_str(gap(at));
            }
            match self {
                Contents::Ascii if (32..=126).contains(byte) => out.push(char::from(*byte)),
                Contents::Ascii => out.push('.'),
                // Writing to a String does not fail.
                _ => drop(write!(out, "{byte:02x}")),
            }
        }
    }

    /// Bytes in a group.
    pub fn group(self) -> usize {
        if self == Contents::Ascii { 8 } else { 4 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (value, text) in [
            (6.0, "6"),
            (0.5, "0.5"),
            (1.0 / 3.0, "0.333333333333"),
            (1e12, "1e+12"),
            (123_456_789_012.0, "123456789012"),
            (1e-5, "1e-05"),
            (-2.25, "-2.25"),
            (0.0, "0"),
            (999_999_999_999.9, "1e+12"),
        ] {
            assert_eq!(general(value, 12), text);
        }
        assert_eq!(general(f64::NAN, 12), "nan");
        assert_eq!(general(f64::INFINITY, 12), "inf");
    }

    #[test]
    fn times() {
        assert_eq!(timestamp(1_500_000_000), "1.500000");
        assert_eq!(timestamp(0), "0.000000");
        assert_eq!(timestamp(-1), "-0.000001");
        assert_eq!(timestamp(-1_500_000_000), "-1.500000");
        assert_eq!(interval(5_000_000), "5ms");
        assert_eq!(interval(17_000), "17us");
        assert_eq!(interval(1), "1ns");
        assert_eq!(interval(1_500_000_000), "1.500000s");
    }

    #[test]
    fn bytes() {
        let mut out = String::new();
        Contents::Hex.write(&mut out, &[0, 1, 2, 3, 255], |at| if at == 0 { "" } else { " " });
        assert_eq!(out, "00010203 ff");
        out.clear();
        Contents::Ascii.write(&mut out, b"ab\ncdefghi", |_| " ");
        assert_eq!(out, " ab.cdefg hi");
    }
}
