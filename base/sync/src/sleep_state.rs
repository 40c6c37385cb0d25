//! Whether a thread sleeps, published so that no wake-up is lost.

use crate::atomic::{AtomicBool, Ordering, fence};

/// One thread sleeps and others leave work for it, in memory of their own: the leaver learns
/// whether it must wake the thread, by the mechanism that ends its sleep.
///
/// The thread announces its sleep, checks once more wherever work may have been left, and
/// only then sleeps. While it is awake, leaving work costs a fence and a load, nothing more.
#[derive(Debug, Default)]
pub struct SleepState(AtomicBool);

impl SleepState {
    /// Awake.
    #[cfg(not(loom))]
    pub const fn new() -> SleepState {
        SleepState(AtomicBool::new(false))
    }

    /// The thread is going to sleep, unless it still finds work: to be called before it checks.
    pub fn prepare_wait(&self) {
        self.0.store(true, Ordering::Relaxed);
        // With the fence in `must_wake`: either the thread that leaves work sees the word, or the
        // check that follows sees the work.
        fence(Ordering::SeqCst);
    }

    /// It is awake.
    pub fn end_wait(&self) {
        // Relaxed: a thread that sees the old word wakes one that is awake, no more.
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether the caller must wake the thread, after it has left work: true for one caller
    /// for each sleep.
    #[inline]
    pub fn must_wake(&self) -> bool {
        fence(Ordering::SeqCst);
        // Relaxed: the fences order the work. One of several callers gets the word.
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_caller_wakes_a_sleeping_thread() {
        let sleep_state = SleepState::new();
        assert!(!sleep_state.must_wake());
        sleep_state.prepare_wait();
        assert!(sleep_state.must_wake() && !sleep_state.must_wake());
        sleep_state.prepare_wait();
        sleep_state.end_wait();
        assert!(!sleep_state.must_wake());
    }
}
