//! Records of one shape: numbered, in segments that never move.

use thruway_packet::prefetch_bytes;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::table::shape::Shape;

/// Bytes of address space of a segment. Memory is only touched as records are used for the first
/// time, so that no insertion waits for more pages than its record has.
const SEGMENT_BYTES: usize = 1 << 20;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes of a record that are prefetched: functions come to its scratch soon.
const AHEAD: usize = 4 * LINE;

/// Words of [`Head`].
const HEAD_WORDS: usize = size_of::<Head>() / 4;

/// The head of every record.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Head {
    /// When its last packet came, in ticks.
    pub seen: u32,
    /// A bit per function that has been informed of it.
    pub opened: u32,
    /// Its leaf.
    pub leaf: u16,
    /// Its [`crate::Life`].
    pub state: u8,
    /// Bits of [`Head::USER_FLAGS`] are the user's. The others are the table's: an assignment must
    /// preserve them.
    pub flags: u8,
}

impl Head {
    /// The bits of [`Head::flags`] that the table ignores.
    pub const USER_FLAGS: u8 = 0x1f;
    /// The record is in use.
    pub(super) const LIVE: u8 = 1 << 7;
    /// Its keys are in the index.
    pub(super) const LINKED: u8 = 1 << 6;
    /// It has a second key.
    pub(super) const ALIASED: u8 = 1 << 5;

    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// The layout of a record: head, key, second key without its last word (the first key's counts),
/// extra words, scratch.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub key_words: usize,
    /// Words, counted from the record's begin.
    alias_at: usize,
    extra_at: usize,
    words: usize,
    /// Bytes.
    scratch_at: usize,
    scratch_len: usize,
    stride: usize,
    /// Records of a segment are two to this power.
    segment_bits: u32,
    /// Whether some records are in several lines.
    is_split: bool,
}

impl Layout {
    pub fn new(shape: &Shape) -> Layout {
        let align = shape.scratch_align.clamp(8, LINE).next_power_of_two();
        let alias_at = HEAD_WORDS + shape.key_words;
        let extra_at = alias_at + if shape.alias { shape.key_words - 1 } else { 0 };
        let words = extra_at + shape.extra_words;
        let scratch_at =
            if shape.scratch_len == 0 { words * 4 } else { (words * 4).next_multiple_of(align) };
        let stride = stride((scratch_at + shape.scratch_len).next_multiple_of(align));
        let fit = (SEGMENT_BYTES / stride).max(1).ilog2();
        Layout {
            key_words: shape.key_words,
            alias_at,
            extra_at,
            words,
            scratch_at,
            scratch_len: shape.scratch_len,
            stride,
            segment_bits: fit.min(shape.sessions_max.next_power_of_two().ilog2()),
            is_split: !LINE.is_multiple_of(stride),
        }
    }

    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Lines of so many records that follow each other.
    fn lines(&self, records: usize) -> usize {
        (records * self.stride).div_ceil(LINE)
    }
}

/// Rounded up so as not to straddle lines, if that costs at most a sixth.
fn stride(bytes: usize) -> usize {
    let even = match bytes {
        ..=32 => 32,
        _ => bytes.next_multiple_of(LINE),
    };
    if (even - bytes) * 6 <= bytes { even } else { bytes }
}

/// See the module.
pub struct Records {
    layout: Layout,
    /// None has more capacity than at its begin.
    segments: Vec<Vec<Line>>,
    /// Records below were in use before; those from here on are all zeros.
    fresh: u32,
    /// First of the free ones, which are linked by [`Head::seen`]: number plus 1, 0 for none.
    free: u32,
    live: u32,
    sessions_max: u32,
    initial: Box<[u8]>,
}

impl Records {
    pub fn new(shape: Shape) -> Records {
        let layout = Layout::new(&shape);
        let mut initial = shape.initial;
        // Fresh records have zeros; others are filled with the initial bytes.
        if initial.iter().all(|byte| *byte == 0) {
            initial = Box::default();
        }
        assert!(initial.len() <= shape.scratch_len, "an initial value longer than the scratch");
        let sessions_max = shape.sessions_max;
        Records { layout, segments: Vec::new(), fresh: 0, free: 0, live: 0, sessions_max, initial }
    }

    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn len(&self) -> u32 {
        self.live
    }

    /// Records below this number exist, in use or not.
    pub fn end(&self) -> u32 {
        self.fresh
    }

    pub fn sessions_max(&self) -> u32 {
        self.sessions_max
    }

