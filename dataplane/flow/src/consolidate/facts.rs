//! Facts about a packet from the tests on its path, and the tests that they decide.

use crate::ast::{Base, Word};

/// Most negative facts kept of one word; dropped ones only cost a repeated test.
const NOT_MAX: usize = 24;

/// The facts about one word of four bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WordFacts {
    base: Base,
    at: u16,
    /// Bits of known value, and their values.
    known: (u32, u32),
    /// Masks under which the value is in a range: mask, smallest, largest.
    within: Vec<(u32, u32, u32)>,
    /// Tests that failed.
    not: Vec<Word>,
}

impl WordFacts {
    fn new(base: Base, at: u16) -> WordFacts {
        WordFacts { base, at, known: (0, 0), within: Vec::new(), not: Vec::new() }
    }

    /// Whether a value of which this is known passes, if that is clear.
    fn value_passes(&self, word: &Word) -> Option<bool> {
        let (known, value) = self.known;
        let smallest = value & word.mask;
        let largest = smallest | (word.mask & !known);
        let single = word.lo == word.hi;
        let clash = (value ^ word.lo) & known & word.mask | word.lo & !word.mask;
        if word.lo > word.hi || word.hi < smallest || word.lo > largest || (single && clash != 0) {
            return Some(false);
        }
        if word.lo <= smallest && largest <= word.hi {
            return Some(true);
        }
        let same = self.within.iter().find(|(mask, ..)| *mask == word.mask);
        let (_, lo, hi) = same?;
        match () {
            () if *hi < word.lo || word.hi < *lo => Some(false),
            () if word.lo <= *lo && *hi <= word.hi => Some(true),
            () => None,
        }
    }

    fn learn(&mut self, word: &Word) {
        // Bits above the highest one in which the bounds differ are the same in all values between.
        let differing = word.lo ^ word.hi;
        let same = !u32::MAX.checked_shr(differing.leading_zeros()).unwrap_or(0) & word.mask;
        self.known.0 |= same;
        self.known.1 |= word.lo & same;
        if differing != 0 {
            match self.within.binary_search_by_key(&word.mask, |range| range.0) {
                Ok(at) => {
                    let (_, lo, hi) = &mut self.within[at];
                    (*lo, *hi) = ((*lo).max(word.lo), (*hi).min(word.hi));
                }
                Err(at) => self.within.insert(at, (word.mask, word.lo, word.hi)),
            }
        }
        let not = std::mem::take(&mut self.not);
        self.not = not.into_iter().filter(|no| self.value_passes(no) != Some(false)).collect();
    }

    fn learn_not(&mut self, word: &Word) {
        let key = |word: &Word| (word.mask, word.lo, word.hi);
        if let Err(at) = self.not.binary_search_by_key(&key(word), key)
            && self.not.len() < NOT_MAX
        {
            self.not.insert(at, *word);
        }
    }
}

/// Facts of a path through the tests, in a form that does not depend on their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Facts {
    words: Vec<WordFacts>,
    /// By base: bytes that exist for certain.
    len: [u32; 3],
}

impl Facts {
    /// The result of a test, if the facts decide it.
    pub(super) fn decide(&self, word: &Word) -> Option<bool> {
        let unknown;
        let facts = match self.find(word.base, word.at) {
            Ok(at) => &self.words[at],
            Err(_) => {
                unknown = WordFacts::new(word.base, word.at);
                &unknown
            }
        };
        match facts.value_passes(word) {
            Some(false) => Some(false),
            Some(true) if self.len[word.base as usize] >= end(word) => Some(true),
            _ => self.contradicts(facts, word).then_some(false),
        }
    }

    /// Whether a test that failed would have held if this one did.
    fn contradicts(&self, facts: &WordFacts, word: &Word) -> bool {
        if facts.not.is_empty() {
            return false;
        }
        let mut with = facts.clone();
        with.not.clear();
        with.learn(word);
        let len = self.len[word.base as usize].max(end(word));
        facts.not.iter().any(|no| end(no) <= len && with.value_passes(no) == Some(true))
    }

    fn find(&self, base: Base, at: u16) -> Result<usize, usize> {
        self.words.binary_search_by_key(&(base, at), |facts| (facts.base, facts.at))
    }

