//! Words under a lock: the views of readers and of writers.

use crate::atomic::{AtomicU64, Ordering};

/// The words themselves. They are atomic only so that no access is a data race, whatever the
/// structure around them does; the structure, not they, ensures consistency. Relaxed loads and
/// stores are the processor's plain ones.
pub(crate) type Cells<const N: usize> = [AtomicU64; N];

/// Cells of these words.
pub(crate) fn cells<const N: usize>(words: [u64; N]) -> Cells<N> {
    words.map(AtomicU64::new)
}

/// The words as a reader sees them, for as long as their structure permits.
#[derive(Clone, Copy)]
pub struct Words<'a, const N: usize>(pub(crate) &'a Cells<N>);

impl<const N: usize> Words<'_, N> {
    /// Word number `at`, which must be below `N`.
    #[inline]
    pub fn get(&self, at: usize) -> u64 {
        // Relaxed: the structure that gave this view orders it.
        self.0[at].load(Ordering::Relaxed)
    }
}

/// The words of the one writer.
pub struct WordsMut<'a, const N: usize>(pub(crate) &'a Cells<N>);

impl<const N: usize> WordsMut<'_, N> {
    /// Word number `at`, which must be below `N`.
    #[inline]
    pub fn get(&self, at: usize) -> u64 {
        Words(self.0).get(at)
    }

    /// Sets word number `at`, which must be below `N`.
    #[inline]
    pub fn set(&mut self, at: usize, word: u64) {
        // Relaxed: the structure that gave this view orders it.
        self.0[at].store(word, Ordering::Relaxed);
    }

    /// Adds to word number `at`, which must be below `N`; beyond 64 bits it begins again at zero.
    #[inline]
    pub fn add(&mut self, at: usize, n: u64) {
        self.set(at, self.get(at).wrapping_add(n));
    }
}