    pub fn memory_bytes(&self) -> usize {
        let list = self.segments.capacity() * size_of::<Vec<Line>>();
        self.segments.iter().map(|lines| lines.len() * LINE).sum::<usize>() + list
    }

    pub fn memory_max_bytes(&self) -> usize {
        let segments = (self.sessions_max as usize).div_ceil(1 << self.layout.segment_bits);
        // The list of segments doubles when it is full, and begins with four.
        let list = (segments * 2 + 4) * size_of::<Vec<Line>>();
        self.layout.lines(self.sessions_max as usize) * LINE + segments * LINE + list
    }

    /// A record as it shall begin: its head zero, its scratch of the initial value, its other
    /// words as they were.
    pub fn acquire(&mut self) -> Option<u32> {
        let index = match self.free.checked_sub(1) {
            Some(index) => {
                self.free = self.head(index).seen;
                // Free records are anywhere in memory: the next one comes while this one is used.
                self.prefetch(self.free.wrapping_sub(1));
                *self.head_mut(index) = Head::default();
                self.scratch_mut(index).fill(0);
                index
            }
            None if self.fresh == self.sessions_max => return None,
            None => self.extend(),
        };
        if !self.initial.is_empty() {
            let initial = std::mem::take(&mut self.initial);
            self.scratch_mut(index)[..initial.len()].copy_from_slice(&initial);
            self.initial = initial;
        }
        self.live += 1;
        Some(index)
    }

    /// The same, with this number if it was never used; what lies before it becomes free.
    pub fn acquire_at(&mut self, index: u32) -> Option<u32> {
        if index < self.fresh || index >= self.sessions_max {
            return self.acquire();
        }
        while self.fresh < index {
            let hole = self.extend();
            self.head_mut(hole).seen = self.free;
            self.free = hole + 1;
        }
        let free = std::mem::take(&mut self.free);
        let acquired = self.acquire();
        self.free = free;
        acquired
    }

    /// Takes a record that was never used.
    fn extend(&mut self) -> u32 {
        let index = self.fresh;
        let per_segment = 1_usize << self.layout.segment_bits;
        if (index as usize).is_multiple_of(per_segment) {
            self.segments.push(Vec::with_capacity(self.layout.lines(per_segment)));
        }
        let used = self.layout.lines(index as usize % per_segment + 1);
        let segment = &mut self.segments[index as usize / per_segment];
        segment.resize_with(used, Line::new_zeroed);
        self.fresh += 1;
        index
    }

    pub fn release(&mut self, index: u32) {
        *self.head_mut(index) = Head { seen: self.free, ..Head::default() };
        self.free = index + 1;
        self.live -= 1;
    }

    #[inline]
    fn position(&self, index: u32) -> (usize, usize) {
        let bits = self.layout.segment_bits;
        ((index >> bits) as usize, (index as usize & ((1 << bits) - 1)) * self.layout.stride)
    }

    /// The bytes of a record from its begin to its segment's end.
    #[inline]
    fn bytes(&self, index: u32) -> &[u8] {
        let (segment, at) = self.position(index);
        &self.segments[segment].as_bytes()[at..]
    }

    #[inline]
    fn bytes_mut(&mut self, index: u32) -> &mut [u8] {
        let (segment, at) = self.position(index);
        &mut self.segments[segment].as_mut_bytes()[at..]
    }

    #[inline]
    pub fn head(&self, index: u32) -> &Head {
        aligned(Head::ref_from_prefix(self.bytes(index)).ok()).0
    }

    #[inline]
    pub fn head_mut(&mut self, index: u32) -> &mut Head {
        aligned(Head::mut_from_prefix(self.bytes_mut(index)).ok()).0
    }

    /// Whether a record of this number is in use. Any number may be asked for.
    #[inline]
    pub fn is_live(&self, index: u32) -> bool {
        index < self.fresh && self.head(index).is(Head::LIVE)
    }

    #[inline]
    fn words(&self, index: u32) -> &[u32] {
        aligned(<[u32]>::ref_from_bytes(&self.bytes(index)[..self.layout.words * 4]).ok())
    }

    #[inline]
    fn words_mut(&mut self, index: u32) -> &mut [u32] {
        let len = self.layout.words * 4;
        aligned(<[u32]>::mut_from_bytes(&mut self.bytes_mut(index)[..len]).ok())
    }

    #[inline]
    pub fn key(&self, index: u32) -> &[u32] {
        &self.words(index)[HEAD_WORDS..self.layout.alias_at]
    }

