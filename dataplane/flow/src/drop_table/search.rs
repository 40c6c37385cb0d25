//! A search tree over the boxes of a long list of rules: a few tests find the few rules that may
//! hold.
//!
//! The tree need not be exact: the tests of the rules that it finds follow. A rule with boxes on
//! both sides of a test is on both. A list stays as it is if that would copy too many rules.

use crate::ast::{Base, Word};
use crate::boxes::Entry;
use crate::key::PORT_ABSENT;
use crate::program::IpProgram;

use super::facts::Facts;

/// Rules that are tested one by one.
const SHORT: usize = 4;
/// Bounds that are tried of each field.
const TRIED: usize = 8;
/// The fields of a [`Key`](crate::Key), and the shift of each in its word.
const FIELDS: [(Base, u16, u32); 4] = [
    (Base::Network, 12, u32::MAX),
    (Base::Network, 16, u32::MAX),
    (Base::Transport, 0, 0xffff_0000),
    (Base::Transport, 0, 0x0000_ffff),
];
/// Where a word has the protocol.
const PROTOCOL: (Base, u16, u32) = (Base::Network, 8, 0x00ff_0000);
/// Kinds of fragments that a box distinguishes; whole packets are the first.
const FRAGMENTS: u32 = 4;

/// A test of a search tree, and the search behind it.
pub(super) struct Split<'a> {
    pub word: Word,
    pub yes: Search<'a>,
    pub no: Search<'a>,
}

/// Packets between bounds, and the boxes that they may be in.
#[derive(Clone)]
pub(super) struct Search<'a> {
    pub program: &'a IpProgram,
    /// Where each verdict leads.
    pub verdicts: (u32, u32),
    pub facts: Facts,
    lo: [u32; 4],
    hi: [u32; 4],
    /// Classes of protocols, a bit each.
    classes: u64,
    /// In the order of their rules.
    boxes: Vec<Entry>,
    /// How they are distinguished best, if they are many.
    by: Option<By>,
}

/// How packets are distinguished.
#[derive(Clone, Copy)]
enum By {
    /// A field: whether it is at most this.
    Field(usize, u32),
    /// The protocol: whether it is this one, the only one of its class.
    Protocol(u8, u8),
}

impl<'a> Search<'a> {
    /// All IPv4 packets that are no fragments.
    pub(super) fn new(program: &'a IpProgram, verdicts: (u32, u32), facts: Facts) -> Search<'a> {
        let finder = program.finder();
        let classes = finder.classes().iter().fold(0, |all, class| all | 1 << class);
        let (lo, hi) = ([0; 4], [u32::MAX, u32::MAX, PORT_ABSENT, PORT_ABSENT]);
        let (boxes, by) = (finder.boxes(), None);
        let mut search = Search { program, verdicts, facts, lo, hi, classes, boxes, by };
        search.narrow();
        search
    }

    /// The rules that may hold, in order.
    pub(super) fn orders(&self) -> Vec<u32> {
        let mut orders: Vec<u32> = self.boxes.iter().map(|entry| entry.order).collect();
        orders.dedup();
        orders
    }

    /// Whether the rules are few, or cannot be distinguished.
    pub(super) fn is_done(&self) -> bool {
        self.by.is_none()
    }

    /// The test that distinguishes most rules.
    pub(super) fn split(&self) -> Option<Split<'a>> {
        let by = self.by?;
        let (word, [yes, no]) = match by {
            By::Field(field, last) => {
                let (base, at, mask) = FIELDS[field];
                let word = Word { base, at, mask, lo: 0, hi: last << mask.trailing_zeros() };
                (word, self.halves(field, last, &word))
            }
            By::Protocol(protocol, class) => {
                let (base, at, mask) = PROTOCOL;
                let word = Word::equal(base, at, mask, u32::from(protocol) << 16);
                let (mut yes, mut no) = (self.clone(), self.clone());
                yes.facts.learn(&word);
                (yes.classes, no.classes) = (1 << class, self.classes & !(1 << class));
                (word, [yes, no])
            }
        };
        let [mut yes, mut no] = [yes, no];
        yes.narrow();
        no.narrow();
        Some(Split { word, yes, no })
    }

    fn halves(&self, field: usize, last: u32, word: &Word) -> [Search<'a>; 2] {
        let (mut lower, mut upper) = (self.clone(), self.clone());
        lower.hi[field] = last;
        upper.lo[field] = last + 1;
        lower.facts.learn(word);
        // The highest bit of a field is the highest of its word.
        let mask = word.mask;
        upper.facts.learn(&Word { lo: (last + 1) << mask.trailing_zeros(), hi: mask, ..*word });
        [lower, upper]
    }

