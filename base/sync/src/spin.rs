//! One at a time, whether reader or writer.

use crate::atomic::{AtomicBool, Ordering};
use crate::wait::Wait;
use crate::words::{Cells, Words, WordsMut, cells};

/// A lock for which threads wait without sleeping.
#[derive(Debug, Default)]
pub(crate) struct Lock(AtomicBool);

/// The lock is held; dropping this leaves it.
pub(crate) struct Held<'a>(&'a Lock);

impl Lock {
    /// Waits for the lock.
    #[inline]
    pub(crate) fn hold(&self) -> Held<'_> {
        self.acquire();
        Held(self)
    }

    /// Waits for the lock; the caller must call `release`.
    #[inline]
    pub(crate) fn acquire(&self) {
        let mut wait = Wait::default();
        // Acquire: sees the last holder's writes, by its release. No swap: under loom a waiter's
        // swap could undo the release, which the language rules out.
        while self
            .0
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            // Looking, unlike taking, leaves the line with the holder.
            while self.0.load(Ordering::Relaxed) {
                wait.pause();
            }
        }
    }

    /// Leaves the lock.
    #[inline]
    pub(crate) fn release(&self) {
        // Release: the next holder's acquire sees this holder's writes.
        self.0.store(false, Ordering::Release);
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.release();
    }
}

/// `N` words of which one thread at a time has the use.
///
/// ```
/// use thruway_sync::SpinLock;
/// let words = SpinLock::new([1, 2]);
/// words.write(|words| words.add(0, 6));
/// assert_eq!(words.read(|words| [words.get(0), words.get(1)]), [7, 2]);
/// ```
///
/// A thread that asks for the words while it has their use waits forever.
#[derive(Debug)]
#[repr(align(128))]
pub struct SpinLock<const N: usize> {
    lock: Lock,
    words: Cells<N>,
}

impl<const N: usize> SpinLock<N> {
    /// These words.
    pub fn new(words: [u64; N]) -> Self {
        SpinLock { lock: Lock::default(), words: cells(words) }
    }

    /// Lets `f` read, alone.
    #[inline]
    pub fn read<R>(&self, f: impl FnOnce(Words<'_, N>) -> R) -> R {
        let _held = self.lock.hold();
        f(Words(&self.words))
    }

    /// Lets `change` write, alone.
    #[inline]
    pub fn write<R>(&self, change: impl FnOnce(&mut WordsMut<'_, N>) -> R) -> R {
        let _held = self.lock.hold();
        change(&mut WordsMut(&self.words))
    }
}
