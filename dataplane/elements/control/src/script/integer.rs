//! Integers as scripts write them.

use thruway_element::handler_value;

/// A 64-bit integer; unsigned ones above the signed range wrap, as in C.
pub(super) fn integer(text: &str) -> Option<i64> {
    let signed = handler_value::<i64>("", text).ok();
    signed.or_else(|| handler_value::<u64>("", text).ok().map(|value| value as i64))
}
