//! Which bytes of each rule are looked for first.

use crate::rules::buffer::Buffer;

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
