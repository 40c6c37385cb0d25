//! Caches and memory: what a line costs by how it is asked for.
//!
//! A *field* is so many lines, each of which names another, all in one random circle: a thread that
//! walks through it again and again finds nothing left of the last time in a cache that is smaller
//! than the field. What is measured is what the packet path meets: lines in `Vec`s, and as huge
//! pages the regions that frames and sessions live in.

use std::hint::black_box;

use thruway_packet::{cycles, prefetch_bytes};
use thruway_region::{HUGE_PAGE_LEN, Pages, Region};
use zerocopy::{Immutable, IntoBytes};

use super::error::CalibrateError;

/// Bytes of a line.
pub const LINE: usize = 64;

/// Lines that are asked for before the first of them is used: a batch's.
const AHEAD: usize = 32;

/// Lines that are copied at once: a long packet's.
const PACKET_LINES: usize = 24;

/// Eight words that start a line.
#[derive(Debug, Clone, Copy, Default, IntoBytes, Immutable)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// Lines that can be read and asked for.
pub trait Lines {
    /// The first word of a line.
    fn first(&self, line: usize) -> u64;
    /// Asks for a line.
    fn ask(&self, line: usize);
    /// Writes the first word of a line.
    fn set_first(&mut self, line: usize, word: u64);
}

/// Lines of the heap.
pub struct Heap(Vec<Line>);

impl Lines for Heap {
    #[inline(always)]
    fn first(&self, line: usize) -> u64 {
        self.0[line].0[0]
    }

    #[inline(always)]
    fn ask(&self, line: usize) {
        prefetch_bytes(self.0[line].as_bytes());
    }

    fn set_first(&mut self, line: usize, word: u64) {
        self.0[line].0[0] = word;
    }
}

/// Lines of a region, from the first huge page on that is whole.
pub struct InRegion {
    region: Region,
    base: usize,
}

impl InRegion {
    fn of(region: Region) -> InRegion {
        let address = region.as_ptr().addr().get();
        InRegion { base: address.next_multiple_of(HUGE_PAGE_LEN) - address, region }
    }
}

impl Lines for InRegion {
    #[inline(always)]
    fn first(&self, line: usize) -> u64 {
        self.region.bytes(self.base + LINE * line, 8).map_or(0, |bytes| bytes.read_word(0))
    }

    #[inline(always)]
    fn ask(&self, line: usize) {
        self.region.prefetch(self.base + LINE * line);
    }

    fn set_first(&mut self, line: usize, word: u64) {
        if let Ok(bytes) = self.region.bytes(self.base + LINE * line, 8) {
            bytes.write_word(0, word);
        }
    }
}

/// Lines in a random circle.
pub struct Field<L> {
    lines: L,
    /// In the order of the circle.
    order: Vec<u32>,
    /// How far the last walk came.
    at: usize,
}

impl Field<Heap> {
    /// Of the heap's pages.
    pub fn heap(bytes: usize) -> Field<Heap> {
        let count = count(bytes);
        Field::of(Heap(vec![Line::default(); count]), count)
    }

    /// Cycles per line copied from one half to the other, a packet at a time.
    pub fn copy(&mut self, lines: usize) -> f64 {
        let half = self.order.len() / 2;
        let (from, to) = self.lines.0.split_at_mut(half);
        let chunks = || (0..half / PACKET_LINES).map(|chunk| chunk * PACKET_LINES).cycle();
        let begin = cycles();
        let mut copied = 0;
        for at in chunks() {
            if copied >= lines {
                break;
            }
            to[at..at + PACKET_LINES].copy_from_slice(&from[at..at + PACKET_LINES]);
            copied += PACKET_LINES;
        }
        black_box(to);
        // The circle is broken now; only its order is used where fields are copied.
        per(begin, copied)
    }
}

impl Field<InRegion> {
    /// Of huge pages: reserved ones, or those that the kernel makes by itself when asked; or why
    /// there are none.
    ///
    /// # Errors
    /// When there is no memory at all.
    pub fn huge(bytes: usize) -> Result<Result<Field<InRegion>, String>, CalibrateError> {
        let count = count(bytes);
        let len = (count * LINE).next_multiple_of(HUGE_PAGE_LEN);
        let why = match Region::new(len, Pages::Huge) {
            Ok(region) => return Ok(Ok(Field::of(InRegion::of(region), count))),
            Err(why) => why,
        };
        let before = transparent();
        // One page more: the region may begin within one.
        let region = Region::new(len + HUGE_PAGE_LEN, Pages::Private)?;
        let field = Field::of(InRegion::of(region), count);
        let got = transparent().saturating_sub(before);
        if got >= len as u64 / 4 * 3 {
            return Ok(Ok(field));
        }
        Ok(Err(format!("{why}; and of transparent ones the kernel gave {} kB", got >> 10)))
    }
}

