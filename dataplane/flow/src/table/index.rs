//! From hashes to entries: linear hashing (W. Litwin, "Linear hashing: a new tool for file and
//! table addressing", VLDB 1980) over lines of eight slots.
//!
//! The number of buckets grows by one at a time: bucket `n` takes over the entries of bucket `n -
//! base` with the bit `base` in their hash, the largest power of two not above `n`. Nothing else
//! moves, so no insertion does more than two splits of at most [`CHAIN_MAX`] lines each, and slots
//! hold all bits of the hash that splitting needs, so that it touches no record.

use zerocopy::FromZeros;

use crate::table::line::{IMPLIED_BITS, Line, SLOTS, Tag};

/// Most lines that one bucket may have. Such a chain has 48 keys, where at most 13 are expected:
/// less than once in 10^12 buckets, unless the seed is known to an attacker.
pub const CHAIN_MAX: usize = 6;

/// Buckets of an empty index: their numbers imply the low bits of a hash.
const BUCKETS_MIN: u32 = 1 << IMPLIED_BITS;

/// Splits of one insertion at most: one keeps the load when a key comes, one makes up for a line
/// of overflow.
const SPLITS_MAX: usize = 2;

/// Splits between the fetching of a line and its use.
const SPLITS_AHEAD: u32 = 4;

/// Lines of a segment: 1 MB of address space. Memory is only touched as lines are added.
const SEGMENT: usize = 1 << 14;

/// Lines that never move.
#[derive(Default)]
struct Lines {
    /// Each but the last has [`SEGMENT`] lines, and none more capacity than at its begin.
    segments: Vec<Vec<Line>>,
    len: u32,
}

impl Lines {
    #[inline]
    fn get(&self, at: u32) -> &Line {
        &self.segments[at as usize / SEGMENT][at as usize % SEGMENT]
    }

    #[inline]
    fn get_mut(&mut self, at: u32) -> &mut Line {
        &mut self.segments[at as usize / SEGMENT][at as usize % SEGMENT]
    }

    /// One more line, an empty one: its number.
    fn push(&mut self) -> u32 {
        let at = self.len;
        if (at as usize).is_multiple_of(SEGMENT) {
            self.segments.push(Vec::with_capacity(SEGMENT));
        }
        self.segments[at as usize / SEGMENT].push(Line::new_zeroed());
        self.len += 1;
        at
    }

    fn memory_bytes(&self) -> usize {
        self.len as usize * size_of::<Line>() + self.segments.capacity() * size_of::<Vec<Line>>()
    }
}

/// Where a line is: a bucket's first, or one of its overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Bucket(u32),
    Overflow(u32),
}

/// The lines of a bucket in their order.
struct Chain {
    lines: [At; CHAIN_MAX],
    len: usize,
}

impl Chain {
    fn last(&self) -> At {
        self.lines[self.len - 1]
    }
}

/// Entries between two buckets.
struct Gathered {
    entries: [(Tag, u32); CHAIN_MAX * SLOTS],
    len: usize,
}

impl Default for Gathered {
    fn default() -> Gathered {
        Gathered { entries: [(Tag::of(0), 0); CHAIN_MAX * SLOTS], len: 0 }
    }
}

impl Gathered {
    #[inline]
    fn push(&mut self, tag: Tag, entry: u32) {
        self.entries[self.len] = (tag, entry);
        self.len += 1;
    }

    fn used(&self) -> &[(Tag, u32)] {
        &self.entries[..self.len]
    }
}

/// Slots of a line.
pub const LINE_SLOTS: u64 = SLOTS as u64;

/// How the index stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// First lines of buckets.
    pub buckets: u32,
    /// Lines of overflow, those that wait to be used included.
    pub overflow: u32,
    /// The waiting ones.
    pub overflow_free: u32,
    /// Slots in use: a session has one, or two where it has a second key.
    pub slots_used: u32,
    /// Lines of the longest chain ever.
    pub chain_max: u32,
    /// Entries that went from one bucket to another when it was split, since the beginning.
    pub moved: u64,
    /// Insertions refused because a chain was too long or no line was left.
    pub refused_full: u64,
}

