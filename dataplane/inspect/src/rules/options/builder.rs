//! A rule while its options are read, and helpers of the option readers.

use super::verify;
use crate::rules::ast::Rule;
use crate::rules::buffer::Buffer;
use crate::rules::error::{Reason, shown};
use crate::rules::limits::PARTS_MAX;
use crate::rules::matches::{Content, Match, Part};

/// A rule while its options are read.
pub(in crate::rules) struct Builder {
    pub(super) rule: Rule,
    /// Where contents belong that say nothing else.
    pub(super) buffer: Buffer,
    pub(super) errors: Vec<Reason>,
}

pub(super) type Result<T = ()> = std::result::Result<T, Reason>;

/// What reads an option's value.
pub(super) type Reader = fn(&mut Builder, &str) -> Result;

impl Builder {
    pub(in crate::rules) fn new(rule: Rule) -> Builder {
        Builder { rule, buffer: Buffer::Payload, errors: Vec::new() }
    }

    /// The number, where it was read.
    pub(in crate::rules) fn sid(&self) -> Option<u32> {
        (self.rule.about.sid != 0).then_some(self.rule.about.sid)
    }

    /// What follows is about this buffer.
    pub(super) fn sticky(&mut self, buffer: Buffer, value: &str) -> Result {
        nothing(value)?;
        self.buffer = buffer;
        Ok(())
    }

    /// One more condition on the present buffer.
    pub(super) fn part(&mut self, matches: Match) -> Result {
        let buffer = self.buffer;
        self.part_of(buffer, matches)
    }

    pub(super) fn part_of(&mut self, buffer: Buffer, matches: Match) -> Result {
        if self.rule.parts.len() >= PARTS_MAX {
            let reason = format!("more than {PARTS_MAX} contents and the like");
            return Err(Reason::TooLarge(reason));
        }
        self.rule.parts.push(Part { buffer, matches });
        Ok(())
    }

    /// The content that a modifier stands behind; lengths between them do no harm.
    pub(super) fn last(&mut self) -> Result<(&mut Buffer, &mut Content)> {
        let has_position = |part: &&mut Part| !matches!(part.matches, Match::Size(_));
        match self.rule.parts.iter_mut().rev().find(has_position) {
            Some(Part { buffer, matches: Match::Content(content) }) => Ok((buffer, content)),
            _ => Err(Reason::wrong("stands behind no content")),
        }
    }

    /// The rule, if nothing is wrong with it.
    pub(in crate::rules) fn finish(mut self) -> std::result::Result<Rule, Vec<Reason>> {
        self.errors.extend(verify::mistakes(&self.rule));
        if self.errors.is_empty() { Ok(self.rule) } else { Err(self.errors) }
    }
}

/// A mistake, with the option it is in.
pub(super) fn named(name: &str, reason: Reason) -> Reason {
    match reason {
        Reason::Wrong(text) => Reason::Wrong(format!("{name}: {text}")),
        Reason::TooLarge(text) => Reason::TooLarge(format!("{name}: {text}")),
        other => other,
    }
}

/// An option that has no value.
pub(super) fn nothing(value: &str) -> Result {
    if value.is_empty() {
        Ok(())
    } else {
        Err(Reason::wrong(format!("takes no value, not '{}'", shown(value))))
    }
}

/// A number within bounds.
pub(super) fn number<T>(value: &str, low: T, high: T) -> Result<T>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    match value.trim().parse::<T>() {
        Ok(number) if number >= low && number <= high => Ok(number),
        _ => Err(Reason::wrong(format!("'{}' is no number from {low} to {high}", shown(value)))),
    }
}

/// What stands between quotes, and what behind them.
pub(super) fn quoted(value: &str) -> Result<(&str, &str)> {
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