    /// The facts after a test.
    pub(super) fn with(&self, word: &Word, holds: bool) -> Facts {
        let mut facts = self.clone();
        let at = facts.find(word.base, word.at).unwrap_or_else(|at| {
            facts.words.insert(at, WordFacts::new(word.base, word.at));
            at
        });
        if holds {
            facts.words[at].learn(word);
            let len = &mut facts.len[word.base as usize];
            *len = (*len).max(end(word));
        } else {
            facts.words[at].learn_not(word);
        }
        facts
    }

    /// Only the facts that matter for tests of the words selected by `matters`.
    pub(super) fn about(&self, matters: impl Fn(Base, u16) -> bool) -> Facts {
        let words: Vec<WordFacts> =
            self.words.iter().filter(|facts| matters(facts.base, facts.at)).cloned().collect();
        let bases = [Base::Frame, Base::Network, Base::Transport];
        let len = bases.map(|base| {
            let any = words.iter().any(|facts| facts.base == base);
            if any { self.len[base as usize] } else { 0 }
        });
        Facts { words, len }
    }

    /// Memory of the facts, in words.
    pub(super) fn weight(&self) -> usize {
        self.words.iter().map(|facts| 4 + facts.not.len() * 4 + facts.within.len() * 3).sum()
    }
}

/// First byte after those of a test.
fn end(word: &Word) -> u32 {
    u32::from(word.at) + word.needed_bytes() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::PacketView;
    use proptest::prelude::*;

    fn word() -> impl Strategy<Value = Word> {
        const MASKS: &[u32] =
            &[0xffff_0000, 0xffff, 0xff00_0000, 0x0100_0000, 0x0003_0000, u32::MAX];
        let value = proptest::sample::select(&[0, 0x0001_0000, 0x0101_0001, 0x0303_0003, 7][..]);
        (proptest::sample::select(MASKS), value.clone(), value, any::<bool>()).prop_map(
            |(mask, a, b, equal)| {
                let (lo, hi) = (a.min(b) & mask, a.max(b) & mask);
                let hi = if equal { lo } else { hi };
                Word { base: Base::Frame, at: 0, mask, lo, hi }
            },
        )
    }

    proptest! {
        /// A fact implied by other facts holds for every packet that they hold for.
        #[test]
        fn what_is_decided_is_so(
            tests in proptest::collection::vec(word(), 1..8),
            asked in word(),
            bytes in proptest::collection::vec(0..4_u8, 0..6),
        ) {
            let view = PacketView::from_frame(&bytes);
            let mut facts = Facts::default();
            for test in &tests {
                let holds = view.passes(test);
                if let Some(decided) = facts.decide(test) {
                    prop_assert_eq!(decided, holds);
                }
                facts = facts.with(test, holds);
            }
            if let Some(decided) = facts.decide(&asked) {
                prop_assert_eq!(decided, view.passes(&asked), "{:?} {:?}", facts, asked);
            }
        }
    }

    #[test]
    fn one_excludes_another() {
        let equal = |mask, value| Word::equal(Base::Frame, 12, mask, value);
        let ip = equal(0xffff_0000, 0x0800_0000);
        let facts = Facts::default().with(&ip, true);
        assert_eq!(facts.decide(&equal(0xffff_0000, 0x0806_0000)), Some(false));
        assert_eq!(facts.decide(&equal(0xff00_0000, 0x0800_0000)), Some(true));
        let facts = Facts::default().with(&ip, false);
        assert_eq!(facts.decide(&equal(0xffff_0000, 0x0800_0000)), Some(false));
        assert_eq!(facts.decide(&equal(0xffff_ffff, 0x0800_0001)), Some(false));
        assert_eq!(facts.decide(&equal(0xff00_0000, 0x0800_0000)), None);
        let ports = |lo, hi| Word { base: Base::Transport, at: 0, mask: 0xffff, lo, hi };
        let facts = Facts::default().with(&ports(1024, 65535), true);
        assert_eq!(facts.decide(&ports(80, 80)), Some(false));
        assert_eq!(facts.decide(&ports(1000, 65535)), Some(true));
    }
}