    pub fn key_mut(&mut self, index: u32) -> &mut [u32] {
        let end = self.layout.alias_at;
        &mut self.words_mut(index)[HEAD_WORDS..end]
    }

    /// The words from the key on.
    #[inline]
    pub fn keys(&self, index: u32) -> &[u32] {
        &self.words(index)[HEAD_WORDS..]
    }

    /// The second key but for its last word. Only where the shape has one.
    #[inline]
    pub fn alias(&self, index: u32) -> &[u32] {
        &self.words(index)[self.layout.alias_at..self.layout.extra_at]
    }

    pub fn alias_mut(&mut self, index: u32) -> &mut [u32] {
        let range = self.layout.alias_at..self.layout.extra_at;
        &mut self.words_mut(index)[range]
    }

    #[inline]
    pub fn extra(&self, index: u32) -> &[u32] {
        &self.words(index)[self.layout.extra_at..]
    }

    #[inline]
    pub fn extra_mut(&mut self, index: u32) -> &mut [u32] {
        let begin = self.layout.extra_at;
        &mut self.words_mut(index)[begin..]
    }

    /// Head and extra words, by one computation of where the record is.
    #[inline(always)]
    pub fn head_and_extra_bytes<const N: usize>(
        &mut self,
        index: u32,
        number: usize,
    ) -> (&mut Head, Option<&mut [u8; N]>) {
        let begin = (self.layout.extra_at + number - HEAD_WORDS) * 4;
        let (head, rest) = aligned(Head::mut_from_prefix(self.bytes_mut(index)).ok());
        (head, rest.get_mut(begin..).and_then(<[u8]>::first_chunk_mut))
    }

    #[inline(always)]
    pub fn extra_bytes_mut<const N: usize>(
        &mut self,
        index: u32,
        number: usize,
    ) -> Option<&mut [u8; N]> {
        let begin = (self.layout.extra_at + number) * 4;
        self.bytes_mut(index).get_mut(begin..)?.first_chunk_mut()
    }

    #[inline]
    pub fn scratch(&self, index: u32) -> &[u8] {
        let begin = self.layout.scratch_at;
        &self.bytes(index)[begin..begin + self.layout.scratch_len]
    }

    #[inline]
    pub fn scratch_mut(&mut self, index: u32) -> &mut [u8] {
        let (begin, len) = (self.layout.scratch_at, self.layout.scratch_len);
        &mut self.bytes_mut(index)[begin..begin + len]
    }

    /// Head and scratch, by one computation of where the record is.
    #[inline(always)]
    pub fn head_and_scratch(&mut self, index: u32) -> (&mut Head, &mut [u8]) {
        let (begin, len) = (self.layout.scratch_at, self.layout.scratch_len);
        let (front, scratch) = self.bytes_mut(index).split_at_mut(begin);
        (aligned(Head::mut_from_prefix(front).ok()).0, &mut scratch[..len])
    }

    /// Head, words behind it, and scratch, by one computation of where the record is.
    #[inline(always)]
    pub fn whole_mut(&mut self, index: u32) -> (&mut Head, &[u32], &mut [u8]) {
        let (begin, len) = (self.layout.scratch_at, self.layout.scratch_len);
        let words = (self.layout.words - HEAD_WORDS) * 4;
        let (front, scratch) = self.bytes_mut(index).split_at_mut(begin);
        let (head, rest) = aligned(Head::mut_from_prefix(front).ok());
        (head, aligned(<[u32]>::ref_from_bytes(&rest[..words]).ok()), &mut scratch[..len])
    }

    /// Asks the processor to fetch a record: of a long one the first [`AHEAD`] bytes.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        let (segment, at) = self.position(index);
        if let Some(bytes) = self.segments.get(segment).and_then(|lines| lines.as_bytes().get(at..))
        {
            prefetch_bytes(bytes);
            if !self.layout.is_split {
                return;
            }
            let reach = self.layout.stride.min(AHEAD);
            for line in (LINE..reach).step_by(LINE) {
                prefetch_bytes(bytes.get(line..).unwrap_or(&[]));
            }
            prefetch_bytes(bytes.get(reach - 1..).unwrap_or(&[]));
        }
    }
}

/// These cannot be missing: every segment begins at a line, and strides and lengths are fixed.
#[inline]
fn aligned<T>(found: Option<T>) -> T {
    found.expect("records are aligned")
}
