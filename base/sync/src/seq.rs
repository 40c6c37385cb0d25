//! A few words that are read and written together, without a lock that anyone waits for.

use crate::atomic::{AtomicU64, Ordering, fence};
use crate::words::{Cells, Words, WordsMut, cells};

/// `N` words behind a version: a reader sees all of them as one writer left them, or learns that a
/// writer interfered. It writes nothing, so any number of readers share the cache line. A writer
/// that finds another one at work gets an error. Nothing waits here; the caller decides about a
/// retry.
///
/// ```
/// use thruway_sync::SeqWords;
/// let words = SeqWords::new([1, 2]);
/// words.try_write(|words| { words.set(0, 3); words.set(1, 4) }).expect("no other writer");
/// assert_eq!(words.read(|words| [words.get(0), words.get(1)]), Some([3, 4]));
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct SeqWords<const N: usize> {
    /// Odd during a write.
    version: AtomicU64,
    words: Cells<N>,
}

impl<const N: usize> SeqWords<N> {
    /// These words.
    pub fn new(words: [u64; N]) -> Self {
        SeqWords { version: AtomicU64::new(0), words: cells(words) }
    }

    /// The result of `f`, if no writer interfered. Words that `f` reads may be of different writes
    /// until then: it must not trust them more than any other number.
    #[inline]
    pub fn read<R>(&self, f: impl FnOnce(Words<'_, N>) -> R) -> Option<R> {
        // Acquire: sees the stores of this version's writer, by its release below. An odd version
        // shows everything that happened before its writer came.
        let version = self.version.load(Ordering::Acquire);
        if version & 1 != 0 {
            return None;
        }
        let found = f(Words(&self.words));
        // With the writer's fence: if a load above saw a store of a later writer, the load below
        // sees that writer's odd version (or a later one).
        fence(Ordering::Acquire);
        (self.version.load(Ordering::Relaxed) == version).then_some(found)
    }

    /// Lets `change` write, if no other thread does. `change` must not panic: the words would stay
    /// closed.
    #[inline]
    pub fn try_write<R>(&self, change: impl FnOnce(&mut WordsMut<'_, N>) -> R) -> Option<R> {
        let version = self.version.load(Ordering::Relaxed);
        if version & 1 != 0 {
            return None;
        }
        // Acquire: after the last writer's release. Release: a reader that sees the odd version
        // sees this thread's earlier writes.
        let taken = self.version.compare_exchange(
            version,
            version.wrapping_add(1),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        taken.ok()?;
        // The odd version before all stores of words: pairs with the fence in `read`.
        fence(Ordering::Release);
        let done = change(&mut WordsMut(&self.words));
        // Release: a reader that sees the even version sees the words.
        self.version.store(version.wrapping_add(2), Ordering::Release);
        Some(done)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_writer_keeps_others_out() {
        let words = SeqWords::new([0; 3]);
        let inside = words.try_write(|inner| {
            inner.set(2, 7);
            assert_eq!(words.read(|words| words.get(2)), None);
            assert!(words.try_write(|_| ()).is_none());
            inner.get(2)
        });
        assert_eq!(inside, Some(7));
        assert_eq!(words.read(|words| words.get(2)), Some(7));
    }

    #[test]
    fn a_write_in_progress_makes_a_read_fail() {
        let words = SeqWords::new([0]);
        let seen = words.read(|inner| {
            words.try_write(|words| words.set(0, 1)).expect("no writer");
            inner.get(0)
        });
        assert_eq!(seen, None);
    }
}
