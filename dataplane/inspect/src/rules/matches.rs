//! What buffers must contain.

use crate::rules::buffer::Buffer;
use crate::rules::numbers::Range;

/// How a content says that it is the one to look for first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fast {
    /// It does not.
    #[default]
    Unsaid,
    /// `fast_pattern`
    Yes,
    /// `fast_pattern:only`: and need not be looked at again.
    Only,
    /// `fast_pattern:offset,len`: these bytes of it.
    Cut {
        /// Where it begins.
        offset: u16,
        /// How long it is.
        len: u16,
    },
}

/// Bytes to be found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// The bytes; not empty.
    pub bytes: Vec<u8>,
    /// `!`: must not be there.
    pub negated: bool,
    /// ASCII letters match whatever their case.
    pub nocase: bool,
    /// First byte of the buffer where it may begin.
    pub offset: Option<u32>,
    /// How many bytes from `offset` on it must lie within. At least as long as it is.
    pub depth: Option<u32>,
    /// Bytes from the end of the match before to the first where this may begin.
    pub distance: Option<i32>,
    /// How many bytes from there on it must lie within. At least as long as it is.
    pub within: Option<u32>,
    /// It ends where the buffer ends.
    pub ends: bool,
    /// Whether it should be looked for first.
    pub fast: Fast,
    /// `rawbytes`: as sent. Payload always is.
    pub raw: bool,
}

impl Content {
    /// Whether its place is counted from the match before.
    pub fn is_relative(&self) -> bool {
        self.distance.is_some() || self.within.is_some()
    }
}

/// A regular expression to be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pcre {
    /// As written between the slashes.
    pub pattern: String,
    /// Letters behind the slash that change how it matches, of `i s m x A E G`, sorted. Those that
    /// choose a buffer are in [`Part::buffer`].
    pub flags: String,
    /// `!`
    pub negated: bool,
    /// `R`: searched from the end of the match before.
    pub relative: bool,
}

/// `isdataat`: there are (or are not) as many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataAt {
    /// Bytes.
    pub bytes: u32,
    /// `!`
    pub negated: bool,
    /// Counted from the end of the match before, not from the buffer's beginning.
    pub relative: bool,
}

/// In which order bytes make a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// Network order.
    #[default]
    Big,
    /// The other.
    Little,
}

/// How a number is written in the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// As 1 to 8 bytes.
    Binary(Order),
    /// As digits with this base (8, 10 or 16).
    Digits(u8),
}

/// Where a number stands, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// Bytes it takes: at most 8, or 23 as digits.
    pub bytes: u8,
    /// From the buffer's beginning, or the end of the match before.
    pub offset: i32,
    /// Whether from the match before.
    pub relative: bool,
    /// How it is written.
    pub form: Form,
}

/// How two numbers are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compare {
    /// `<`
    Less,
    /// `>`
    More,
    /// `=`
    Equal,
    /// `<=`
    AtMost,
    /// `>=`
    AtLeast,
    /// `&`: they have bits in common.
    And,
    /// `^`: they differ.
    Xor,
}

/// `byte_test`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteTest {
    /// What is compared.
    pub number: Number,
    /// `!`
    pub negated: bool,
    /// How.
    pub compare: Compare,
    /// With what.
    pub value: u64,
    /// Taken of the number before (and shifted right by its trailing zeros), if given.
    pub mask: Option<u32>,
}

/// From where `byte_jump` jumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum JumpFrom {
    /// From behind the number.
    #[default]
    Here,
    /// From the buffer's beginning.
    Beginning,
}

/// `byte_jump`: what follows is counted from as many bytes further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteJump {
    /// How far.
    pub number: Number,
    /// Times this; at least 1.
    pub multiplier: u32,
    /// Rounded up to a multiple of four.
    pub align: bool,
    /// From where.
    pub from: JumpFrom,
    /// And this further.
    pub post_offset: i32,
}

/// One of the conditions on a buffer.
#[derive(Debug, Clone, PartialEq)]
pub enum Match {
    /// `content`
    Content(Content),
    /// `pcre`
    Pcre(Pcre),
    /// `isdataat`
    DataAt(DataAt),
    /// `byte_test`
    ByteTest(ByteTest),
    /// `byte_jump`
    ByteJump(ByteJump),
    /// `bsize`, `urilen`: the length of a buffer that is complete.
    Size(Range<u32>),
}

/// A condition and the buffer it is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Where.
    pub buffer: Buffer,
    /// What.
    pub matches: Match,
}
