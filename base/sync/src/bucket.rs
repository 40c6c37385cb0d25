//! A lock for each thread.

use crate::CachePadded;
use crate::spin::Lock;
use crate::thread_slot::{HasThreadSlots, ThreadSlot, ThreadSlots};
use crate::words::{Cells, Words, WordsMut, cells};

/// A lock and its data, on a cache line of their own.
#[derive(Debug)]
struct Bucket<const N: usize> {
    lock: Lock,
    words: Cells<N>,
}

/// A bucket for each thread.
#[derive(Debug)]
struct Buckets<const N: usize>(Box<[CachePadded<Bucket<N>>]>);

/// The locks of the first buckets are held; dropping this leaves them.
struct AllHeld<'a, const N: usize> {
    buckets: &'a Buckets<N>,
    count: usize,
}

impl<const N: usize> Buckets<N> {
    fn new(threads: usize) -> Self {
        let bucket = || Bucket { lock: Lock::default(), words: cells([0; N]) };
        Buckets((0..threads).map(|_| CachePadded(bucket())).collect())
    }

    /// Takes all locks, in the same order in every thread: two threads that want all of them cannot
    /// wait for each other.
    #[inline]
    fn hold_all(&self) -> AllHeld<'_, N> {
        let mut held = AllHeld { buckets: self, count: 0 };
        for bucket in &self.0 {
            bucket.0.lock.acquire();
            held.count += 1;
        }
        held
    }
}

impl<const N: usize> Drop for AllHeld<'_, N> {
    #[inline]
    fn drop(&mut self) {
        self.buckets.0[..self.count].iter().for_each(|bucket| bucket.0.lock.release());
    }
}

/// `N` words for each of some threads, behind a lock for each: one thread's words are consistent,
/// and those of all if a reader takes all locks.
///
/// ```
/// use std::sync::Arc;
/// use thruway_sync::{PerThreadLock, ThreadSlot};
/// let counts = Arc::new(PerThreadLock::<2>::new(2));
/// let mut own = ThreadSlot::take(&counts).unwrap();
/// own.write(|words| { words.add(0, 1); words.add(1, 64) });
/// assert_eq!(counts.fold_all(0, |sum, words| sum + words.get(1)), 64);
/// ```
#[derive(Debug)]
pub struct PerThreadLock<const N: usize> {
    own: Buckets<N>,
    thread_slots: ThreadSlots,
}

impl<const N: usize> PerThreadLock<N> {
    /// Zeros, for so many threads.
    pub fn new(threads: usize) -> Self {
        PerThreadLock { own: Buckets::new(threads), thread_slots: ThreadSlots::new(threads) }
    }

    /// Visits the threads' words, one lock after the other: each thread's words are a consistent
    /// snapshot, at another moment than the next thread's.
    #[inline]
    pub fn fold_each<A>(&self, start: A, mut each: impl FnMut(A, Words<'_, N>) -> A) -> A {
        self.own.0.iter().fold(start, |sum, bucket| {
            let _held = bucket.0.lock.hold();
            each(sum, Words(&bucket.0.words))
        })
    }

    /// Visits the threads' words with all locks held: one consistent snapshot.
    #[inline]
    pub fn fold_all<A>(&self, start: A, mut each: impl FnMut(A, Words<'_, N>) -> A) -> A {
        let _held = self.own.hold_all();
        self.own.0.iter().fold(start, |sum, bucket| each(sum, Words(&bucket.0.words)))
    }
}

impl<const N: usize> HasThreadSlots for PerThreadLock<N> {
    fn thread_slots(&self) -> &ThreadSlots {
        &self.thread_slots
    }
}

impl<const N: usize> ThreadSlot<PerThreadLock<N>> {
    /// Lets `change` write this thread's words.
    #[inline]
    pub fn write<R>(&mut self, change: impl FnOnce(&mut WordsMut<'_, N>) -> R) -> R {
        let bucket = &self.of().own.0[self.at()].0;
        let _held = bucket.lock.hold();
        change(&mut WordsMut(&bucket.words))
    }
}

/// `N` words with many readers, each behind its own lock, or one writer, which takes all locks: a
/// read costs no line that others write, a write as many as there are threads.
#[derive(Debug)]
pub struct PerThreadRw<const N: usize> {
    words: CachePadded<Cells<N>>,
    readers: Buckets<0>,
    thread_slots: ThreadSlots,
}

impl<const N: usize> PerThreadRw<N> {
    /// These words, for so many threads that read.
    pub fn new(words: [u64; N], threads: usize) -> Self {
        let readers = Buckets::new(threads);
        PerThreadRw {
            words: CachePadded(cells(words)),
            readers,
            thread_slots: ThreadSlots::new(threads),
        }
    }

    /// Lets `change` write, alone. A thread that writes while it reads waits forever.
    #[inline]
    pub fn write<R>(&self, change: impl FnOnce(&mut WordsMut<'_, N>) -> R) -> R {
        let _held = self.readers.hold_all();
        change(&mut WordsMut(&self.words.0))
    }
}

impl<const N: usize> HasThreadSlots for PerThreadRw<N> {
    fn thread_slots(&self) -> &ThreadSlots {
        &self.thread_slots
    }
}

impl<const N: usize> ThreadSlot<PerThreadRw<N>> {
    /// Lets `f` read.
    #[inline]
    pub fn read<R>(&mut self, f: impl FnOnce(Words<'_, N>) -> R) -> R {
        let shared = self.of();
        let _held = shared.readers.0[self.at()].0.lock.hold();
        f(Words(&shared.words.0))
    }
}
