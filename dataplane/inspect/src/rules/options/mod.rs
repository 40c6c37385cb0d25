//! The options of a rule, one after the other.

mod about;
mod bytes;
mod content;
mod headers;
mod session;
mod verify;

use crate::rules::ast::Rule;
use crate::rules::buffer::Buffer;
use crate::rules::error::Reason;
use crate::rules::limits::PARTS_MAX;
use crate::rules::matches::{Content, Match, Part};
use crate::rules::parse::shown;

/// A rule whose options are being read.
pub(super) struct Builder {
    rule: Rule,
    /// Where contents belong that say nothing else.
    buffer: Buffer,
    errors: Vec<Reason>,
}

type Result<T = ()> = std::result::Result<T, Reason>;

/// What reads an option's value.
type Reader = fn(&mut Builder, &str) -> Result;

/// All options but buffers, whose names are in [`Buffer`].
const READERS: &[(&str, Reader)] = &[
    ("ack", headers::tcp_ack),
    ("bsize", headers::buffer_len),
    ("byte_jump", bytes::byte_jump),
    ("byte_test", bytes::byte_test),
    ("classtype", about::classtype),
    ("content", content::content),
    ("depth", content::depth),
    ("detection_filter", session::detection_filter),
    ("distance", content::distance),
    ("dsize", headers::payload_len),
    ("endswith", content::endswith),
    ("fast_pattern", content::fast_pattern),
    ("file_data", |builder, value| builder.sticky(Buffer::FileData, value)),
    ("flags", headers::tcp_flags),
    ("flow", session::flow),
    ("flowbits", session::flowbits),
    ("gid", about::gid),
    ("icmp_id", headers::icmp_id),
    ("icmp_seq", headers::icmp_seq),
    ("icode", headers::icmp_code),
    ("id", headers::ip_id),
    ("ip_proto", headers::ip_protocol),
    ("isdataat", bytes::isdataat),
    ("itype", headers::icmp_type),
    ("metadata", about::metadata),
    ("msg", about::msg),
    ("noalert", session::noalert),
    ("nocase", content::nocase),
    ("offset", content::offset),
    ("pcre", content::pcre),
    ("priority", about::priority),
    ("rawbytes", content::rawbytes),
    ("reference", about::reference),
    ("rev", about::rev),
    ("sameip", headers::same_address),
    ("seq", headers::tcp_seq),
    ("sid", about::sid),
    ("startswith", content::startswith),
    ("tcp.flags", headers::tcp_flags),
    ("threshold", session::threshold),
    ("ttl", headers::ttl),
    ("uricontent", content::uricontent),
    ("urilen", headers::uri_len),
    ("window", headers::tcp_window),
    ("within", content::within),
];

impl Builder {
    pub(super) fn new(rule: Rule) -> Builder {
        Builder { rule, buffer: Buffer::Payload, errors: Vec::new() }
    }

    /// The number, where it was read.
    pub(super) fn sid(&self) -> Option<u32> {
        (self.rule.about.sid != 0).then_some(self.rule.about.sid)
    }

    /// Reads one option; what is wrong with it is told at the end.
    pub(super) fn option(&mut self, text: &str) {
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        let (name, value) = (name.trim(), value.trim());
        if let Err(reason) = self.named(name, value) {
            self.errors.push(reason);
        }
    }

    fn named(&mut self, name: &str, value: &str) -> Result {
        if let Some((_, read)) = READERS.iter().find(|(known, _)| *known == name) {
            return read(self, value).map_err(|reason| named(name, reason));
        }
        let name_is = |known: &str| !known.is_empty() && known == name;
        if let Some(&buffer) = Buffer::ALL.iter().find(|buffer| name_is(buffer.name())) {
            return self.sticky(buffer, value);
        }
        match Buffer::ALL.iter().find(|buffer| name_is(buffer.modifier())) {
            Some(&buffer) => content::move_to(self, buffer, value),
            None => Err(Reason::unsupported(shown(name), "no such option is served")),
        }
    }

    /// What follows is about this buffer.
    fn sticky(&mut self, buffer: Buffer, value: &str) -> Result {
        nothing(value)?;
        self.buffer = buffer;
        Ok(())
    }

    /// One more condition on the present buffer.
    fn part(&mut self, matches: Match) -> Result {
        let buffer = self.buffer;
        self.part_of(buffer, matches)
    }

    fn part_of(&mut self, buffer: Buffer, matches: Match) -> Result {
        if self.rule.parts.len() >= PARTS_MAX {
            let reason = format!("more than {PARTS_MAX} contents and the like");
            return Err(Reason::TooLarge(reason));
        }
        self.rule.parts.push(Part { buffer, matches });
        Ok(())
    }

    /// The content that a modifier stands behind; lengths between them do no harm.
    fn last(&mut self) -> Result<(&mut Buffer, &mut Content)> {
        let has_position = |part: &&mut Part| !matches!(part.matches, Match::Size(_));
        match self.rule.parts.iter_mut().rev().find(has_position) {
            Some(Part { buffer, matches: Match::Content(content) }) => Ok((buffer, content)),
            _ => Err(Reason::wrong("stands behind no content")),
        }
    }

    /// The rule, if nothing is wrong with it.
    pub(super) fn finish(mut self) -> std::result::Result<Rule, Vec<Reason>> {
        self.errors.extend(verify::mistakes(&self.rule));
        if self.errors.is_empty() { Ok(self.rule) } else { Err(self.errors) }
    }
}

/// A mistake, with the option it is in.
fn named(name: &str, reason: Reason) -> Reason {
    match reason {
        Reason::Wrong(text) => Reason::Wrong(format!("{name}: {text}")),
        Reason::TooLarge(text) => Reason::TooLarge(format!("{name}: {text}")),
        other => other,
    }
}

/// An option that has no value.
fn nothing(value: &str) -> Result {
    if value.is_empty() {
        Ok(())
    } else {
        Err(Reason::wrong(format!("takes no value, not '{}'", shown(value))))
    }
}

/// A number within bounds.
fn number<T>(value: &str, low: T, high: T) -> Result<T>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    match value.trim().parse::<T>() {
        Ok(number) if number >= low && number <= high => Ok(number),
        _ => Err(Reason::wrong(format!("'{}' is no number from {low} to {high}", shown(value)))),
    }
}

/// What stands between quotes, and what behind them.
fn quoted(value: &str) -> Result<(&str, &str)> {
    let inner = value
        .strip_prefix('"')
        .ok_or_else(|| Reason::wrong(format!("'{}' is not in quotes", shown(value))))?;
    let mut escaped = false;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Ok((&inner[..at], inner[at + 1..].trim())),
            _ => {}
        }
    }
    Err(Reason::wrong("the quote is not closed"))
}
