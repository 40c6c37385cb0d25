//! The conditions on one buffer, one after the other.

use crate::rules::buffer::Buffer;
use crate::rules::compiled::needle::Needle;
use crate::rules::error::Reason;
use crate::rules::matches::{ByteJump, ByteTest, Content, DataAt, Match, Part};
use crate::rules::numbers::Range;
use crate::rules::pcre::{self, Expression};

/// The conditions on one buffer: what is counted from the match before is counted from the one
/// before it here.
#[derive(Debug)]
pub(in crate::rules) struct Chain {
    pub buffer: Buffer,
    pub steps: Vec<Step>,
}

/// One condition.
#[derive(Debug)]
pub(in crate::rules) struct Step {
    pub what: What,
    /// The step behind it is counted from its match.
    pub is_followed: bool,
}

/// What a condition is about.
#[derive(Debug)]
pub(in crate::rules) enum What {
    Content(CompiledContent),
    Pcre { expression: Expression, negated: bool, relative: bool },
    DataAt(DataAt),
    ByteTest(ByteTest),
    ByteJump(ByteJump),
    Size(Range<u32>),
}

/// A content and where it may be.
#[derive(Debug)]
pub(in crate::rules) struct CompiledContent {
    pub needle: Needle,
    pub negated: bool,
    /// Its place is counted from the match before.
    pub relative: bool,
    /// Where it may begin: from the buffer's beginning, or from the match before.
    pub from: i64,
    /// Bytes from there on in which it must lie.
    pub room: Option<i64>,
    /// It ends where the buffer ends.
    pub ends: bool,
}

impl CompiledContent {
    fn new(content: &Content) -> CompiledContent {
        let relative = content.is_relative();
        let (from, room) = if relative {
            (content.distance.map_or(0, i64::from), content.within)
        } else {
            (content.offset.map_or(0, i64::from), content.depth)
        };
        CompiledContent {
            needle: Needle::new(&content.bytes, content.nocase),
            negated: content.negated,
            relative,
            from,
            room: room.map(i64::from),
            ends: content.ends,
        }
    }
}

impl What {
    /// Whether it wants something to be there.
    pub(in crate::rules) fn is_positive(&self) -> bool {
        match self {
            What::DataAt(it) => !it.negated,
            What::ByteTest(_) => true,
            what => what.moves(),
        }
    }

    /// Whether it is counted from the match before.
    pub(in crate::rules) fn is_relative(&self) -> bool {
        match self {
            What::Content(place) => place.relative,
            What::Pcre { relative, .. } => *relative,
            What::DataAt(it) => it.relative,
            What::ByteTest(it) => it.number.relative,
            What::ByteJump(it) => it.number.relative,
            What::Size(_) => false,
        }
    }

    /// Whether what follows may be counted from it.
    pub(in crate::rules) fn moves(&self) -> bool {
        match self {
            What::Content(place) => !place.negated,
            What::Pcre { negated, .. } => !negated,
            What::ByteJump(_) => true,
            What::DataAt(_) | What::ByteTest(_) | What::Size(_) => false,
        }
    }
}

fn ready(matches: &Match) -> Result<What, Reason> {
    Ok(match matches {
        Match::Content(content) => What::Content(CompiledContent::new(content)),
        Match::Pcre(pcre) => What::Pcre {
            expression: pcre::compile(pcre)?,
            negated: pcre.negated,
            relative: pcre.relative,
        },
        Match::DataAt(it) => What::DataAt(*it),
        Match::ByteTest(it) => What::ByteTest(*it),
        Match::ByteJump(it) => What::ByteJump(*it),
        Match::Size(range) => What::Size(*range),
    })
}

impl Chain {
    /// The conditions by buffer, those on complete buffers first.
    ///
    /// # Errors
    /// What cannot be made ready.
    pub(in crate::rules) fn of(parts: &[Part]) -> Result<Vec<Chain>, Vec<Reason>> {
        let (mut chains, mut errors) = (Vec::<Chain>::new(), Vec::new());
        for part in parts {
            let what = match ready(&part.matches) {
                Ok(what) => what,
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            let found = chains.iter().position(|chain| chain.buffer == part.buffer);
            let at = found.unwrap_or_else(|| {
                chains.push(Chain { buffer: part.buffer, steps: Vec::new() });
                chains.len() - 1
            });
            chains[at].push(what);
        }
        // What is complete first: if it is not as wanted, the rest need not be waited for.
        chains.sort_by_key(|chain| chain.buffer.is_stream());
        if errors.is_empty() { Ok(chains) } else { Err(errors) }
    }

    fn push(&mut self, what: What) {
        if what.is_relative()
            && let Some(before) = self.steps.iter_mut().rev().find(|step| step.what.moves())
        {
            before.is_followed = true;
        }
        self.steps.push(Step { what, is_followed: false });
    }
}
