//! Atomics facade, cache padding, and structures that threads can share without sleeping.
//!
//! Every other crate takes its atomics from here (the structure check sees to it), so that
//! `--cfg loom` swaps them all for the model checker's.
//!
//! # Which structure to take
//!
//! Prefer none: data of one thread, sent to others by messages, needs nothing here, or a ring from
//! one thread to another ([`spsc()`]) for much of it. Shared data consists of words, and two
//! questions decide: is it mostly read or mostly written, and must a read be one consistent
//! snapshot? (The thesis of FastClick and MiddleClick, section 4.3 and table 4.1; here measured by
//! `thruway-bench sync` on two cores, rows in `bench/record`.)
//!
//! A limit that threads keep together is a [`Credit`].
//!
//! | a reader relies on | mostly read | both | mostly written |
//! |---|---|---|---|
//! | each word by itself | [`AtomicWords`] | [`PerThread`] | [`PerThread`], [`Counter`] |
//! | each thread's words | [`SeqWords`] | [`SeqWords`] | [`PerThreadLock`], lock by lock |
//! | all words of a moment | [`SeqWords`], [`Rcu`] | [`SeqWords`], [`SpinLock`] | [`PerThreadLock`] |
//! | few of many words | [`SeqWords`], [`PerThreadRw`] | [`SeqWords`] | [`PerThreadLock`] |
//!
//! Notes on the table:
//!
//! - A word that two threads write costs each of them some 35 ns a time, whatever is around it; a
//!   word that only one writes, 2 to 7. That decides more than the sort of lock.
//! - [`SeqWords`] is not in the thesis. Its readers write nothing and so cost each other nothing,
//!   but retry when a writer interfered: a writer without pauses keeps them retrying.
//! - [`Rcu`]'s readers never wait, for some 6 ns; its writers pay for a copy and for looking at all
//!   readers: 50 ns and more, the more readers and words there are.
//! - [`RwSpin`] lets readers in together, but all of them write its one word: [`PerThreadRw`] reads
//!   seven times as fast, and writes at less than half the speed.
//! - [`RxW`] is for many cores, where many write and reads are not rare. On two it is never the
//!   fastest: sides wait for each other at each change. A preference does not make it faster; it
//!   bounds how long the preferred side waits (half as long, at the 99th percentile).
#![forbid(unsafe_code)]

/// The atomics of `core`, or of loom under `--cfg loom`.
pub mod atomic {
    #[cfg(not(loom))]
    pub use core::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        fence,
    };
    #[cfg(loom)]
    pub use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        fence,
    };
}

/// Cells with accesses that loom watches: `with` and `with_mut` give raw pointers, and under loom
/// an access that races with another is an error.
pub mod cell {
    #[cfg(loom)]
    pub use loom::cell::UnsafeCell;

    /// A cell of `core` with loom's interface.
    #[cfg(not(loom))]
    #[derive(Debug, Default)]
    pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    #[cfg(not(loom))]
    impl<T> UnsafeCell<T> {
        /// A cell of this value.
        pub const fn new(value: T) -> Self {
            UnsafeCell(core::cell::UnsafeCell::new(value))
        }

        /// Gives a pointer to read by.
        #[inline]
        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        /// Gives a pointer to write by.
        #[inline]
        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}

mod bucket;
mod credit;
mod rcu;
mod rw;
mod rxw;
mod seq;
mod sleep_state;
mod spin;
mod spsc;
mod stop;
mod tally;
mod thread_slot;
mod wait;
mod word;
mod words;

use atomic::{AtomicU64, Ordering};
pub use bucket::{PerThreadLock, PerThreadRw};
pub use credit::Credit;
pub use rcu::Rcu;
pub use rw::RwSpin;
pub use rxw::{Preferred, RxW};
pub use seq::SeqWords;
pub use sleep_state::SleepState;
pub use spin::SpinLock;
pub use spsc::{Consumer, Producer, Take, spsc};
pub use stop::{RunNumber, StopLevel};
pub use tally::{Consistency, Structure, Tallies, Tally};
pub use thread_slot::{HasThreadSlots, ThreadSlot, ThreadSlots};
pub use word::{AtomicWords, PerThread};
pub use words::{Words, WordsMut};

/// A value alone on its cache line, so that two threads' writes do not fight over one.
///
/// 128 bytes: adjacent-line prefetchers pull lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

/// A counter with one writer and any number of readers.
///
/// The writer pays a plain load and store: no locked instruction, because no other thread writes.
/// Readers see a value that was true a moment ago.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter that starts at zero.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Counter(AtomicU64::new(0))
    }

    /// Adds `n`; only ever called by the counter's one writer.
    #[inline]
    pub fn add(&self, n: u64) {
        // Relaxed: a statistic orders nothing else.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The present count.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the count; only ever called by the counter's one writer.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }
}
