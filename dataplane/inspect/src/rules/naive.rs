//! Rules evaluated as simply as can be said: every place is tried. The oracle of tests.

use crate::rules::buffer::Buffer;
use crate::rules::eval::Outcome;
use crate::rules::matches::{ByteJump, ByteTest, Compare, Content, Form, JumpFrom, Match, Number};
use crate::rules::matches::{Order, Part, Pcre};
use crate::rules::pcre;
use crate::rules::view::{View, Views};

/// Whether buffers are as a rule wants them, and were not before.
pub(super) fn evaluate(parts: &[Part], views: &dyn Views) -> Outcome {
    let mut buffers: Vec<Buffer> = parts.iter().map(|part| part.buffer).collect();
    buffers.sort();
    buffers.dedup();
    let mut all = Outcome { matched: true, new: parts.is_empty(), ..Outcome::NO };
    for buffer in buffers {
        let Some(view) = views.view(buffer) else { return Outcome::NO };
        let chain: Vec<&Match> =
            parts.iter().filter(|part| part.buffer == buffer).map(|part| &part.matches).collect();
        match chain_matches(&chain, view) {
            None => return Outcome::NO,
            Some(new) => all.new |= new,
        }
    }
    all
}

/// Whether all hold, and then whether by a match that was not there before.
fn chain_matches(chain: &[&Match], view: View<'_>) -> Option<bool> {
    let is_positive = chain.iter().any(|one| match one {
        Match::Content(it) => !it.negated,
        Match::Pcre(it) => !it.negated,
        Match::DataAt(it) => !it.negated,
        Match::ByteTest(_) | Match::ByteJump(_) => true,
        Match::Size(_) => false,
    });
    let size_new = chain.iter().any(|one| matches!(one, Match::Size(_))) && view.fresh;
    let mut cursors = vec![(-(view.base as i64), false)];
    let asks_for_no_end = chain.iter().any(|one| match one {
        Match::Content(it) => it.negated && it.ends,
        Match::Pcre(it) => it.negated && pcre::compile(it).unwrap().looks_ahead,
        _ => false,
    });
    let end_new = asks_for_no_end && view.since < view.bytes.len();
    let mut any_new = size_new || end_new || (!is_positive && view.fresh);
    // Conditions that are counted from the one before are one group; groups do not know each other.
    for one in chain {
        let beginning = -(view.base as i64);
        let next: Vec<(i64, bool)> = match (is_relative(one), after(one, beginning, view)) {
            (false, None) => return None,
            (false, Some(Advance::Moves(places))) => {
                any_new |= cursors.iter().any(|(_, new)| *new);
                places
            }
            (false, Some(Advance::Stays(new))) => {
                any_new |= new;
                cursors
            }
            (true, _) => {
                let behind = |(from, old): &(i64, bool)| match after(one, *from, view) {
                    Some(Advance::Moves(places)) => {
                        places.iter().map(|(at, new)| (*at, new | old)).collect()
                    }
                    Some(Advance::Stays(new)) => vec![(*from, new | old)],
                    None => Vec::new(),
                };
                cursors.iter().flat_map(behind).collect()
            }
        };
        cursors = next;
        cursors.sort();
        cursors.dedup();
        if cursors.is_empty() {
            return None;
        }
    }
    Some(any_new || cursors.iter().any(|(_, new)| *new))
}

enum Advance {
    /// Places behind it, and whether something new was needed to get there.
    Moves(Vec<(i64, bool)>),
    /// It holds.
    Stays(bool),
}

fn is_relative(one: &Match) -> bool {
    match one {
        Match::Content(it) => it.is_relative(),
        Match::Pcre(it) => it.relative,
        Match::DataAt(it) => it.relative,
        Match::ByteTest(it) => it.number.relative,
        Match::ByteJump(it) => it.number.relative,
        Match::Size(_) => false,
    }
}

fn after(one: &Match, from: i64, view: View<'_>) -> Option<Advance> {
    let is_new = |end: i64| end > 0 && end as usize > view.since;
    let moves = |places: Vec<(i64, bool)>| (!places.is_empty()).then_some(Advance::Moves(places));
    match one {
        Match::Content(it) => {
            let ends = content(it, from, view);
            if it.negated {
                return ends.is_empty().then_some(Advance::Stays(false));
            }
            moves(ends.into_iter().map(|end| (end, is_new(end))).collect())
        }
        Match::Pcre(it) => {
            let ends = expression(it, from, view);
            if it.negated {
                return ends.is_empty().then_some(Advance::Stays(false));
            }
            moves(ends)
        }
        Match::DataAt(it) => {
            let end = from + i64::from(it.bytes) + i64::from(!it.relative);
            let is_there = end <= view.bytes.len() as i64;
            (is_there != it.negated).then_some(Advance::Stays(!it.negated && is_new(end)))
        }
        Match::ByteTest(it) => test(it, from, view).map(|end| Advance::Stays(is_new(end))),
        Match::ByteJump(it) => {
            let (to, all) = jump(it, from, view)?;
            moves(vec![(to, is_new(all.max(to + 1)))])
        }
        Match::Size(range) => {
            range.contains(view.bytes.len() as u32).then_some(Advance::Stays(false))
        }
    }
}

