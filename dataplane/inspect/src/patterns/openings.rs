//! Where a pattern may begin: most of what flows is passed over without a step of the automaton.

use aho_corasick::packed::{Config, MatchKind, Searcher};

use super::trie::{NONE, Trie};

/// Bytes of a pattern's beginning that are looked at together.
pub(super) const GRAM_MAX: usize = 4;
/// So few beginnings are looked for by vectors of bytes, by this many of their bytes; more, upper
/// and lower case counted, would stop it too often.
const FEW: usize = 128;
const FEW_LEN: usize = 3;
/// Slots of the bitmap per beginning: a 32nd of what flows at random is looked at closer.
const SLOTS: usize = 32;

/// The first [`Openings::len`] bytes of all patterns.
#[derive(Debug)]
pub(super) struct Openings {
    len: usize,
    /// Of a four-byte word, those that count.
    mask: u32,
    is_folded: bool,
    /// Set in both cases of a letter (and in some other bytes).
    case: u32,
    bitmap: Vec<u64>,
    bitmap_shift: u32,
    /// Beginning and node, by hash.
    table: Vec<(u32, u32)>,
    table_shift: u32,
    few: Option<Searcher>,
}

fn hash(gram: u32) -> u32 {
    // 2^32 divided by the golden ratio: Knuth, The Art of Computer Programming 3, section 6.4.
    gram.wrapping_mul(0x9E37_79B1)
}

/// Up to four bytes in a word, the first one lowest.
#[inline(always)]
fn gram(bytes: &[u8]) -> u32 {
    match bytes.first_chunk() {
        Some(word) => u32::from_le_bytes(*word),
        None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)),
    }
}

/// The word with its ASCII letters small: bit 5 is set in those bytes that are from `A` to `Z`,
/// which the sums' highest bits show.
#[inline(always)]
fn to_lower(word: u32) -> u32 {
    const EACH: u32 = 0x0101_0101;
    let low = word & (0x7f * EACH);
    let from_a = low + (0x80 - u32::from(b'A')) * EACH;
    let above_z = low + (0x7f - u32::from(b'Z')) * EACH;
    word | ((from_a ^ above_z) & !word & (0x80 * EACH)) >> 2
}

impl Openings {
    /// Of all patterns in `trie`, none of which is shorter than `len`.
    pub(super) fn new(trie: &Trie, len: usize, is_folded: bool) -> Openings {
        let nodes = 0..trie.nodes.len() as u32;
        let begins: Vec<u32> =
            nodes.filter(|it| usize::from(trie.nodes[*it as usize].depth) == len).collect();
        let bits = (begins.len() * SLOTS).next_power_of_two().trailing_zeros().clamp(12, 18);
        let table_bits = (begins.len() * 4).next_power_of_two().trailing_zeros().max(1);
        let mut made = Openings {
            len,
            mask: u32::MAX >> (8 * (GRAM_MAX - len)),
            is_folded,
            case: if is_folded { 0x2020_2020 } else { 0 },
            bitmap: vec![0; 1 << (bits - 6)],
            bitmap_shift: 32 - bits,
            table: vec![(0, NONE); 1 << table_bits],
            table_shift: 32 - table_bits,
            few: few(begins.iter().map(|it| trie.string(*it)), is_folded),
        };
        for node in begins {
            made.insert(gram(trie.string(node)), node);
        }
        made
    }