/// Lines of so many bytes: at least as many as a measurement needs.
fn count(bytes: usize) -> usize {
    (bytes / LINE).max(2 * PACKET_LINES)
}

/// Bytes of this process in transparent huge pages.
fn transparent() -> u64 {
    let all = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = all.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

impl<L: Lines> Field<L> {
    fn of(mut lines: L, count: usize) -> Field<L> {
        let order = shuffled(count);
        let next = order.iter().cycle().skip(1);
        for (line, next) in order.iter().zip(next) {
            lines.set_first(*line as usize, u64::from(*next));
        }
        Field { lines, order, at: 0 }
    }

    /// Lines.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Reads all lines, so that those that fit are in the caches.
    pub fn warm(&self) {
        let sum = |sum: u64, line: usize| sum.wrapping_add(self.lines.first(line));
        black_box((0..self.len()).fold(0, sum));
    }

    /// Cycles per line, each found in the line before it.
    pub fn dependent(&mut self, lines: usize) -> f64 {
        let mut at = self.at;
        let begin = cycles();
        for _ in 0..lines {
            at = self.lines.first(at) as usize;
        }
        self.at = black_box(at);
        per(begin, lines)
    }

    /// Cycles per line of known ones that lie anywhere, asked for a batch at a time.
    pub fn prefetched(&mut self, lines: usize) -> f64 {
        let whole = self.len() - self.len() % AHEAD;
        let mut from = self.at / AHEAD * AHEAD % whole;
        let (mut sum, mut done) = (0_u64, 0);
        let begin = cycles();
        while done < lines {
            let batch = &self.order[from..from + AHEAD];
            batch.iter().for_each(|line| self.lines.ask(*line as usize));
            for line in batch {
                sum = sum.wrapping_add(self.lines.first(*line as usize));
            }
            done += AHEAD;
            from += AHEAD;
            if from >= whole {
                from = 0;
            }
        }
        black_box(sum);
        self.at = from;
        per(begin, done)
    }

    /// Cycles per line, one after the other.
    pub fn stream(&mut self, lines: usize) -> f64 {
        let mut from = self.at % self.len();
        let (mut sum, mut done) = (0_u64, 0);
        let begin = cycles();
        while done < lines {
            let to = self.len().min(from + lines - done);
            for line in from..to {
                sum = sum.wrapping_add(self.lines.first(line));
            }
            done += to - from;
            from = if to == self.len() { 0 } else { to };
        }
        black_box(sum);
        self.at = from;
        per(begin, done)
    }
}

fn per(begin: u64, lines: usize) -> f64 {
    cycles().wrapping_sub(begin) as f64 / lines.max(1) as f64
}

/// The numbers up to `count` in random order, always the same.
fn shuffled(count: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for last in (1..count).rev() {
        // Xorshift (G. Marsaglia, 2003): random enough for a processor to guess wrong.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        order.swap(last, (random % (last as u64 + 1)) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked<L: Lines>(field: &Field<L>) -> usize {
        let mut seen = vec![false; field.len()];
        let mut at = 0;
        while !std::mem::replace(&mut seen[at], true) {
            at = field.lines.first(at) as usize;
        }
        seen.iter().filter(|seen| **seen).count()
    }

    #[test]
    fn every_line_is_on_one_circle() {
        for bytes in [0, 24 << 10, 100_000] {
            let field = Field::heap(bytes);
            assert_eq!(walked(&field), field.len());
        }
        if let Ok(field) = Field::huge(4 << 20).unwrap() {
            assert_eq!((walked(&field), field.len()), (65_536, 65_536));
        }
    }

    #[test]
    fn walks_go_on_where_they_ended_and_never_outside() {
        let mut field = Field::heap(64 * 100);
        for lines in [1, 31, 33, 99, 100, 101, 1000] {
            for cycles in [field.dependent(lines), field.prefetched(lines), field.stream(lines)] {
                assert!(cycles.is_finite() && field.at < field.len());
            }
        }
        assert!(field.copy(1000).is_finite());
    }

    #[test]
    fn memory_is_farther_than_the_first_level() {
        let mut near = Field::heap(16 << 10);
        let mut far = Field::heap(128 << 20);
        near.warm();
        let lowest =
            |walk: &mut dyn FnMut() -> f64| (0..5).map(|_| walk()).fold(f64::INFINITY, f64::min);
        let near = lowest(&mut || near.dependent(20_000));
        let far = lowest(&mut || far.dependent(20_000));
        assert!(far > 2.0 * near, "{near} cycles and {far} cycles");
    }
}
