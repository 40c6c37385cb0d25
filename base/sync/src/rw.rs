//! Many readers or one writer, behind one word.

use crate::atomic::{AtomicU32, Ordering};
use crate::wait::Wait;
use crate::words::{Cells, Words, WordsMut, cells};

/// A writer is inside; lower values are the number of readers.
const WRITER: u32 = u32::MAX;

/// `N` words that many threads may read at a time, or one may write.
///
/// ```
/// use thruway_sync::RwSpin;
/// let words = RwSpin::new([1, 2]);
/// words.write(|words| words.set(1, 3));
/// assert_eq!(words.read(|words| [words.get(0), words.get(1)]), [1, 3]);
/// ```
///
/// Readers that come one after the other can keep a writer waiting. A thread that writes while it
/// reads, or reads while it writes, waits forever.
#[derive(Debug)]
#[repr(align(128))]
pub struct RwSpin<const N: usize> {
    inside: AtomicU32,
    words: Cells<N>,
}

/// A reader is inside; dropping this leaves.
struct Reading<'a>(&'a AtomicU32);

impl Drop for Reading<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: a writer's stores come behind this reader's loads.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// The writer is inside; dropping this leaves.
struct Writing<'a>(&'a AtomicU32);

impl Drop for Writing<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: the next holder sees what was written.
        self.0.store(0, Ordering::Release);
    }
}

impl<const N: usize> RwSpin<N> {
    /// These words.
    pub fn new(words: [u64; N]) -> Self {
        RwSpin { inside: AtomicU32::new(0), words: cells(words) }
    }

    /// Lets `f` read, beside other readers.
    #[inline]
    pub fn read<R>(&self, f: impl FnOnce(Words<'_, N>) -> R) -> R {
        // One more must not look like a writer.
        self.enter(|inside| (inside < WRITER - 1).then(|| inside + 1));
        let _reading = Reading(&self.inside);
        f(Words(&self.words))
    }

    /// Lets `change` write, alone.
    #[inline]
    pub fn write<R>(&self, change: impl FnOnce(&mut WordsMut<'_, N>) -> R) -> R {
        self.enter(|inside| (inside == 0).then_some(WRITER));
        let _writing = Writing(&self.inside);
        change(&mut WordsMut(&self.words))
    }

    /// Waits until `next` returns the new state, and sets it.
    #[inline]
    fn enter(&self, next: impl Fn(u32) -> Option<u32>) {
        let mut wait = Wait::default();
        let mut inside = self.inside.load(Ordering::Relaxed);
        loop {
            let Some(next) = next(inside) else {
                wait.pause();
                inside = self.inside.load(Ordering::Relaxed);
                continue;
            };
            // Acquire: after the releases of all previous holders; the entries and exits of readers
            // in between extend their release sequences.
            let entered = self.inside.compare_exchange_weak(
                inside,
                next,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match entered {
                Ok(_) => return,
                Err(now) => inside = now,
            }
        }
    }
}