fn content(it: &Content, from: i64, view: View<'_>) -> Vec<i64> {
    let (low, room) = if it.is_relative() {
        (from + i64::from(it.distance.unwrap_or(0)), it.within)
    } else {
        (from + i64::from(it.offset.unwrap_or(0)), it.depth)
    };
    let len = it.bytes.len();
    let all = view.bytes.len();
    (0..(all + 1).saturating_sub(len))
        .filter(|at| {
            let (start, end) = (*at as i64, (*at + len) as i64);
            let bytes = &view.bytes[*at..*at + len];
            let same =
                if it.nocase { bytes.eq_ignore_ascii_case(&it.bytes) } else { bytes == it.bytes };
            same && start >= low
                && room.is_none_or(|room| end <= low + i64::from(room))
                && (!it.ends || end == all as i64)
        })
        .map(|at| (at + len) as i64)
        .collect()
}

fn expression(it: &Pcre, from: i64, view: View<'_>) -> Vec<(i64, bool)> {
    let expression = pcre::compile(it).unwrap();
    let from = from.max(0) as usize;
    let Some(bytes) = view.bytes.get(from..) else { return Vec::new() };
    let mut ends = Vec::new();
    for start in 0..=bytes.len() {
        if let Some(found) = expression.regex.find_at(bytes, start) {
            let end = from + found.end();
            let new = end > view.since || (expression.looks_ahead && end == view.since);
            ends.push((end as i64, new));
        }
    }
    ends.dedup();
    ends
}

/// The number, where it ends, and behind which byte there must be all that it may take.
fn number(it: &Number, from: i64, view: View<'_>) -> Option<(u64, i64, i64)> {
    let at = usize::try_from(from + i64::from(it.offset)).ok()?;
    let bytes = view.bytes.get(at..at + usize::from(it.bytes))?;
    let all = (at + bytes.len()) as i64;
    match it.form {
        Form::Binary(order) => {
            let mut bytes = bytes.to_vec();
            if order == Order::Little {
                bytes.reverse();
            }
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Some((u64::from_str_radix(&hex, 16).unwrap(), all, all))
        }
        Form::Digits(base) => {
            let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
            let trimmed = text.trim_start_matches(|c: char| c.is_ascii_whitespace());
            let is_hex = base == 16
                && (trimmed.starts_with("0x") || trimmed.starts_with("0X"))
                && trimmed.chars().nth(2).is_some_and(|c| c.is_ascii_hexdigit());
            let digits = if is_hex { &trimmed[2..] } else { trimmed };
            let len = digits.chars().take_while(|c| c.is_digit(base.into())).count();
            let value = u64::from_str_radix(digits.get(..len)?, base.into());
            let value = match value {
                Ok(value) => value,
                Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow => u64::MAX,
                Err(_) => return None,
            };
            let before = text.len() - digits.len();
            Some((value, (at + before + len) as i64, all))
        }
    }
}

fn test(it: &ByteTest, from: i64, view: View<'_>) -> Option<i64> {
    let (mut value, _, all) = number(&it.number, from, view)?;
    if let Some(mask) = it.mask {
        value = (value & u64::from(mask)) / (1 << mask.trailing_zeros());
    }
    let is_so = match it.compare {
        Compare::Less => value < it.value,
        Compare::More => value > it.value,
        Compare::Equal => value == it.value,
        Compare::AtMost => value <= it.value,
        Compare::AtLeast => value >= it.value,
        Compare::And => value & it.value != 0,
        Compare::Xor => value != it.value,
    };
    (is_so != it.negated).then_some(all)
}

fn jump(it: &ByteJump, from: i64, view: View<'_>) -> Option<(i64, i64)> {
    let (value, end, all) = number(&it.number, from, view)?;
    let mut far = i128::from(value) * i128::from(it.multiplier);
    while it.align && far % 4 != 0 {
        far += 1;
    }
    let start = match it.from {
        JumpFrom::Here => end,
        JumpFrom::Beginning => -(view.base as i64),
    };
    let to = far + i128::from(it.post_offset) + i128::from(start);
    (0..view.bytes.len() as i128).contains(&to).then_some((to as i64, all))
}
