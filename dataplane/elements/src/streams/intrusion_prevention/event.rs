//! What is told of a rule that matched: a line of JSON with the fields of Suricata's EVE.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use thruway_inspect::rules::{Facts, Side};
use thruway_wire::ip_protocol;

use super::loading::Loaded;

/// A match, until it is written.
pub(super) struct Event {
    /// When, nanoseconds since the Unix epoch.
    pub(super) now: i64,
    /// The rules that it is one of, and its index.
    pub(super) rules: Arc<Loaded>,
    pub(super) rule: u32,
    /// Of the packet that it was found in.
    pub(super) facts: Facts,
    /// The session ends because of it.
    pub(super) is_blocked: bool,
}

/// Appends the line of an event.
pub(super) fn line(event: &Event, out: &mut String) {
    let Event { now, rules, rule, facts, is_blocked } = event;
    let Some(rule) = rules.set.rules().get(*rule as usize) else { return };
    out.push_str("{\"timestamp\":\"");
    timestamp(*now, out);
    let about = &rule.about;
    let action = if *is_blocked { "blocked" } else { "allowed" };
    // Writing to a String does not fail.
    let _ = write!(
        out,
        "\",\"flow_id\":{},\"event_type\":\"alert\",\"src_ip\":\"{}\",\"src_port\":{},\
         \"dest_ip\":\"{}\",\"dest_port\":{},\"proto\":\"{}\",\"direction\":\"{}\",\
         \"alert\":{{\"action\":\"{action}\",\"gid\":{},\"signature_id\":{},\"rev\":{},\
         \"signature\":\"",
        flow_id(facts),
        facts.source,
        facts.source_port,
        facts.destination,
        facts.destination_port,
        Protocol(facts.protocol),
        if facts.side == Side::ToServer { "to_server" } else { "to_client" },
        about.gid,
        about.sid,
        about.rev,
    );
    escape(&about.msg, out);
    out.push_str("\",\"category\":\"");
    let class = rules.variables.class(&about.classtype);
    escape(class.map_or(about.classtype.as_str(), |class| &class.description), out);
    let _ = writeln!(out, "\",\"severity\":{}}}}}", rule.priority);
}

/// A protocol over IP, as EVE calls it.
struct Protocol(u8);

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            ip_protocol::TCP => f.write_str("TCP"),
            ip_protocol::UDP => f.write_str("UDP"),
            ip_protocol::ICMP => f.write_str("ICMP"),
            ip_protocol::ICMPV6 => f.write_str("IPv6-ICMP"),
            number => write!(f, "{number:03}"),
        }
    }
}

/// One number for both directions of a session (FNV-1a, cut to what JSON readers hold exactly).
fn flow_id(facts: &Facts) -> u64 {
    let end = |addr: IpAddr, port: u16| match addr {
        IpAddr::V4(addr) => (u128::from(addr.to_bits()), port),
        IpAddr::V6(addr) => (addr.to_bits(), port),
    };
    let source = end(facts.source, facts.source_port);
    let destination = end(facts.destination, facts.destination_port);
    let ends = [source.min(destination), source.max(destination)];
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let bytes =
        |(addr, port): (u128, u16)| addr.to_be_bytes().into_iter().chain(port.to_be_bytes());
    let all = ends.into_iter().flat_map(bytes).chain([facts.protocol]);
    all.fold(0xcbf2_9ce4_8422_2325, step) >> 11
}

/// ISO 8601, to the microsecond, in universal time.
fn timestamp(now: i64, out: &mut String) {
    let seconds = now.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let micros = now.rem_euclid(1_000_000_000) / 1_000;
    let _ = write!(
        out,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+0000"
    );
}

/// Year, month, day of so many days after 1970-01-01. Years are counted from March here, so that
/// the leap day is a year's last: an era is 400 years, 146,097 days.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468; // from 0000-03-01 to 1970-01-01
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + carry, month, day)
}

/// Text inside quotes (RFC 8259 section 7).
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_each_other() {
        let mut at = (1600, 1, 1);
        let begin = -135_140;
        for day in begin..begin + 500 * 366 {
            assert_eq!(date(day), at);
            let (year, month, day) = at;
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let len = match month {
                2 => 28 + i64::from(is_leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            at = match (day == len, month) {
                (false, _) => (year, month, day + 1),
                (true, 12) => (year + 1, 1, 1),
                (true, _) => (year, month + 1, 1),
            };
        }
        assert_eq!(date(0), (1970, 1, 1));
    }

    #[test]
    fn times_and_texts() {
        let mut out = String::new();
        timestamp(1_489_104_000_123_456_789, &mut out);
        assert_eq!(out, "2017-03-10T00:00:00.123456+0000");
        out.clear();
        timestamp(-1, &mut out);
        assert_eq!(out, "1969-12-31T23:59:59.999999+0000");
        out.clear();
        escape("a \"b\"\\\n\u{e9}", &mut out);
        assert_eq!(out, "a \\\"b\\\"\\\\\\u000a\u{e9}");
    }
}