/// See the module.
pub struct Index {
    buckets: Lines,
    overflow: Lines,
    /// First of the unused overflow lines, linked by their links.
    free: Option<u32>,
    /// Keys for two lines: above that, a bucket is split.
    keys_per_two_lines: u32,
    lines_max: u32,
    load: Load,
}

/// Lines that `keys_max` keys may take. A 64th more than they need at this load, as overflow comes
/// and goes; and the first buckets.
fn lines_max(keys_max: u32, keys_per_two_lines: u32) -> u32 {
    let needed = (u64::from(keys_max) * 2).div_ceil(u64::from(keys_per_two_lines));
    (needed + needed / 64) as u32 + 2 * BUCKETS_MIN
}

impl Index {
    pub fn new(keys_max: u32, keys_per_two_lines: u32) -> Index {
        let mut buckets = Lines::default();
        (0..BUCKETS_MIN).for_each(|_| _ = buckets.push());
        Index {
            buckets,
            overflow: Lines::default(),
            free: None,
            keys_per_two_lines,
            lines_max: lines_max(keys_max, keys_per_two_lines),
            load: Load { buckets: BUCKETS_MIN, chain_max: 1, ..Load::default() },
        }
    }

    pub fn load(&self) -> Load {
        self.load
    }

    pub fn memory_bytes(&self) -> usize {
        self.buckets.memory_bytes() + self.overflow.memory_bytes()
    }

    pub fn memory_max_bytes(&self) -> usize {
        // The lists of segments, of two kinds of lines, double when they are full, and begin with
        // four.
        let segments = (self.lines_max as usize).div_ceil(SEGMENT) + 1;
        self.lines_max as usize * size_of::<Line>() + (segments * 2 + 8) * size_of::<Vec<Line>>()
    }

    /// The bucket of a hash.
    #[inline]
    fn bucket_of(&self, hash: u32) -> u32 {
        let base_bits = self.buckets.len.ilog2();
        let wide = hash & ((2 << base_bits) - 1);
        if wide < self.buckets.len { wide } else { hash & ((1 << base_bits) - 1) }
    }

    /// The first line where a hash may be.
    #[inline]
    pub fn first(&self, hash: u32) -> &Line {
        self.buckets.get(self.bucket_of(hash))
    }

    /// The line that this one continues in.
    #[inline]
    pub fn next(&self, line: &Line) -> Option<&Line> {
        line.link().map(|next| self.overflow.get(next))
    }

