//! How much a table can number.

/// How many different route values a table can hold: indices 1 to 32,767 fit beside the flag in
/// a 16-bit table entry.
pub const MAX_HOPS: usize = 0x7fff;

/// How many different /24s may hold longer prefixes: what 15 bits can number.
pub(crate) const GROUPS: usize = 0x7fff;
