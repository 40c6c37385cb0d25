//! Which bytes of each rule are looked for first.

use std::collections::HashMap;

use crate::rules::ast::Rule;
use crate::rules::buffer::Buffer;
use crate::rules::matches::{Content, Fast, Match, Part};

/// Bytes to look for in a buffer, and the rules that are worth a look where they are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastPattern {
    /// The bytes; not empty.
    pub bytes: Vec<u8>,
    /// ASCII letters match whatever their case. (An engine that ignores case always finds more than
    /// needed, which costs time and nothing else.)
    pub nocase: bool,
    /// Where to look. [`Buffer::FileData`] is a body of either side; the others stand for
    /// themselves.
    pub buffer: Buffer,
    /// Indexes of rules in the set, ascending.
    pub rules: Vec<u32>,
}

/// Shorter patterns are found too often to be worth looking for: what rules have nothing else are
/// distinguished by ports first.
const LEN_MIN: usize = 2;

/// What is looked for of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Choice {
    bytes: Vec<u8>,
    nocase: bool,
    buffer: Buffer,
}

/// Buffers that nearly every message has alike: contents in them distinguish rules badly.
const COMMON: [Buffer; 4] =
    [Buffer::HttpMethod, Buffer::HttpStatCode, Buffer::HttpStatMsg, Buffer::HttpProtocol];

/// What to look for: the content that the rule says is the fast one; else the one that is worth
/// most. None where all are negated, or
/// too short.
pub(super) fn choose(rule: &Rule) -> Option<Choice> {
    let contents = rule.parts.iter().filter_map(|part| match &part.matches {
        Match::Content(content) if !content.negated => Some((part, content)),
        _ => None,
    });
    let (part, content) = contents.max_by_key(|(part, content)| worth(part, content))?;
    let bytes = match content.fast {
        Fast::Cut { offset, len } => {
            let from = usize::from(offset);
            content.bytes[from..from + usize::from(len)].to_vec()
        }
        _ => content.bytes.clone(),
    };
    let choice = Choice { bytes, nocase: content.nocase, buffer: part.buffer };
    Some(choice).filter(|choice| choice.bytes.len() >= LEN_MIN)
}

/// Said to be fast; not in a common buffer; in a message's part rather than anywhere; its different
/// bytes; its length.
fn worth(part: &Part, content: &Content) -> (bool, bool, bool, usize, usize) {
    let mut seen = [false; 256];
    content.bytes.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    let different = seen.iter().filter(|seen| **seen).count();
    let is_rare = !COMMON.contains(&part.buffer);
    let is_part = part.buffer != Buffer::Payload;
    (
        content.fast != Fast::Unsaid,
        is_rare,
        is_part,
        content.bytes.len().min(different * 2),
        different,
    )
}

/// Patterns with the rules that have them, and the rules that have none.
pub(super) fn gather(choices: Vec<Option<Choice>>) -> (Vec<FastPattern>, Vec<u32>) {
    let (mut patterns, mut without) = (Vec::<FastPattern>::new(), Vec::new());
    let mut known = HashMap::new();
    for (rule, choice) in (0u32..).zip(choices) {
        let Some(choice) = choice else {
            without.push(rule);
            continue;
        };
        let at = *known.entry(choice).or_insert_with_key(|choice: &Choice| {
            let Choice { bytes, nocase, buffer } = choice.clone();
            patterns.push(FastPattern { bytes, nocase, buffer, rules: Vec::new() });
            patterns.len() - 1
        });
        patterns[at].rules.push(rule);
    }
    (patterns, without)
}
