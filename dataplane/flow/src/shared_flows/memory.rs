//! Zeroed memory that costs nothing until it is touched.

#[cfg(not(loom))]
use zerocopy::FromZeros;

use thruway_sync::atomic::{AtomicU32, AtomicU64};

/// `count` lines of `N` words, each line at a multiple of its own size.
///
/// The alignment is made by hand: an allocation that asks for it is zeroed by writing to it all.
pub(super) struct Lines<const N: usize> {
    words: Box<[AtomicU64]>,
    first: usize,
}

impl<const N: usize> Lines<N> {
    /// Zeroed lines; `None` if there is no such memory. `N` is a power of two.
    pub fn new(count: usize) -> Option<Lines<N>> {
        let words = words(count.checked_mul(N)?.checked_add(N - 1)?)?;
        let first = if cfg!(loom) { 0 } else { words.as_ptr().align_offset(N * 8) };
        Some(Lines { words, first })
    }

    /// A line by its number.
    #[inline]
    pub fn line(&self, number: usize) -> &[AtomicU64; N] {
        &self.words[self.first..].as_chunks().0[number]
    }
}

/// Zeroed words; `None` if there is no such memory.
#[cfg(not(loom))]
pub(super) fn words(count: usize) -> Option<Box<[AtomicU64]>> {
    <[AtomicU64]>::new_box_zeroed_with_elems(count).ok()
}

/// Zeroed pairs of half words; `None` if there is no such memory.
#[cfg(not(loom))]
pub(super) fn pairs(count: usize) -> Option<Box<[[AtomicU32; 2]]>> {
    <[[AtomicU32; 2]]>::new_box_zeroed_with_elems(count).ok()
}

/// The same of loom's atomics, which know no zeroed memory.
#[cfg(loom)]
pub(super) fn words(count: usize) -> Option<Box<[AtomicU64]>> {
    Some((0..count).map(|_| AtomicU64::new(0)).collect())
}

/// The same of loom's atomics, which know no zeroed memory.
#[cfg(loom)]
pub(super) fn pairs(count: usize) -> Option<Box<[[AtomicU32; 2]]>> {
    Some((0..count).map(|_| [AtomicU32::new(0), AtomicU32::new(0)]).collect())
}
