//! `isdataat`, `byte_test`, `byte_jump`.

use crate::rules::eval::scratch::{Scratch, Spot};
use crate::rules::matches::{ByteJump, ByteTest, Compare, DataAt, Form, JumpFrom, Number, Order};
use crate::rules::view::View;

/// Keeps the spots that pass `test`, which says whether what is new takes part; where it is not
/// counted from the match before, the beginning is asked, the spots stay, and the answer says
/// whether what is new takes part.
fn filter(
    relative: bool,
    view: View<'_>,
    scratch: &mut Scratch,
    mut test: impl FnMut(i64) -> Option<bool>,
) -> (bool, bool) {
    if !relative {
        let outcome = test(-(view.base as i64));
        return (outcome.is_some(), outcome == Some(true));
    }
    scratch.spots.0.retain_mut(|spot| match test(spot.at) {
        Some(new) => {
            spot.new |= new;
            true
        }
        None => false,
    });
    (!scratch.spots.0.is_empty(), false)
}

/// Whether there is as much data.
pub(super) fn data_at(it: &DataAt, view: View<'_>, scratch: &mut Scratch) -> (bool, bool) {
    let len = view.bytes.len() as i64;
    filter(it.relative, view, scratch, |spot| {
        // From the beginning, the byte at that place is meant; from a match, as many bytes.
        let end = spot + i64::from(it.bytes) + i64::from(!it.relative);
        ((end <= len) != it.negated).then_some(!it.negated && is_new(end, view))
    })
}

fn is_new(end: i64, view: View<'_>) -> bool {
    end > 0 && end as usize > view.since
}

/// A number that was read.
struct Read {
    value: u64,
    /// Behind it.
    end: i64,
    /// It took part of what was not there before.
    new: bool,
}

/// The number at a place.
fn read(number: &Number, spot: i64, view: View<'_>) -> Option<Read> {
    let at = usize::try_from(spot + i64::from(number.offset)).ok()?;
    let bytes = view.bytes.get(at..at + usize::from(number.bytes))?;
    let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let (value, len) = match number.form {
        Form::Binary(Order::Big) => (bytes.iter().fold(0, fold), bytes.len()),
        Form::Binary(Order::Little) => (bytes.iter().rev().fold(0, fold), bytes.len()),
        Form::Digits(base) => digits(bytes, base)?,
    };
    // All bytes must be there, even if fewer are digits.
    let new = is_new((at + bytes.len()) as i64, view);
    Some(Read { value, end: (at + len) as i64, new })
}

/// The number that digits make, and how many bytes it takes with the spaces before it.
fn digits(bytes: &[u8], base: u8) -> Option<(u64, usize)> {
    let spaces = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let mut at = spaces;
    if base == 16
        && matches!(&bytes[at..], [b'0', b'x' | b'X', next, ..] if next.is_ascii_hexdigit())
    {
        at += 2;
    }
    let (first, mut value) = (at, 0u64);
    while let Some(digit) =
        bytes.get(at).and_then(|byte| char::from(*byte).to_digit(u32::from(base)))
    {
        value = value.saturating_mul(u64::from(base)).saturating_add(u64::from(digit));
        at += 1;
    }
    (at > first).then_some((value, at))
}

/// Whether a number is as wanted.
pub(super) fn test(it: &ByteTest, view: View<'_>, scratch: &mut Scratch) -> (bool, bool) {
    filter(it.number.relative, view, scratch, |spot| {
        let Read { value: mut number, new, .. } = read(&it.number, spot, view)?;
        if let Some(mask) = it.mask {
            number = (number & u64::from(mask)) >> mask.trailing_zeros();
        }
        let is_so = match it.compare {
            Compare::Less => number < it.value,
            Compare::More => number > it.value,
            Compare::Equal => number == it.value,
            Compare::AtMost => number <= it.value,
            Compare::AtLeast => number >= it.value,
            Compare::And => number & it.value != 0,
            Compare::Xor => number ^ it.value != 0,
        };
        (is_so != it.negated).then_some(new)
    })
}

/// Moves the spots as far as numbers say.
pub(super) fn jump(it: &ByteJump, view: View<'_>, scratch: &mut Scratch) -> bool {
    let beginning = -(view.base as i64);
    let Scratch { spots, next, .. } = scratch;
    next.0.clear();
    if !it.number.relative {
        spots.begin(view);
    }
    for spot in &spots.0 {
        let Some(number) = read(&it.number, spot.at, view) else { continue };
        let Some(to) = target(it, number.value, number.end, beginning) else { continue };
        // There must be a byte there.
        if to < 0 || to >= view.bytes.len() as i64 {
            continue;
        }
        let new = spot.new || number.new || is_new(to + 1, view);
        next.add(Spot { at: to, new });
    }
    std::mem::swap(spots, next);
    !spots.0.is_empty()
}

fn target(it: &ByteJump, number: u64, end: i64, beginning: i64) -> Option<i64> {
    let mut far = i64::try_from(number).ok()?.checked_mul(i64::from(it.multiplier))?;
    if it.align {
        far = far.checked_add(3)? & !3;
    }
    let from = match it.from {
        JumpFrom::Here => end,
        JumpFrom::Beginning => beginning,
    };
    far.checked_add(i64::from(it.post_offset))?.checked_add(from)
}
