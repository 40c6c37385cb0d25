//! Versions in a ring: readers never wait, and writers hardly ever.

use crate::CachePadded;
use crate::atomic::{AtomicU64, Ordering, fence};
use crate::spin::Lock;
use crate::thread_slot::{HasThreadSlots, ThreadSlot, ThreadSlots};
use crate::wait::Wait;
use crate::words::{Cells, Words, WordsMut, cells};

/// `N` words that threads read without waiting for anybody, while another one writes a copy of them
/// that then takes their place.
///
/// ```
/// use std::sync::Arc;
/// use thruway_sync::{Rcu, ThreadSlot};
/// let words = Arc::new(Rcu::new([1, 2], 4, 2));
/// let mut reader = ThreadSlot::take(&words).unwrap();
/// words.write(|words| { words.set(0, 3); words.set(1, 4) });
/// assert_eq!(reader.read(|words| [words.get(0), words.get(1)]), [3, 4]);
/// ```
///
/// Algorithms 2 and 3 of the thesis: versions are numbered, and version `v` is in slot `v` modulo
/// the slots. A reader first announces the version that it may use. A writer takes the slot of the
/// oldest version and waits for the readers that may use it: only if as many writes as there are
/// slots, less one, were faster than one read. A thread must not write that often while it reads.
///
/// Two things differ from what is printed there. A writer waits for readers of one version more: at
/// version `v`, the slot of the next one is that of `v + 1 - slots`, not of `v - slots`. And a
/// reader's word is visible before it looks for the present version (a full fence), not just in
/// program order: processors of x86 let loads pass stores.
#[derive(Debug)]
pub struct Rcu<const N: usize> {
    /// The version that readers look at; never 0.
    version: CachePadded<AtomicU64>,
    writing: CachePadded<Lock>,
    slots: Box<[CachePadded<Cells<N>>]>,
    /// For each thread slot a version: its reader is at none older. 0 while it does not read.
    reading: Box<[CachePadded<AtomicU64>]>,
    thread_slots: ThreadSlots,
}

/// A reader is reading; dropping this ends that.
struct Reading<'a>(&'a AtomicU64);

impl Drop for Reading<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: a writer that sees this writes after the read.
        self.0.store(0, Ordering::Release);
    }
}

impl<const N: usize> Rcu<N> {
    /// These words, for so many threads that read, in a ring of `slots`: at least 2, and the next
    /// power of two is taken.
    pub fn new(words: [u64; N], threads: usize, slots: usize) -> Self {
        let slots = slots.max(2).next_power_of_two();
        Rcu {
            version: CachePadded(AtomicU64::new(1)),
            writing: CachePadded::default(),
            slots: (0..slots).map(|_| CachePadded(cells(words))).collect(),
            reading: (0..threads).map(|_| CachePadded::default()).collect(),
            thread_slots: ThreadSlots::new(threads),
        }
    }

    #[inline]
    fn slot(&self, version: u64) -> &Cells<N> {
        &self.slots[version as usize & (self.slots.len() - 1)].0
    }

    /// Lets `change` write a copy, which later readers see. Writers take turns.
    pub fn write<R>(&self, change: impl FnOnce(&mut WordsMut<'_, N>) -> R) -> R {
        let _turn = self.writing.0.hold();
        // Relaxed: the lock ordered it behind the last writer's.
        let version = self.version.0.load(Ordering::Relaxed);
        self.await_readers(version);
        let (old, new) = (Words(self.slot(version)), self.slot(version + 1));
        let mut words = WordsMut(new);
        (0..N).for_each(|at| words.set(at, old.get(at)));
        let done = change(&mut words);
        // Release: a reader that sees the version sees the words.
        self.version.0.store(version + 1, Ordering::Release);
        done
    }

    /// Waits for the readers that may use the version in the next slot.
    fn await_readers(&self, version: u64) {
        // With the reader's fence: either this thread sees the reader's word below, or the reader
        // sees this `version`, which is not in the slot to be written.
        fence(Ordering::SeqCst);
        let oldest = (version + 1).saturating_sub(self.slots.len() as u64);
        for reading in &self.reading {
            let mut wait = Wait::default();
            // Acquire: its reading is over, by the release of its next word.
            while (1..=oldest).contains(&reading.0.load(Ordering::Acquire)) {
                wait.pause();
            }
        }
    }
}

impl<const N: usize> HasThreadSlots for Rcu<N> {
    fn thread_slots(&self) -> &ThreadSlots {
        &self.thread_slots
    }
}

impl<const N: usize> ThreadSlot<Rcu<N>> {
    /// Lets `f` read the present version.
    #[inline]
    pub fn read<R>(&mut self, f: impl FnOnce(Words<'_, N>) -> R) -> R {
        let shared = self.of();
        let reading = &shared.reading[self.at()].0;
        // Relaxed: a version that is older than the present one only makes a writer wait longer.
        let version = shared.version.0.load(Ordering::Relaxed);
        // Release: a writer that sees it continues after the previous reads.
        reading.store(version, Ordering::Release);
        let _reading = Reading(reading);
        // With the writer's: see `await_readers`.
        fence(Ordering::SeqCst);
        // Acquire: the words of this version, by its release.
        let version = shared.version.0.load(Ordering::Acquire);
        f(Words(shared.slot(version)))
    }
}
