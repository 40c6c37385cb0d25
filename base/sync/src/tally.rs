//! Two sums in any of the structures.

use std::sync::Arc;

use crate::bucket::{PerThreadLock, PerThreadRw};
use crate::rcu::Rcu;
use crate::rw::RwSpin;
use crate::rxw::{Preferred, RxW};
use crate::seq::SeqWords;
use crate::spin::SpinLock;
use crate::thread_slot::ThreadSlot;
use crate::wait::Wait;
use crate::word::{AtomicWords, PerThread};
use crate::words::{Words, WordsMut};

/// Slots of a ring of versions: a writer waits for a read that three writes were faster than.
const RCU_SLOTS: usize = 4;

/// The guarantee for a reader of several words.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Consistency {
    /// Each word is right, two of them are not of the same moment.
    Word,
    /// The words of each thread are a consistent snapshot, two threads' are not.
    Thread,
    /// All words are one consistent snapshot.
    Moment,
}

/// The structures that sums can be kept in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Structure {
    /// [`PerThread`].
    PerThread,
    /// [`AtomicWords`].
    Atomic,
    /// [`SpinLock`].
    Lock,
    /// [`PerThreadLock`], read lock by lock.
    PerThreadLock,
    /// [`PerThreadLock`], read with all locks.
    PerThreadLocks,
    /// [`Rcu`].
    Rcu,
    /// [`RwSpin`].
    Rw,
    /// [`PerThreadRw`].
    PerThreadRw,
    /// [`RxW`].
    RxW(Preferred),
    /// [`SeqWords`].
    Seq,
}

impl Structure {
    /// All of them.
    pub const ALL: &[Structure] = &[
        Structure::PerThread,
        Structure::Atomic,
        Structure::PerThreadLock,
        Structure::PerThreadLocks,
        Structure::Lock,
        Structure::Rcu,
        Structure::Rw,
        Structure::PerThreadRw,
        Structure::RxW(Preferred::Neither),
        Structure::RxW(Preferred::Readers),
        Structure::RxW(Preferred::Writers),
        Structure::Seq,
    ];

    /// Their names, in the order of [`Structure::ALL`].
    pub const NAMES: &[&str] = &[
        "per-thread",
        "atomic",
        "per-thread-lock",
        "per-thread-locks",
        "lock",
        "rcu",
        "rw",
        "per-thread-rw",
        "rxw",
        "rxw-read",
        "rxw-write",
        "seq",
    ];

    /// The guarantee for a reader.
    pub fn consistency(self) -> Consistency {
        match self {
            Structure::PerThread | Structure::Atomic => Consistency::Word,
            Structure::PerThreadLock => Consistency::Thread,
            _ => Consistency::Moment,
        }
    }
}

/// One thread's hold on two sums that threads keep together, such as packets and their bytes. They
/// are the first two of the structure's words, and begin again at zero beyond 64 bits.
pub trait Tally: Send {
    /// Adds to both.
    fn add(&mut self, by: [u64; 2]);
    /// Both, of all threads.
    fn totals(&mut self) -> [u64; 2];
}

#[inline]
fn add<const N: usize>(words: &mut WordsMut<'_, N>, by: [u64; 2]) {
    words.add(0, by[0]);
    words.add(1, by[1]);
}

#[inline]
fn pair<const N: usize>(words: Words<'_, N>) -> [u64; 2] {
    [words.get(0), words.get(1)]
}

/// The sums and one thread's part.
#[inline]
fn plus<const N: usize>(sums: [u64; 2], words: Words<'_, N>) -> [u64; 2] {
    let [a, b] = pair(words);
    [sums[0].wrapping_add(a), sums[1].wrapping_add(b)]
}

impl<const N: usize> Tally for ThreadSlot<PerThread<N>> {
    fn add(&mut self, by: [u64; 2]) {
        self.write(|words| add(words, by));
    }

    fn totals(&mut self) -> [u64; 2] {
        self.of().fold([0; 2], plus)
    }
}

impl<const N: usize> Tally for Arc<AtomicWords<N>> {
    fn add(&mut self, by: [u64; 2]) {
        AtomicWords::add(self, 0, by[0]);
        AtomicWords::add(self, 1, by[1]);
    }

    fn totals(&mut self) -> [u64; 2] {
        [self.get(0), self.get(1)]
    }
}

impl<const N: usize> Tally for Arc<SpinLock<N>> {
    fn add(&mut self, by: [u64; 2]) {
        self.write(|words| add(words, by));
    }

    fn totals(&mut self) -> [u64; 2] {
        self.read(pair)
    }
}

impl<const N: usize> Tally for ThreadSlot<PerThreadLock<N>> {
    fn add(&mut self, by: [u64; 2]) {
        self.write(|words| add(words, by));
    }

    fn totals(&mut self) -> [u64; 2] {
        self.of().fold_each([0; 2], plus)
    }
}

/// Reads with all locks.
struct AllLocks<const N: usize>(ThreadSlot<PerThreadLock<N>>);

impl<const N: usize> Tally for AllLocks<N> {
    fn add(&mut self, by: [u64; 2]) {
        self.0.add(by);
    }

    fn totals(&mut self) -> [u64; 2] {
        self.0.of().fold_all([0; 2], plus)
    }
}

