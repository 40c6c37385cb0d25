//! A shared balance that grows with time.

use crate::CachePadded;
use crate::atomic::{AtomicU64, Ordering};

/// A token bucket without tokens, for any number of threads: its one word is the time at which it
/// was empty, or will be, and what there is of it is the time since then. Spending moves that time
/// forwards. Units of time are the users', and wrap; all must mean the same.
///
/// The total spent between two times is never more than the maximum balance plus the time between
/// them, whichever threads spend and however their clocks differ: the word only moves forwards, and
/// never beyond the clock of a spender, unless that one overdraws it.
///
/// It has no lock: if one thread has to look again, another one has spent. Each spending moves the
/// cache line to the spending thread, so spend for a whole batch of packets at a time.
///
/// ```
/// use thruway_sync::Credit;
/// let (credit, most) = (Credit::new(100), 50);
/// let all = |there: i64| there.max(0) as u64;
/// assert_eq!(credit.spend(130, most, all), 30);
/// assert_eq!(credit.spend(130, most, all), 0);
/// assert_eq!(credit.spend(500, most, all), 50);
/// ```
#[derive(Debug, Default)]
pub struct Credit(CachePadded<AtomicU64>);

impl Credit {
    /// One that was empty at this time.
    pub fn new(empty: u64) -> Credit {
        Credit(CachePadded(AtomicU64::new(empty)))
    }

    /// When it was empty, or will be.
    pub fn empty_at(&self) -> u64 {
        // Relaxed, like all here: the word stands for itself and orders nothing else.
        self.0.0.load(Ordering::Relaxed)
    }

    /// Sets when it was empty.
    pub fn set_empty_at(&self, empty: u64) {
        self.0.0.store(empty, Ordering::Relaxed);
    }

    /// Calls `spend` with the balance at time `now`, which is at most `most` and negative while it
    /// is overdrawn; it returns the amount to spend. It is called again if another thread came
    /// first; the last result counts, and is returned.
    #[inline]
    pub fn spend(&self, now: u64, most: u64, mut spend: impl FnMut(i64) -> u64) -> u64 {
        let mut empty = self.empty_at();
        loop {
            let there =
                (now.wrapping_sub(empty) as i64).min(i64::try_from(most).unwrap_or(i64::MAX));
            let spent = spend(there);
            if spent == 0 {
                return 0;
            }
            let next = now.wrapping_sub(there as u64).wrapping_add(spent);
            let swap =
                self.0.0.compare_exchange_weak(empty, next, Ordering::Relaxed, Ordering::Relaxed);
            match swap {
                Ok(_) => return spent,
                Err(other) => empty = other,
            }
        }
    }

    /// Returns an unused amount.
    #[inline]
    pub fn give_back(&self, spent: u64) {
        self.0.0.fetch_sub(spent, Ordering::Relaxed);
    }
}
