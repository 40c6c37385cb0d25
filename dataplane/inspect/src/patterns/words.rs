//! Words in a stream, leftmost and longest, as needed to replace them.

use super::machine::{Machine, Run};
use super::{Pattern, PatternError, check};

/// Words of one kind: with or without regard to case.
///
/// Of words that overlap, the one that begins first is found; of those that begin together, the
/// longest; the search goes on behind it. What is found does not depend on how the stream is cut.
#[derive(Debug)]
pub struct Words {
    machine: Machine,
    lens: Vec<u32>,
}

/// How far the search for words in a stream has come. Default: at the beginning.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seek {
    node: u32,
    best: Option<Found>,
}

/// A word that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub word: usize,
    /// Its length, bytes.
    pub len: usize,
    /// Bytes that were read behind it until it was certain: from its end on they are to be read
    /// again.
    pub back: usize,
}

impl Words {
    /// For these words.
    ///
    /// # Errors
    /// A word is empty or too long, or they are too many.
    pub fn new(words: &[Vec<u8>], nocase: bool) -> Result<Words, PatternError> {
        let patterns: Vec<Pattern> =
            words.iter().map(|bytes| Pattern { bytes: bytes.clone(), nocase }).collect();
        check(&patterns)?;
        let machine = Machine::new(patterns.iter().enumerate(), nocase)?;
        Ok(Words { machine, lens: words.iter().map(|word| word.len() as u32).collect() })
    }

    /// What they take, bytes.
    pub fn memory(&self) -> usize {
        self.machine.memory()
    }

    /// Looks on in `bytes`, which follow what was looked at before, to the first word that is
    /// certain: reports how many bytes were read for that. Without a word all were.
    #[inline]
    pub fn next(&self, seek: &mut Seek, bytes: &[u8]) -> (usize, Option<Found>) {
        let mut at = 0;
        while at < bytes.len() {
            let rest = match &mut seek.best {
                None => &bytes[at..],
                Some(best) => {
                    best.back += 1;
                    &bytes[at..=at]
                }
            };
            let run = Run { bytes: rest, start: seek.node };
            let stop = self.machine.seek(run, seek.node, 0);
            at += stop.at;
            seek.node = stop.node;
            if stop.is_hit {
                self.take_better(seek);
            }
            if let Some(found) = self.certain(seek) {
                *seek = Seek::default();
                return (at, Some(found));
            }
        }
        (at, None)
    }

    /// No more is waited for: the word that might have become a longer one, if there is one. What
    /// is behind it is to be read again.
    pub fn finish(&self, seek: &mut Seek) -> Option<Found> {
        let best = seek.best?;
        *seek = Seek::default();
        Some(best)
    }

    /// How many of the bytes that were read last may be the beginning of a word, or a word that is
    /// not certain yet.
    #[inline]
    pub fn pending(&self, seek: &Seek) -> usize {
        self.string(seek.node).len()
    }

    /// A number for what is pending, to be remembered; 0 for nothing.
    pub fn mark(&self, seek: &Seek) -> u32 {
        seek.node
    }

    /// What was pending when this mark was made; letters are small where case does not matter.
    pub fn string(&self, mark: u32) -> &[u8] {
        self.machine.trie().string(self.machine.checked(mark))
    }

    /// The longest word that ends here, if it begins no later than what was found before.
    fn take_better(&self, seek: &mut Seek) {
        let longest = self.machine.ending(seek.node).next().and_then(|same| same.first());
        let Some(word) = longest.map(|word| *word as usize) else { return };
        let len = self.lens[word] as usize;
        if seek.best.is_none_or(|best| len >= best.len + best.back) {
            seek.best = Some(Found { word, len, back: 0 });
        }
    }

    /// The word found, if none that begins there or earlier is still being read.
    #[inline]
    fn certain(&self, seek: &Seek) -> Option<Found> {
        let best = seek.best?;
        let read = self.pending(seek);
        (read < best.len + best.back || self.machine.trie().is_leaf(seek.node)).then_some(best)
    }
}
