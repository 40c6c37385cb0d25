//! Many readers or many writers, each writer of words of its own.

use crate::CachePadded;
use crate::atomic::{AtomicU64, Ordering};
use crate::thread_slot::{HasThreadSlots, ThreadSlot, ThreadSlots};
use crate::wait::Wait;
use crate::words::{Cells, Words, WordsMut, cells};

/// More than there will ever be inside: the preferred side takes it off while it waits, so that it
/// is seen. (It is `MAX_WRITER` of the thesis.)
const WAITING: i64 = 1 << 32;

/// The two sides, of which one at a time is inside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Read,
    Write,
}

impl Side {
    /// The state as this side counts: its own are positive, the others negative.
    #[inline]
    fn count(self, state: u64) -> i64 {
        match self {
            Side::Read => state as i64,
            Side::Write => (state as i64).wrapping_neg(),
        }
    }

    /// The reverse of `count`.
    #[inline]
    fn state(self, count: i64) -> u64 {
        match self {
            Side::Read => count as u64,
            Side::Write => count.wrapping_neg() as u64,
        }
    }
}

/// The side that waits only for those who are inside when it comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Preferred {
    /// Neither: a side with constant arrivals can keep the other one waiting.
    #[default]
    Neither,
    /// Readers.
    Readers,
    /// Writers.
    Writers,
}

/// Where both sides enter. Algorithms 4 and 5 of the thesis, for either side.
#[derive(Debug)]
struct Gate {
    /// Readers inside, or writers, as a negative number in two's complement.
    state: AtomicU64,
    preferred: Option<Side>,
}

/// A thread is inside; dropping this leaves.
struct Inside<'a> {
    gate: &'a Gate,
    side: Side,
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: the other side comes after these writes, through any number of others' leaving
        // (these are all read-modify-writes, which carry a release on).
        self.gate.state.fetch_sub(self.side.state(1), Ordering::Release);
    }
}

impl Gate {
    fn new(preferred: Preferred) -> Gate {
        let preferred = match preferred {
            Preferred::Neither => None,
            Preferred::Readers => Some(Side::Read),
            Preferred::Writers => Some(Side::Write),
        };
        Gate { state: AtomicU64::new(0), preferred }
    }

    #[inline]
    fn enter(&self, side: Side) -> Inside<'_> {
        let mut wait = Wait::default();
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let count = side.count(state);
            let is_next = count < 0 && count > -WAITING && self.preferred == Some(side);
            let next = match count {
                0..WAITING => count + 1,
                _ if is_next => count - WAITING,
                _ => {
                    wait.pause();
                    state = self.state.load(Ordering::Relaxed);
                    continue;
                }
            };
            // Acquire: behind all of the other side that left.
            let changed = self.state.compare_exchange_weak(
                state,
                side.state(next),
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            if let Err(now) = changed {
                state = now;
                continue;
            }
            if is_next {
                self.follow(side, wait);
            }
            return Inside { gate: self, side };
        }
    }

    /// Waits until the last of the other side has left, which admits no more, and enters.
    #[cold]
    fn follow(&self, side: Side, mut wait: Wait) {
        // Acquire: behind all that left.
        while side.count(self.state.load(Ordering::Acquire)) != -WAITING {
            wait.pause();
        }
        // In this state all others wait, so no change is lost. Release: passes on the acquired
        // changes to later entrants of this side.
        self.state.store(side.state(1), Ordering::Release);
    }
}

/// `N` words for each of some threads, which all write at once, each its own, or any number of
/// threads read at once, all of them: a reader sees all words as they were at one moment.
///
/// ```
/// use std::sync::Arc;
/// use thruway_sync::{Preferred, RxW, ThreadSlot};
/// let counts = Arc::new(RxW::<2>::new(2, Preferred::Readers));
/// let mut own = ThreadSlot::take(&counts).unwrap();
/// own.write(|words| { words.add(0, 1); words.add(1, 64) });
/// assert_eq!(counts.fold(0, |sum, words| sum + words.get(1)), 64);
/// ```
///
/// A thread that reads while it writes, or writes while it reads, waits forever; with a preference
/// so may one that does the same twice at once.
#[derive(Debug)]
pub struct RxW<const N: usize> {
    gate: CachePadded<Gate>,
    own: Box<[CachePadded<Cells<N>>]>,
    thread_slots: ThreadSlots,
}

impl<const N: usize> RxW<N> {
    /// Zeros, for so many threads that write.
    pub fn new(threads: usize, preferred: Preferred) -> Self {
        let own = (0..threads).map(|_| CachePadded(cells([0; N]))).collect();
        RxW {
            gate: CachePadded(Gate::new(preferred)),
            own,
            thread_slots: ThreadSlots::new(threads),
        }
    }

    /// Visits the threads' words, while no thread writes.
    #[inline]
    pub fn fold<A>(&self, start: A, mut each: impl FnMut(A, Words<'_, N>) -> A) -> A {
        let _inside = self.gate.0.enter(Side::Read);
        self.own.iter().fold(start, |sum, own| each(sum, Words(&own.0)))
    }
}

impl<const N: usize> HasThreadSlots for RxW<N> {
    fn thread_slots(&self) -> &ThreadSlots {
        &self.thread_slots
    }
}

impl<const N: usize> ThreadSlot<RxW<N>> {
    /// Lets `change` write this thread's words, while no thread reads.
    #[inline]
    pub fn write<R>(&mut self, change: impl FnOnce(&mut WordsMut<'_, N>) -> R) -> R {
        let shared = self.of();
        let _inside = shared.gate.0.enter(Side::Write);
        change(&mut WordsMut(&shared.own[self.at()].0))
    }
}
