//! Words each of which is right by itself.

use crate::CachePadded;
use crate::atomic::Ordering;
use crate::thread_slot::{HasThreadSlots, ThreadSlot, ThreadSlots};
use crate::words::{Cells, Words, WordsMut, cells};

/// `N` words that all threads add to: each is right and of this moment, but two of them are not of
/// the same moment.
#[derive(Debug)]
#[repr(align(128))]
pub struct AtomicWords<const N: usize>(Cells<N>);

impl<const N: usize> AtomicWords<N> {
    /// These words.
    pub fn new(words: [u64; N]) -> Self {
        AtomicWords(cells(words))
    }

    /// Adds to word number `at`, which must be below `N`.
    #[inline]
    pub fn add(&self, at: usize, n: u64) {
        // Relaxed, like all here: a word orders nothing else.
        self.0[at].fetch_add(n, Ordering::Relaxed);
    }

    /// Word number `at`, which must be below `N`.
    #[inline]
    pub fn get(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Relaxed)
    }

    /// Sets word number `at`, which must be below `N`.
    #[inline]
    pub fn set(&self, at: usize, word: u64) {
        self.0[at].store(word, Ordering::Relaxed);
    }
}

/// `N` words for each of some threads, without waiting: a reader sees each word as it was a moment
/// ago, and not two of the same moment.
///
/// ```
/// use std::sync::Arc;
/// use thruway_sync::{PerThread, ThreadSlot};
/// let counts = Arc::new(PerThread::<1>::new(2));
/// let (mut a, mut b) = (ThreadSlot::take(&counts).unwrap(), ThreadSlot::take(&counts).unwrap());
/// a.write(|words| words.add(0, 3));
/// b.write(|words| words.add(0, 4));
/// assert_eq!(counts.fold(0, |sum, words| sum + words.get(0)), 7);
/// ```
#[derive(Debug)]
pub struct PerThread<const N: usize> {
    own: Box<[CachePadded<Cells<N>>]>,
    thread_slots: ThreadSlots,
}

impl<const N: usize> PerThread<N> {
    /// Zeros, for so many threads.
    pub fn new(threads: usize) -> Self {
        let own = (0..threads).map(|_| CachePadded(cells([0; N]))).collect();
        PerThread { own, thread_slots: ThreadSlots::new(threads) }
    }

    /// Goes through the threads' words.
    #[inline]
    pub fn fold<A>(&self, start: A, mut each: impl FnMut(A, Words<'_, N>) -> A) -> A {
        self.own.iter().fold(start, |sum, own| each(sum, Words(&own.0)))
    }
}

impl<const N: usize> HasThreadSlots for PerThread<N> {
    fn thread_slots(&self) -> &ThreadSlots {
        &self.thread_slots
    }
}

impl<const N: usize> ThreadSlot<PerThread<N>> {
    /// Lets `change` write this thread's words, by plain loads and stores: no other thread writes
    /// them.
    #[inline]
    pub fn write<R>(&mut self, change: impl FnOnce(&mut WordsMut<'_, N>) -> R) -> R {
        change(&mut WordsMut(&self.of().own[self.at()].0))
    }
}
