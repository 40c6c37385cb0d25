//! The automaton of patterns of one kind: with or without regard to case.

use super::openings::{GRAM_MAX, Openings};
use super::pattern::{Pattern, PatternError};
use super::trie::{NONE, ROOT, Trie, sorted};

/// What flows, as one call sees it.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    /// What is new.
    pub(super) bytes: &'a [u8],
    /// The state before it.
    pub(super) start: u32,
}

/// How far a search has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stop {
    /// The state there.
    pub(super) node: u32,
    /// Bytes read.
    pub(super) at: usize,
    /// Patterns end here; else everything was read.
    pub(super) is_hit: bool,
}

/// Patterns of one kind. States are nodes of the tree: exactly those of Aho and Corasick's
/// automaton. Nodes of fewer than [`Openings::len`] bytes are not stepped through: while no more
/// than that is read of a pattern, places where one may begin are looked for.
#[derive(Debug)]
pub(super) struct Machine {
    trie: Trie,
    openings: Openings,
    folds: [u8; 256],
}

fn folds(is_folded: bool) -> [u8; 256] {
    std::array::from_fn(|byte| {
        let byte = byte as u8; // below 256
        if is_folded { byte.to_ascii_lowercase() } else { byte }
    })
}

impl Machine {
    /// Of patterns with their numbers; none is empty, and there is one.
    pub(super) fn new<'a>(
        patterns: impl Iterator<Item = (usize, &'a Pattern)>,
        is_folded: bool,
    ) -> Result<Machine, PatternError> {
        let folds = folds(is_folded);
        let sorted = sorted(patterns, &folds);
        let shortest = sorted.iter().map(|(bytes, _)| bytes.len()).min().unwrap_or(1);
        let mut trie = Trie::new(&sorted)?;
        let openings = Openings::new(&trie, shortest.min(GRAM_MAX), is_folded);
        trie.cut_fails(openings.len());
        Ok(Machine { trie, openings, folds })
    }

    pub(super) fn trie(&self) -> &Trie {
        &self.trie
    }

    /// A state of this automaton, whatever the number is.
    pub(super) fn checked(&self, node: u32) -> u32 {
        if (node as usize) < self.trie.nodes.len() { node } else { ROOT }
    }

    #[inline(always)]
    fn fold(&self, byte: u8) -> u8 {
        self.folds[usize::from(byte)]
    }

    /// Patterns that end in a state, longer ones first: those of equal bytes together.
    #[inline]
    pub(super) fn ending(&self, node: u32) -> impl Iterator<Item = &[u32]> {
        self.trie.ending(self.trie.nodes[node as usize].out)
    }

    /// Goes on from `node`, which is the state after `at` bytes, to the next place where patterns
    /// end, or to the end.
    #[inline]
    pub(super) fn seek(&self, run: Run<'_>, node: u32, at: usize) -> Stop {
        let depth = usize::from(self.trie.nodes[node as usize].depth);
        if depth >= self.openings.len() {
            match self.walk(run, node, at) {
                Ok(stop) => stop,
                Err(from) => self.search(run, from),
            }
        } else {
            self.search(run, at as isize - depth as isize)
        }
    }

    /// Steps from a node of at least an opening's length; the place from which to search if what
    /// is read of patterns is shorter than that.
    #[inline(always)]
    fn walk(&self, run: Run<'_>, mut node: u32, mut at: usize) -> Result<Stop, isize> {
        while let Some(byte) = run.bytes.get(at) {
            let here = &self.trie.nodes[node as usize];
            let next = self.trie.child(here, self.fold(*byte));
            if next == NONE {
                node = here.fail;
                if node == NONE {
                    return Err(at as isize + 1 - self.openings.len() as isize);
                }
                continue;
            }
            node = next;
            at += 1;
            if self.trie.nodes[node as usize].out != NONE {
                return Ok(Stop { node, at, is_hit: true });
            }
        }
        Ok(Stop { node, at, is_hit: false })
    }

    /// Searches for a pattern that begins at `from` or later; below 0 is before the new bytes.
    #[inline]
    fn search(&self, run: Run<'_>, mut from: isize) -> Stop {
        while let Some((node, at)) = self.opening(run, from) {
            if self.trie.nodes[node as usize].out != NONE {
                return Stop { node, at, is_hit: true };
            }
            match self.walk(run, node, at) {
                Ok(stop) => return stop,
                Err(place) => from = place,
            }
        }
        Stop { node: self.remainder(run), at: run.bytes.len(), is_hit: false }
    }

    /// The next beginning, as a node and where it has been read.
    #[inline(always)]
    fn opening(&self, run: Run<'_>, from: isize) -> Option<(u32, usize)> {
        let Ok(at) = usize::try_from(from) else { return self.early_opening(run, from) };
        let (node, at) = self.openings.find(run.bytes, at)?;
        Some((node, at + self.openings.len()))
    }

    /// The same, from before the new bytes on.
    #[cold]
    fn early_opening(&self, run: Run<'_>, from: isize) -> Option<(u32, usize)> {
        let len = self.openings.len();
        let (seam, before, read) = self.seam(run);
        let first = before.saturating_sub(from.unsigned_abs());
        for at in first..before {
            let begin = seam[..read].get(at..at + len)?;
            let node = self.openings.node(begin);
            if node != NONE {
                return Some((node, at + len - before));
            }
        }
        self.opening(run, 0)
    }

    /// The last bytes before the new ones and the first new ones, folded; how many are before, and
    /// how many there are.
    fn seam(&self, run: Run<'_>) -> ([u8; 2 * GRAM_MAX], usize, usize) {
        let reach = self.openings.len() - 1;
        let known = self.trie.string(run.start);
        let before = &known[known.len().saturating_sub(reach)..];
        let mut seam = [0; 2 * GRAM_MAX];
        seam[..before.len()].copy_from_slice(before);
        let new = run.bytes.iter().take(reach);
        let read = before.len() + new.len();
        for (to, byte) in seam[before.len()..].iter_mut().zip(new) {
            *to = self.fold(*byte);
        }
        (seam, before.len(), read)
    }

    /// The state at the end where it is shorter than an opening.
    fn remainder(&self, run: Run<'_>) -> u32 {
        let reach = self.openings.len() - 1;
        let mut last = [0; GRAM_MAX];
        let Some(from) = run.bytes.len().checked_sub(reach) else {
            let (seam, _, read) = self.seam(run);
            return self.trie.longest_suffix(&seam[read.saturating_sub(reach)..read]);
        };
        for (to, byte) in last.iter_mut().zip(&run.bytes[from..]) {
            *to = self.fold(*byte);
        }
        self.trie.longest_suffix(&last[..reach])
    }

    /// What it takes, bytes.
    pub(super) fn memory(&self) -> usize {
        self.trie.memory() + self.openings.memory()
    }
}