    /// Bytes of a beginning.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn insert(&mut self, gram: u32, node: u32) {
        let slot = self.slot(gram);
        self.bitmap[slot / 64] |= 1 << (slot % 64);
        let last = self.table.len() - 1;
        let mut at = (hash(gram) >> self.table_shift) as usize;
        while self.table[at].1 != NONE {
            at = (at + 1) & last;
        }
        self.table[at] = (gram, node);
    }

    #[inline(always)]
    fn slot(&self, gram: u32) -> usize {
        (hash((gram | self.case) & self.mask) >> self.bitmap_shift) as usize
    }

    #[inline(always)]
    fn is_possible(&self, gram: u32) -> bool {
        let slot = self.slot(gram);
        self.bitmap[slot / 64] >> (slot % 64) & 1 != 0
    }

    /// The node of the beginning that `bytes`, as many as it has or more, begin with, or [`NONE`].
    #[inline(always)]
    pub(super) fn node(&self, bytes: &[u8]) -> u32 {
        let word = gram(bytes) & self.mask;
        let gram = if self.is_folded { to_lower(word) } else { word };
        let last = self.table.len() - 1;
        let mut at = (hash(gram) >> self.table_shift) as usize;
        loop {
            let (known, node) = self.table[at];
            if node == NONE || known == gram {
                return node;
            }
            at = (at + 1) & last;
        }
    }

    /// The first beginning in `bytes` from `at` on, and where it stands.
    #[inline(always)]
    pub(super) fn find(&self, bytes: &[u8], mut at: usize) -> Option<(u32, usize)> {
        loop {
            at = self.next(bytes, at)?;
            let rest = &bytes[at..];
            if rest.len() < self.len {
                return None;
            }
            let node = self.node(rest);
            if node != NONE {
                return Some((node, at));
            }
            at += 1;
        }
    }

    /// The first place in `bytes` from `at` on where a beginning may stand.
    #[inline(always)]
    fn next(&self, bytes: &[u8], at: usize) -> Option<usize> {
        match &self.few {
            Some(few) => {
                let span = at.min(bytes.len())..bytes.len();
                few.find_in(bytes, span.into()).map(|found| found.start())
            }
            None => self.next_possible(bytes, at),
        }
    }

    /// What it takes, bytes.
    pub(super) fn memory(&self) -> usize {
        let few = self.few.as_ref().map_or(0, Searcher::memory_usage);
        size_of_val(&self.bitmap[..]) + size_of_val(&self.table[..]) + few
    }

    #[inline(always)]
    fn next_possible(&self, bytes: &[u8], mut at: usize) -> Option<usize> {
        // Four places from one word: they wait for nothing but the cache.
        while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            let word = u64::from_le_bytes(*word);
            let are = [0, 8, 16, 24].map(|shift| self.is_possible((word >> shift) as u32));
            if are[0] | are[1] | are[2] | are[3] {
                return Some(at + are.iter().take_while(|is| !**is).count());
            }
            at += are.len();
        }
        let last = bytes.len().checked_sub(self.len)?;
        (at..=last).find(|at| self.is_possible(gram(&bytes[*at..at + self.len])))
    }
}

/// A search for few beginnings; `None` if they are many.
///
/// The search sorts its patterns into eight or sixteen buckets, by the number of the first one that
/// differs in more than case: one form of each comes first, so that they fall into different ones.
/// In groups of eight forms they fell into one, and four words took 1.4 ns a byte instead of 0.1.
fn few<'a>(begins: impl Iterator<Item = &'a [u8]>, is_folded: bool) -> Option<Searcher> {
    let (mut firsts, mut others) = (Vec::new(), Vec::new());
    let mut before: &[u8] = &[];
    for begin in begins {
        let begin = &begin[..begin.len().min(FEW_LEN)];
        if begin != before {
            let mut forms = forms(begin, is_folded).into_iter();
            firsts.extend(forms.next());
            others.extend(forms);
        }
        if firsts.len() + others.len() > FEW {
            return None;
        }
        before = begin;
    }
    firsts.append(&mut others);
    let mut config = Config::new();
    config.match_kind(MatchKind::LeftmostFirst).heuristic_pattern_limits(false);
    config.builder().extend(&firsts).build()
}

/// `bytes`, with all their letters in both cases if they are folded.
fn forms(bytes: &[u8], is_folded: bool) -> Vec<Vec<u8>> {
    bytes.iter().fold(vec![Vec::new()], |forms, byte| {
        let upper = byte.to_ascii_uppercase();
        let cases = if is_folded && upper != *byte { vec![*byte, upper] } else { vec![*byte] };
        let longer = |form: &Vec<u8>, case: u8| [form.as_slice(), &[case]].concat();
        forms.iter().flat_map(|form| cases.iter().map(|case| longer(form, *case))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_folded_as_bytes_are() {
        for byte in 0..=u8::MAX {
            for word in [[byte, b'A', 0xff, b'z'], [b'Z', byte, byte, 0xc1]] {
                let lower = word.map(|it| it.to_ascii_lowercase());
                assert_eq!(to_lower(u32::from_le_bytes(word)), u32::from_le_bytes(lower));
            }
        }
    }

    #[test]
    fn forms_have_both_cases() {
        assert_eq!(forms(b"a1b", true), [b"a1b", b"a1B", b"A1b", b"A1B"]);
        assert_eq!(forms(b"ab", false), [b"ab"]);
    }
}
