//! What is looked for, and why it is not taken.

/// Most patterns.
pub const PATTERNS_MAX: usize = 1 << 20;

/// Longest pattern, bytes.
pub const PATTERN_LEN_MAX: usize = u16::MAX as usize;

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// At least one byte.
    pub bytes: Vec<u8>,
    /// Whether upper and lower case (of ASCII letters) are the same.
    pub nocase: bool,
}

/// Why patterns were not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// A pattern without bytes would be found everywhere.
    #[error("pattern {pattern} is empty; it must have at least one byte")]
    Empty {
        /// Its number, from 0.
        pattern: usize,
    },
    /// One pattern is too long.
    #[error("pattern {pattern} has {len} bytes; at most {PATTERN_LEN_MAX} can be looked for")]
    TooLong {
        /// Its number, from 0.
        pattern: usize,
        /// Its length, bytes.
        len: usize,
    },
    /// There are too many.
    #[error("there are {count} patterns; at most {PATTERNS_MAX} can be looked for at once")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// All together are too large.
    #[error("the patterns have more than {max} bytes together; use fewer or shorter ones")]
    TooLarge {
        /// Most bytes.
        max: usize,
    },
}
