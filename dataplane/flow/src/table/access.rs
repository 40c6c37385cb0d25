//! The contents of a pool's records, and their number.

use crate::table::{Head, Load, Pool, keys, keys_per_two_lines};

impl Pool {
    /// A record's head.
    #[inline]
    pub fn head(&self, index: u32) -> &Head {
        self.records.head(index)
    }

    /// A record's head.
    #[inline]
    pub fn head_mut(&mut self, index: u32) -> &mut Head {
        self.records.head_mut(index)
    }

    /// The key that a session was inserted with.
    #[inline]
    pub fn key(&self, index: u32) -> &[u32] {
        self.records.key(index)
    }

    /// A session's second key but for its last word, which is that of [`Pool::key`].
    #[inline]
    pub fn alias_key(&self, index: u32) -> Option<&[u32]> {
        self.records.head(index).is(Head::ALIASED).then(|| self.records.alias(index))
    }

    /// An extra word.
    #[inline]
    pub fn extra(&self, index: u32, number: usize) -> u32 {
        self.records.extra(index)[number]
    }

    /// An extra word.
    #[inline]
    pub fn extra_mut(&mut self, index: u32, number: usize) -> &mut u32 {
        &mut self.records.extra_mut(index)[number]
    }

    /// A record's head, and the bytes of its extra words from `number` on; `None` if there are not
    /// so many.
    #[inline(always)]
    pub fn head_and_extra_bytes<const N: usize>(
        &mut self,
        index: u32,
        number: usize,
    ) -> (&mut Head, Option<&mut [u8; N]>) {
        self.records.head_and_extra_bytes(index, number)
    }

    /// The bytes of extra words from `number` on; `None` if there are not so many.
    #[inline(always)]
    pub fn extra_bytes_mut<const N: usize>(
        &mut self,
        index: u32,
        number: usize,
    ) -> Option<&mut [u8; N]> {
        self.records.extra_bytes_mut(index, number)
    }

    /// The functions' state.
    #[inline]
    pub fn scratch(&self, index: u32) -> &[u8] {
        self.records.scratch(index)
    }

    /// The functions' state.
    #[inline]
    pub fn scratch_mut(&mut self, index: u32) -> &mut [u8] {
        self.records.scratch_mut(index)
    }

    /// A record's head and the functions' state.
    #[inline(always)]
    pub fn head_and_scratch(&mut self, index: u32) -> (&mut Head, &mut [u8]) {
        self.records.head_and_scratch(index)
    }

    /// All of a record at once: its head, its words (key, second key without its last word, extra
    /// words) and the functions' state.
    #[inline(always)]
    pub fn whole_mut(&mut self, index: u32) -> (&mut Head, &[u32], &mut [u8]) {
        self.records.whole_mut(index)
    }

    /// Asks the processor to fetch a record. Any number may be given.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        self.records.prefetch(index);
    }

    /// Whether a record of this number is in use, linked or not. Any number may be given.
    #[inline]
    pub fn is_live(&self, index: u32) -> bool {
        self.records.is_live(index)
    }

    /// Whether a session is found by its key.
    pub fn is_linked(&self, index: u32) -> bool {
        self.is_live(index) && self.records.head(index).is(Head::LINKED)
    }

    /// The records in use among `max` numbers from `from` on, and where to continue: 0 at the end.
    pub fn live(&self, from: u32, max: u32) -> (impl Iterator<Item = u32> + '_, u32) {
        let end = from.saturating_add(max).min(self.records.end());
        let next = if end >= self.records.end() { 0 } else { end };
        ((from..end).filter(|index| self.records.is_live(*index)), next)
    }

    /// No record has this number or a larger one.
    #[inline]
    pub fn extent(&self) -> u32 {
        self.records.end()
    }

    /// Records in use, linked or not.
    pub fn len(&self) -> u32 {
        self.records.len()
    }

    /// Whether no record is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most records that may be in use.
    pub fn capacity(&self) -> u32 {
        self.records.sessions_max()
    }

    /// Bytes from a record to the next.
    pub fn record_bytes(&self) -> usize {
        self.records.layout().stride()
    }

    /// Bytes of the index for each session, all its keys together, just before it grows.
    pub fn index_bytes(&self) -> f64 {
        let lines = f64::from(keys(self.has_alias) * 2);
        64.0 * lines / f64::from(keys_per_two_lines(self.has_alias))
    }

    /// Bytes allocated now.
    pub fn memory_bytes(&self) -> usize {
        self.records.memory_bytes() + self.index.memory_bytes()
    }

    /// Most bytes that can ever be allocated.
    pub fn memory_max_bytes(&self) -> usize {
        self.records.memory_max_bytes() + self.index.memory_max_bytes()
    }

    /// How the index stands.
    pub fn load(&self) -> Load {
        self.index.load()
    }
}
