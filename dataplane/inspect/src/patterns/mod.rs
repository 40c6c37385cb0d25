//! Many patterns at once, in streams that come in pieces.
//!
//! The states are those of Aho and Corasick's automaton, so four bytes remember all of a stream
//! that matters, but few steps are made in it: while less than four bytes of any pattern have been
//! read, the next place where one may begin is looked for, by a bitmap of hashed beginnings, or by
//! vectors (Teddy, from aho-corasick) when beginnings are few. Those look-ups do not wait for one
//! another; the steps of an automaton do. From there on the tree of patterns is followed.
//!
//! Measured for the choice, without regard to case, over the payload of two captures (24 MB each: a
//! campus, an ISP's mix), one of two cores, ns a byte; patterns of at least 3 bytes are the fast
//! patterns of a public rule set of 12,423, or 2,000 of them:
//!
//! | what | 2,000: memory | campus, ISP | 12,423: memory | campus, ISP |
//! |---|---|---|---|---|
//! | this | 0.7 MB, built in 3 ms | 2.2, 1.5 | 4 MB, in 23 ms | 3.7, 3.6 |
//! | DFA of aho-corasick | 29 MB, 110 ms | 2.6, 3.5 | 163 MB, 360 ms | 4.9, 5.4 |
//! | the same, 4 streams by turns | | 2.2, 1.6 | | 5.1, 3.7 |
//! | contiguous NFA | 1.4 MB | 9.6, 7.4 | 5.2 MB | 7.2, 7.3 |
//! | the same, 4 streams by turns | | 10.1, 9.0 | | 7.7, 10.0 |
//! | noncontiguous NFA | 1.9 MB | 10.1 | 8.1 MB | 9.4 |
//!
//! In the largest set zeros match at more than half of the campus' bytes: that is what it takes
//! there to report on them. Streams by turns, which hide a DFA's waits for memory, gain nothing
//! where a branch that is not foreseen stops them all, nor here. Up to about 16 words without
//! regard to case: 0.1 to 0.2 ns (DFA: 1.4 to 2). Patterns with and without regard to case have an
//! automaton each, which is the sum of both; a caller that can compare letters later asks for all
//! of them without.
//!
//! A stream's bytes can make it slow, within a bound: each byte is read at most as often as
//! openings are long, and each step of the tree that fails gives back a step that was made.

mod machine;
mod openings;
mod pattern;
mod trie;
mod words;

use std::ops::ControlFlow;

use machine::{Machine, Run};
pub use pattern::{PATTERN_LEN_MAX, PATTERNS_MAX, Pattern, PatternError};
pub use words::{Found, Seek, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What is remembered of a stream between two pieces of it: plain data, zeros at the beginning. It
/// belongs to the [`Patterns`] that made it; others read it as some state of their own.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct SearchState {
    folded: u32,
    exact: u32,
}

/// Patterns that are looked for together. Immutable: threads share it.
///
/// ```
/// use std::ops::ControlFlow;
/// use thruway_inspect::patterns::{Pattern, Patterns, SearchState};
///
/// let pattern = |bytes: &[u8], nocase| Pattern { bytes: bytes.to_vec(), nocase };
/// let patterns = Patterns::new(&[pattern(b"attack", true), pattern(b"TA", false)])?;
/// let (mut state, mut found) = (SearchState::default(), Vec::new());
/// for piece in ["an atT", "Ack"] {
///     patterns.feed(&mut state, piece.as_bytes(), |pattern, end| {
///         found.push((pattern, end));
///         ControlFlow::Continue(())
///     });
/// }
/// assert_eq!(found, [(0, 3), (1, 1)]);
/// # Ok::<(), thruway_inspect::patterns::PatternError>(())
/// ```
#[derive(Debug)]
pub struct Patterns {
    folded: Option<Machine>,
    exact: Option<Machine>,
    len: usize,
}

/// Whether patterns can be looked for, one by one and together.
fn check(patterns: &[Pattern]) -> Result<(), PatternError> {
    if patterns.len() > PATTERNS_MAX {
        return Err(PatternError::TooMany { count: patterns.len() });
    }
    for (pattern, it) in patterns.iter().enumerate() {
        match it.bytes.len() {
            0 => return Err(PatternError::Empty { pattern }),
            len if len > PATTERN_LEN_MAX => return Err(PatternError::TooLong { pattern, len }),
            _ => {}
        }
    }
    Ok(())
}

impl Patterns {
    /// For these patterns, which may repeat.
    ///
    /// # Errors
    /// A pattern is empty or too long, or they are too many.
    pub fn new(patterns: &[Pattern]) -> Result<Patterns, PatternError> {
        check(patterns)?;
        // Without letters it is all one: the fewer automata, the better.
        let has_letters = |it: &Pattern| it.bytes.iter().any(u8::is_ascii_alphabetic);
        let is_any_exact = patterns.iter().any(|it| !it.nocase && has_letters(it));
        let is_exact = |it: &Pattern| !it.nocase && (has_letters(it) || is_any_exact);
        let machine = |exact: bool| {
            let mut mine = patterns.iter().enumerate().filter(|it| is_exact(it.1) == exact);
            let is_any = mine.clone().next().is_some();
            is_any.then(|| Machine::new(&mut mine, !exact)).transpose()
        };
        Ok(Patterns { folded: machine(false)?, exact: machine(true)?, len: patterns.len() })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Looks at what comes next in a stream. `on` is called for every occurrence, overlapping or
    /// not: the pattern's number, and where in `bytes` it ends (it may have begun before them); in
    /// the order of their ends among those that regard case, and among those that do not. When it
    /// breaks, `state` is that of a beginning.
    #[inline]
    pub fn feed(
        &self,
        state: &mut SearchState,
        bytes: &[u8],
        mut on: impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let before = std::mem::take(state);
        if let Some(machine) = &self.folded {
            state.folded = feed(machine, before.folded, bytes, &mut on)?;
        }
        if let Some(machine) = &self.exact {
            match feed(machine, before.exact, bytes, &mut on) {
                ControlFlow::Continue(node) => state.exact = node,
                ControlFlow::Break(()) => {
                    *state = SearchState::default();
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// How many of the bytes read last may be the beginning of a pattern: the length of the
    /// longest beginning of any pattern that they end with.
    pub fn depth(&self, state: SearchState) -> usize {
        let depth = |machine: &Option<Machine>, node| {
            machine.as_ref().map_or(0, |it| it.trie().string(it.checked(node)).len())
        };
        depth(&self.folded, state.folded).max(depth(&self.exact, state.exact))
    }

    /// What it takes, bytes.
    pub fn memory(&self) -> usize {
        [&self.folded, &self.exact].into_iter().flatten().map(Machine::memory).sum()
    }
}

/// One automaton's part; the state afterwards.
#[inline]
fn feed(
    machine: &Machine,
    node: u32,
    bytes: &[u8],
    on: &mut impl FnMut(usize, usize) -> ControlFlow<()>,
) -> ControlFlow<(), u32> {
    let start = machine.checked(node);
    let run = Run { bytes, start };
    let mut stop = machine.seek(run, start, 0);
    while stop.is_hit {
        for same in machine.ending(stop.node) {
            for pattern in same {
                on(*pattern as usize, stop.at)?;
            }
        }
        stop = machine.seek(run, stop.node, stop.at);
    }
    ControlFlow::Continue(stop.node)
}

#[cfg(test)]
mod tests;