    /// The first entry of this hash that `is_it`.
    #[inline]
    pub fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut line = self.first(hash);
        loop {
            for slot in line.matches(Tag::of(hash)) {
                if is_it(line.entry(slot)) {
                    return Some(line.entry(slot));
                }
            }
            line = self.next(line)?;
        }
    }

    /// Adds an entry. Says whether there was room.
    pub fn insert(&mut self, hash: u32, entry: u32) -> bool {
        for _ in 0..SPLITS_MAX {
            if !self.is_loaded() {
                break;
            }
            self.split();
        }
        let done = self.append(self.bucket_of(hash), Tag::of(hash), entry);
        self.load.slots_used += u32::from(done);
        self.load.refused_full += u64::from(!done);
        done
    }

    /// Takes an entry out. Says whether it was there.
    pub fn remove(&mut self, hash: u32, entry: u32) -> bool {
        let chain = self.chain(self.bucket_of(hash));
        let found = chain.lines[..chain.len].iter().find_map(|at| {
            let line = self.line(*at);
            let slot = line.matches(Tag::of(hash)).find(|slot| line.entry(*slot) == entry)?;
            Some((*at, slot))
        });
        let Some((at, slot)) = found else { return false };
        // The chain's last entry takes the place, so that there are no gaps.
        let last = chain.last();
        if let Some((tag, moved)) = self.line_mut(last).pop()
            && !(at == last && slot == self.line(last).len())
        {
            self.line_mut(at).set(slot, tag, moved);
        }
        if let (0, At::Overflow(number)) = (self.line(last).len(), last) {
            self.line_mut(chain.lines[chain.len - 2]).set_link(None);
            self.release(number);
        }
        self.load.slots_used -= 1;
        true
    }

    fn is_loaded(&self) -> bool {
        let lines = self.buckets.len + self.overflow.len;
        let room = u64::from(lines) * u64::from(self.keys_per_two_lines);
        (u64::from(self.load.slots_used) + 1) * 2 > room && lines < self.lines_max
    }

    /// Makes one bucket more, out of half of another.
    fn split(&mut self) {
        let new = self.buckets.push();
        let bit = 1 << new.ilog2();
        self.fetch_ahead(new - bit);
        let chain = self.chain(new - bit);
        let mut halves = [Gathered::default(), Gathered::default()];
        for at in &chain.lines[..chain.len] {
            for (tag, entry) in self.line_mut(*at).drain() {
                halves[usize::from(tag.has(bit))].push(tag, entry);
            }
            self.line_mut(*at).set_link(None);
            if let At::Overflow(number) = at {
                self.release(*number);
            }
        }
        self.load.buckets += 1;
        self.load.moved += halves[1].len as u64;
        self.refill(new - bit, &halves[0]);
        self.refill(new, &halves[1]);
    }

    /// Puts entries into an empty bucket.
    fn refill(&mut self, bucket: u32, entries: &Gathered) {
        let mut at = At::Bucket(bucket);
        for (n, some) in entries.used().chunks(SLOTS).enumerate() {
            if n > 0 {
                // Two chains need no more overflow for the same entries than the one had.
                let Some(number) = self.acquire() else { return };
                self.line_mut(at).set_link(Some(number));
                at = At::Overflow(number);
            }
            let line = self.line_mut(at);
            some.iter().for_each(|(tag, entry)| line.push(*tag, *entry));
        }
    }

    /// Buckets are split in order, so the lines of the next splits can be prefetched.
    fn fetch_ahead(&self, split: u32) {
        self.buckets.get(split + 2 * SPLITS_AHEAD).prefetch();
        if let Some(more) = self.next(self.buckets.get(split + SPLITS_AHEAD)) {
            more.prefetch();
        }
    }

    /// Adds an entry at the end of a chain. Says whether there was room.
    fn append(&mut self, bucket: u32, tag: Tag, entry: u32) -> bool {
        let (mut last, mut lines) = (At::Bucket(bucket), 1);
        while let Some(number) = self.line(last).link() {
            (last, lines) = (At::Overflow(number), lines + 1);
        }
        if self.line(last).len() < SLOTS {
            self.line_mut(last).push(tag, entry);
            return true;
        }
        if lines == CHAIN_MAX {
            return false;
        }
        let Some(number) = self.acquire() else { return false };
        self.line_mut(last).set_link(Some(number));
        self.overflow.get_mut(number).push(tag, entry);
        self.load.chain_max = self.load.chain_max.max(lines as u32 + 1);
        true
    }

    /// An empty line of overflow.
    fn acquire(&mut self) -> Option<u32> {
        if let Some(number) = self.free {
            let line = self.overflow.get_mut(number);
            self.free = line.link();
            line.set_link(None);
            self.load.overflow_free -= 1;
            return Some(number);
        }
        let lines = self.buckets.len + self.overflow.len;
        (lines < self.lines_max).then(|| {
            self.load.overflow += 1;
            self.overflow.push()
        })
    }

    fn release(&mut self, number: u32) {
        let free = self.free.replace(number);
        self.overflow.get_mut(number).set_link(free);
        self.load.overflow_free += 1;
    }

    fn chain(&self, bucket: u32) -> Chain {
        let mut chain = Chain { lines: [At::Bucket(bucket); CHAIN_MAX], len: 1 };
        let mut line = self.buckets.get(bucket);
        while let Some(number) = line.link() {
            chain.lines[chain.len] = At::Overflow(number);
            chain.len += 1;
            line = self.overflow.get(number);
        }
        chain
    }

    fn line(&self, at: At) -> &Line {
        match at {
            At::Bucket(number) => self.buckets.get(number),
            At::Overflow(number) => self.overflow.get(number),
        }
    }

    fn line_mut(&mut self, at: At) -> &mut Line {
        match at {
            At::Bucket(number) => self.buckets.get_mut(number),
            At::Overflow(number) => self.overflow.get_mut(number),
        }
    }
}