impl<const N: usize> Tally for ThreadSlot<Rcu<N>> {
    fn add(&mut self, by: [u64; 2]) {
        self.of().write(|words| add(words, by));
    }

    fn totals(&mut self) -> [u64; 2] {
        self.read(pair)
    }
}

impl<const N: usize> Tally for Arc<RwSpin<N>> {
    fn add(&mut self, by: [u64; 2]) {
        self.write(|words| add(words, by));
    }

    fn totals(&mut self) -> [u64; 2] {
        self.read(pair)
    }
}

impl<const N: usize> Tally for ThreadSlot<PerThreadRw<N>> {
    fn add(&mut self, by: [u64; 2]) {
        self.of().write(|words| add(words, by));
    }

    fn totals(&mut self) -> [u64; 2] {
        self.read(pair)
    }
}

impl<const N: usize> Tally for ThreadSlot<RxW<N>> {
    fn add(&mut self, by: [u64; 2]) {
        self.write(|words| add(words, by));
    }

    fn totals(&mut self) -> [u64; 2] {
        self.of().fold([0; 2], plus)
    }
}

impl<const N: usize> Tally for Arc<SeqWords<N>> {
    fn add(&mut self, by: [u64; 2]) {
        until(|| self.try_write(|words| add(words, by)));
    }

    fn totals(&mut self) -> [u64; 2] {
        until(|| self.read(pair))
    }
}

/// Tries until it succeeds.
#[inline]
fn until<R>(attempt: impl Fn() -> Option<R>) -> R {
    let mut wait = Wait::default();
    loop {
        match attempt() {
            Some(done) => return done,
            None => wait.pause(),
        }
    }
}

/// Two sums that threads keep together, at the head of `N` words (at least two).
///
/// ```
/// use thruway_sync::{Structure, Tallies};
/// let packets_bytes = Tallies::<2>::new(Structure::Rcu, 2);
/// let (mut a, mut b) = (packets_bytes.join().unwrap(), packets_bytes.join().unwrap());
/// a.add([1, 64]);
/// b.add([1, 128]);
/// assert_eq!(a.totals(), [2, 192]);
/// ```
#[derive(Clone, Debug)]
pub struct Tallies<const N: usize>(Shared<N>);

#[derive(Clone, Debug)]
enum Shared<const N: usize> {
    PerThread(Arc<PerThread<N>>),
    Atomic(Arc<AtomicWords<N>>),
    Lock(Arc<SpinLock<N>>),
    PerThreadLock(Arc<PerThreadLock<N>>),
    PerThreadLocks(Arc<PerThreadLock<N>>),
    Rcu(Arc<Rcu<N>>),
    Rw(Arc<RwSpin<N>>),
    PerThreadRw(Arc<PerThreadRw<N>>),
    RxW(Arc<RxW<N>>),
    Seq(Arc<SeqWords<N>>),
}

impl<const N: usize> Tallies<N> {
    /// Zeros, for so many threads at most.
    pub fn new(structure: Structure, threads: usize) -> Self {
        const { assert!(N >= 2, "two sums are two words") }
        let zeros = [0; N];
        Tallies(match structure {
            Structure::PerThread => Shared::PerThread(Arc::new(PerThread::new(threads))),
            Structure::Atomic => Shared::Atomic(Arc::new(AtomicWords::new(zeros))),
            Structure::Lock => Shared::Lock(Arc::new(SpinLock::new(zeros))),
            Structure::PerThreadLock => {
                Shared::PerThreadLock(Arc::new(PerThreadLock::new(threads)))
            }
            Structure::PerThreadLocks => {
                Shared::PerThreadLocks(Arc::new(PerThreadLock::new(threads)))
            }
            Structure::Rcu => Shared::Rcu(Arc::new(Rcu::new(zeros, threads, RCU_SLOTS))),
            Structure::Rw => Shared::Rw(Arc::new(RwSpin::new(zeros))),
            Structure::PerThreadRw => {
                Shared::PerThreadRw(Arc::new(PerThreadRw::new(zeros, threads)))
            }
            Structure::RxW(preferred) => Shared::RxW(Arc::new(RxW::new(threads, preferred))),
            Structure::Seq => Shared::Seq(Arc::new(SeqWords::new(zeros))),
        })
    }

    /// A thread's access to the sums; `None` if the maximum number of threads have one. (If threads
    /// have no slots of their own, there is one for all.)
    pub fn join(&self) -> Option<Box<dyn Tally>> {
        Some(match &self.0 {
            Shared::PerThread(shared) => Box::new(ThreadSlot::take(shared)?),
            Shared::Atomic(shared) => Box::new(shared.clone()),
            Shared::Lock(shared) => Box::new(shared.clone()),
            Shared::PerThreadLock(shared) => Box::new(ThreadSlot::take(shared)?),
            Shared::PerThreadLocks(shared) => Box::new(AllLocks(ThreadSlot::take(shared)?)),
            Shared::Rcu(shared) => Box::new(ThreadSlot::take(shared)?),
            Shared::Rw(shared) => Box::new(shared.clone()),
            Shared::PerThreadRw(shared) => Box::new(ThreadSlot::take(shared)?),
            Shared::RxW(shared) => Box::new(ThreadSlot::take(shared)?),
            Shared::Seq(shared) => Box::new(shared.clone()),
        })
    }
}