    /// Drops boxes outside, and those behind one that holds every packet; determines the
    /// continuation.
    fn narrow(&mut self) {
        let (lo, hi, classes) = (self.lo, self.hi, self.classes);
        self.boxes.retain(|entry| meets(entry, &lo, &hi, classes));
        let holds_all = |entry: &Entry| {
            let inside = (0..4).all(|f| {
                let end = u64::from(entry.lo[f]) + u64::from(entry.span[f]);
                entry.lo[f] <= lo[f] && u64::from(hi[f]) <= end
            });
            inside && !entry.verify && classes & !classes_of(entry) == 0
        };
        if let Some(last) = self.boxes.iter().position(holds_all) {
            self.boxes.truncate(last + 1);
        }
        self.by = if self.boxes.len() > SHORT { self.best() } else { None };
    }

    fn best(&self) -> Option<By> {
        let count = self.boxes.len();
        let bounds = (0..4).flat_map(|field| self.bounds(field));
        let all = bounds.chain(self.protocols()).map(|by| (self.cost(by), by));
        // Fewer on either side, and not many on both.
        let helps = all.filter(|((longer, sum), _)| *longer < count && *sum <= count + count / 2);
        helps.min_by_key(|((longer, sum), _)| longer + sum).map(|(_, by)| by)
    }

    /// Boxes on the side that has more, and on both.
    fn cost(&self, by: By) -> (usize, usize) {
        let (mut yes, mut no) = (0, 0);
        for entry in &self.boxes {
            match by {
                By::Field(field, last) => {
                    let end = u64::from(entry.lo[field]) + u64::from(entry.span[field]);
                    yes += usize::from(entry.lo[field] <= last);
                    no += usize::from(end > u64::from(last));
                }
                By::Protocol(_, class) => {
                    let classes = classes_of(entry) & self.classes;
                    yes += usize::from(classes & 1 << class != 0);
                    no += usize::from(classes & !(1 << class) != 0);
                }
            }
        }
        (yes.max(no), yes + no)
    }

    /// Some bounds of a field that boxes begin or end at.
    fn bounds(&self, field: usize) -> Vec<By> {
        let (lo, hi) = (self.lo[field], self.hi[field]);
        let most = FIELDS[field].2 >> FIELDS[field].2.trailing_zeros();
        let ends = self.boxes.iter().flat_map(|entry| {
            [entry.lo[field].checked_sub(1), entry.lo[field].checked_add(entry.span[field])]
        });
        let inside = |last: &u32| lo <= *last && *last < hi.min(most);
        let mut ends: Vec<u32> = ends.flatten().filter(inside).collect();
        ends.sort_unstable();
        ends.dedup();
        let step = (ends.len() / TRIED).max(1);
        ends.iter().skip(step / 2).step_by(step).map(|last| By::Field(field, *last)).collect()
    }

    /// Protocols that are alone in their class.
    fn protocols(&self) -> Vec<By> {
        if self.classes.count_ones() < 2 {
            return Vec::new();
        }
        let classes = self.program.finder().classes();
        let mut first = [None; 64];
        let mut is_alone = [true; 64];
        for (protocol, class) in classes.iter().enumerate() {
            let class = usize::from(*class) % 64;
            is_alone[class] = first[class].is_none();
            first[class] = first[class].or(Some(protocol as u8));
        }
        let alone = (0..64_u8)
            .filter(|class| self.classes & 1 << class != 0 && is_alone[usize::from(*class)]);
        alone.filter_map(|class| Some(By::Protocol(first[usize::from(class)]?, class))).collect()
    }
}

/// The classes of protocols of a box, of whole packets.
fn classes_of(entry: &Entry) -> u64 {
    let classes = (0..64 / FRAGMENTS).filter(|class| entry.kinds >> (class * FRAGMENTS) & 1 == 1);
    classes.fold(0, |all, class| all | 1 << class)
}

/// Whether packets between these bounds may be in a box.
fn meets(entry: &Entry, lo: &[u32; 4], hi: &[u32; 4], classes: u64) -> bool {
    let inside = (0..4).all(|f| {
        let end = u64::from(entry.lo[f]) + u64::from(entry.span[f]);
        entry.lo[f] <= hi[f] && u64::from(lo[f]) <= end
    });
    inside && classes_of(entry) & classes != 0
}
