//! The words of tcpdump's lines.

use std::net::Ipv4Addr;

use super::super::summary::Record;
use super::super::window::parse_instant;

/// Nanoseconds of a day.
const DAY_NS: i64 = 86_400_000_000_000;
/// ICMP types (RFC 792).
const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
const ECHO: u8 = 8;
const TIME_EXCEEDED: u8 = 11;

/// A number as tcpdump prints it.
pub(super) fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The time at the beginning of a line, in nanoseconds, and what follows: seconds since 1970
/// (`-tt`), a date and a time (`-tttt`), or a time alone, of the first day of 1970.
pub(super) fn time(line: &str) -> Option<(i64, &str)> {
    let (word, rest) = line.split_once(' ')?;
    let rest = rest.trim_start();
    if let Some(day) = date(word) {
        let (word, rest) = rest.split_once(' ')?;
        return Some((day.checked_mul(DAY_NS)?.checked_add(clock(word)?)?, rest.trim_start()));
    }
    let time = if word.contains(':') { clock(word) } else { parse_instant(word) };
    Some((time?, rest))
}

/// Nanoseconds since midnight of `HH:MM:SS.FRACTION`.
fn clock(word: &str) -> Option<i64> {
    let mut parts = word.splitn(3, ':');
    let mut part = |most: i64| parts.next()?.parse().ok().filter(|n| (0..most).contains(n));
    let minutes = part(24)? * 60 + part(60)?;
    let seconds = parse_instant(parts.next()?)?;
    minutes.checked_mul(60_000_000_000)?.checked_add(seconds)
}

/// Days since 1970 of `YYYY-MM-DD`.
fn date(word: &str) -> Option<i64> {
    let mut parts = word.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let range =
        (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    // Years that begin with March, so that the leap day is the last; 719,468 days to 1970.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    range.then_some(days - 719_468)
}

/// One endpoint of a packet: `1.2.3.4.80`, or without the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Endpoint<'a> {
    pub address: Ipv4Addr,
    /// Number or name.
    pub port: Option<&'a str>,
}

impl<'a> Endpoint<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Endpoint<'a>> {
        if let Ok(address) = text.parse() {
            return Some(Endpoint { address, port: None });
        }
        let (at, _) = text.match_indices('.').nth(3)?;
        let (address, port) = (text[..at].parse().ok()?, &text[at + 1..]);
        (!port.is_empty()).then_some(Endpoint { address, port: Some(port) })
    }
}

/// The text within the bracket with which a text begins, and what follows.
pub(super) fn group(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some((&text[1..at], text[at + 1..].trim_start()));
                }
            }
            _ => {}
        }
    }
    None
}

/// The text within brackets, round or square.
pub(super) fn groups(text: &str) -> impl Iterator<Item = &str> {
    text.split(['(', '[']).skip(1).filter_map(|rest| Some(rest.split_once([')', ']'])?.0))
}

/// Bytes behind the transport header: `udp 20`, `length 20`, or `(20)` at the end of what tcpdump
/// has unfolded.
pub(super) fn payload_len(body: &str) -> Option<u32> {
    let behind = |word: &str| {
        let (_, rest) = body.split_once(word)?;
        number(rest.split([' ', ',', '[']).next()?)
    };
    let last = || groups(body).filter_map(number).last();
    behind("udp ").or_else(|| behind("length ")).or_else(last)
}

/// Takes type, identifier and number of what ICMP tcpdump knows best.
pub(super) fn icmp(record: &mut Record, body: &str) {
    let text = body.strip_prefix("ICMP ").or(body.strip_prefix("icmp:")).unwrap_or("").trim();
    let types =
        [("echo request", ECHO), ("echo reply", ECHO_REPLY), ("time exceeded", TIME_EXCEEDED)];
    let found = types.iter().find(|(name, _)| text.starts_with(name));
    record.icmp_type = found.map_or(UNREACHABLE, |(_, kind)| *kind);
    for (word, at) in [("id ", 0), ("seq ", 1)] {
        let value = text.split_once(word).and_then(|(_, rest)| rest.split([',', ' ']).next());
        record.icmp_rest[at] = value.and_then(number).unwrap_or(0) as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(time("1.056252 x y"), Some((1_056_252_000, "x y")));
        assert_eq!(time("00:01:02.5 x"), Some((62_500_000_000, "x")));
        assert_eq!(time("1970-01-02 00:00:01.0  x"), Some((DAY_NS + 1_000_000_000, "x")));
        // 2004-02-29 is 12,477 days after 1970-01-01, as `date -u -d 2004-02-29 +%s` has it.
        assert_eq!(date("2004-02-29"), Some(1_078_012_800 / 86_400));
        assert_eq!(date("2000-03-01"), Some(951_868_800 / 86_400));
        for wrong in ["x y", "24:00:00.0 x", "1:2 x", "", "99999999999999999999 x"] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn endpoints() {
        let end = |text| Endpoint::parse(text).map(|end| (end.address.to_string(), end.port));
        assert_eq!(end("1.2.3.4.80"), Some(("1.2.3.4".to_owned(), Some("80"))));
        assert_eq!(end("1.2.3.4.ftp-data"), Some(("1.2.3.4".to_owned(), Some("ftp-data"))));
        assert_eq!(end("1.2.3.4"), Some(("1.2.3.4".to_owned(), None)));
        for wrong in ["", "1.2.3", "1.2.3.4.", "a.b.c.d.5", "::1.80", "1.2.3.400.5"] {
            assert_eq!(end(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn lengths() {
        assert_eq!(payload_len("udp 20 [tos 0xc0]  [ttl 1]"), Some(20));
        assert_eq!(payload_len("UDP, length 7"), Some(7));
        assert_eq!(payload_len("7+ A? x.example. (28) (ttl 64, id 3, len 56)"), Some(28));
        assert_eq!(payload_len("something"), None);
        assert_eq!(group("(a (b) c) d"), Some(("a (b) c", "d")));
        assert_eq!(group("(a"), None);
    }
}
