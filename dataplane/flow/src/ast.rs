//! Rules as trees: boolean connectives over tests of one masked 32-bit word each.

use std::fmt;

/// Where a word's offset counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Base {
    /// The first byte of the frame: the base of `Classifier` and `ether host`.
    Frame,
    /// The first byte of the IP header.
    Network,
    /// The first byte of the transport header.
    Transport,
}

/// One test: the four big-endian bytes at `at`, masked, are in `lo..=hi`.
///
/// Only bytes under a non-zero part of the mask need to exist. A test of bytes past the end is
/// false; its negation is therefore true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word {
    /// The base of the offset.
    pub base: Base,
    /// Offset of the word, in bytes.
    pub at: u16,
    /// The bits tested.
    pub mask: u32,
    /// Smallest masked value that matches.
    pub lo: u32,
    /// Largest masked value that matches.
    pub hi: u32,
}

impl Word {
    /// The test `word & mask == value & mask`.
    pub fn equal(base: Base, at: u16, mask: u32, value: u32) -> Word {
        Word { base, at, mask, lo: value & mask, hi: value & mask }
    }

    /// How many of the four bytes must exist for the test to be possible.
    pub fn needed_bytes(&self) -> usize {
        4 - (self.mask.trailing_zeros() / 8) as usize
    }

    /// Whether a (masked) value passes.
    pub fn holds(&self, value: u32) -> bool {
        let masked = value & self.mask;
        self.lo <= masked && masked <= self.hi
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = match self.base {
            Base::Frame => "frame",
            Base::Network => "ip",
            Base::Transport => "transp",
        };
        write!(f, "{base}[{}:4] & {:08x}", self.at, self.mask)?;
        if self.lo == self.hi {
            write!(f, " == {:08x}", self.lo)
        } else {
            write!(f, " in {:08x}..{:08x}", self.lo, self.hi)
        }
    }
}

/// A boolean expression over words. Nesting is bounded by the parser ([`crate::rules::DEPTH_MAX`]),
/// so walking it by recursion is safe; long lists are wide, not deep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// Always this.
    Const(bool),
    /// One word test.
    Test(Word),
    /// The opposite.
    Not(Box<Expr>),
    /// Every one of these (none: true).
    All(Vec<Expr>),
    /// At least one of these (none: false).
    Any(Vec<Expr>),
    /// `c1 ? t1 : c2 ? t2 : ... : otherwise`.
    Choice(Vec<(Expr, Expr)>, Box<Expr>),
}

impl Expr {
    /// The expression or its opposite.
    #[must_use]
    pub fn negated_if(self, negated: bool) -> Expr {
        match (negated, self) {
            (false, e) => e,
            (true, Expr::Const(b)) => Expr::Const(!b),
            (true, Expr::Not(e)) => *e,
            (true, e) => Expr::Not(Box::new(e)),
        }
    }

    /// `All` of a list, without a needless wrapper.
    pub fn all(mut list: Vec<Expr>) -> Expr {
        if list.len() == 1 { list.swap_remove(0) } else { Expr::All(list) }
    }

    /// `Any` of a list, without a needless wrapper.
    pub fn any(mut list: Vec<Expr>) -> Expr {
        if list.len() == 1 { list.swap_remove(0) } else { Expr::Any(list) }
    }
}

/// A rule: packets that match `expr` get `output` as verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The expression to match.
    pub expr: Expr,
    /// The verdict: an output number or [`crate::DROP`].
    pub output: u32,
    /// Reasons for warnings, such as a comparison that is always true.
    pub warnings: Vec<String>,
}

impl Rule {
    /// A rule without warnings.
    pub fn new(expr: Expr, output: u32) -> Rule {
        Rule { expr, output, warnings: Vec::new() }
    }
}
