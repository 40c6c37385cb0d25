//! What headers must be like, and how long things must be.

use super::builder::{Builder, Result, nothing, number};
use crate::rules::buffer::Buffer;
use crate::rules::condition::{Condition, FlagsMode};
use crate::rules::error::{Reason, shown};
use crate::rules::matches::Match;
use crate::rules::numbers::Range;

fn add(builder: &mut Builder, condition: Condition) -> Result {
    builder.rule.conditions.push(condition);
    Ok(())
}

fn range<T: std::str::FromStr + PartialOrd>(value: &str) -> Result<Range<T>> {
    Range::parse(value)
        .ok_or_else(|| Reason::wrong(format!("'{}' is no range of its numbers", shown(value))))
}

pub(super) fn payload_len(builder: &mut Builder, value: &str) -> Result {
    add(builder, Condition::PayloadLen(range(value)?))
}

pub(super) fn ttl(builder: &mut Builder, value: &str) -> Result {
    add(builder, Condition::Ttl(range(value)?))
}

pub(super) fn ip_protocol(builder: &mut Builder, value: &str) -> Result {
    const NAMES: [(&str, &str); 6] =
        [("icmp", "1"), ("igmp", "2"), ("tcp", "6"), ("udp", "17"), ("gre", "47"), ("sctp", "132")];
    let known = NAMES.iter().find(|(name, _)| value.eq_ignore_ascii_case(name));
    add(builder, Condition::IpProtocol(range(known.map_or(value, |(_, number)| number))?))
}

pub(super) fn ip_id(builder: &mut Builder, value: &str) -> Result {
    add(builder, Condition::IpId(number(value, 0, u16::MAX)?))
}

pub(super) fn icmp_type(builder: &mut Builder, value: &str) -> Result {
    add(builder, Condition::IcmpType(range(value)?))
}

pub(super) fn icmp_code(builder: &mut Builder, value: &str) -> Result {
    add(builder, Condition::IcmpCode(range(value)?))
}

pub(super) fn icmp_id(builder: &mut Builder, value: &str) -> Result {
    add(builder, Condition::IcmpId(number(value, 0, u16::MAX)?))
}

pub(super) fn icmp_seq(builder: &mut Builder, value: &str) -> Result {
    add(builder, Condition::IcmpSeq(number(value, 0, u16::MAX)?))
}

pub(super) fn tcp_seq(builder: &mut Builder, value: &str) -> Result {
    add(builder, Condition::TcpSeq(number(value, 0, u32::MAX)?))
}

pub(super) fn tcp_ack(builder: &mut Builder, value: &str) -> Result {
    add(builder, Condition::TcpAck(number(value, 0, u32::MAX)?))
}

pub(super) fn tcp_window(builder: &mut Builder, value: &str) -> Result {
    let (negated, value) = match value.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    add(builder, Condition::TcpWindow { window: number(value, 0, u16::MAX)?, negated })
}

pub(super) fn same_address(builder: &mut Builder, value: &str) -> Result {
    nothing(value)?;
    add(builder, Condition::SameAddress)
}

/// Letters of TCP's flags; `1` and `2` are older names of `C` and `E`, the two reserved bits.
const FLAGS: [(char, u8); 10] = [
    ('F', 1),
    ('S', 2),
    ('R', 4),
    ('P', 8),
    ('A', 16),
    ('U', 32),
    ('E', 64),
    ('C', 128),
    ('2', 64),
    ('1', 128),
];

/// `S`, `+SA`, `RSF*`, `S,12`.
pub(super) fn tcp_flags(builder: &mut Builder, value: &str) -> Result {
    let (wanted, ignored) = value.split_once(',').unwrap_or((value, ""));
    let (mut mode, mut flags) = (FlagsMode::Exactly, 0);
    for letter in wanted.trim().chars() {
        match letter {
            '+' => mode = FlagsMode::All,
            '*' => mode = FlagsMode::Any,
            '!' => mode = FlagsMode::Not,
            '0' => {}
            letter => flags |= flag(letter)?,
        }
    }
    let letters = ignored.trim().chars();
    let ignore = letters.map(flag).try_fold(0, |all, flag| flag.map(|flag| all | flag))?;
    if wanted.trim().is_empty() {
        return Err(Reason::wrong("names no flags; '0' stands for none"));
    }
    add(builder, Condition::TcpFlags { flags, mode, ignore })
}

fn flag(letter: char) -> Result<u8> {
    let known = FLAGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(&letter));
    known
        .map(|(_, flag)| *flag)
        .ok_or_else(|| Reason::wrong(format!("'{}' is no flag of TCP", letter.escape_default())))
}

pub(super) fn buffer_len(builder: &mut Builder, value: &str) -> Result {
    if builder.buffer.is_stream() {
        let name = format!("bsize of {}", builder.buffer.name());
        return Err(Reason::unsupported(name, "its length is not known before it ends"));
    }
    builder.part(Match::Size(range(value)?))
}

pub(super) fn uri_len(builder: &mut Builder, value: &str) -> Result {
    let (value, form) = value.split_once(',').unwrap_or((value, "norm"));
    let buffer = match form.trim() {
        "norm" => Buffer::HttpUri,
        "raw" => Buffer::HttpRawUri,
        other => return Err(Reason::wrong(format!("'{}' is neither norm nor raw", shown(other)))),
    };
    builder.part_of(buffer, Match::Size(range(value)?))
}
