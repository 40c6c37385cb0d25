//! Whether a thread sleeps, told such that no wake-up is lost.

use crate::atomic::{AtomicBool, Ordering, fence};

/// One thread sleeps and others leave things for it, in places of their own: who leaves something
/// learns whether the thread must be woken, by whatever ends its sleep.
///
/// The thread says that it lies down, looks once more wherever something may have been left, and
/// only then sleeps. While it is awake, leaving something costs a fence and a look, nothing more.
#[derive(Debug, Default)]
pub struct Doze(AtomicBool);

impl Doze {
    /// Awake.
    #[cfg(not(loom))]
    pub const fn new() -> Doze {
        Doze(AtomicBool::new(false))
    }

    /// The thread is going to sleep, unless it still finds something: to be called before it looks.
    pub fn lie_down(&self) {
        self.0.store(true, Ordering::Relaxed);
        // With the one in `must_wake`: either who leaves something sees the word, or the look that
        // follows sees what was left.
        fence(Ordering::SeqCst);
    }

    /// It is awake.
    pub fn get_up(&self) {
        // Relaxed: who sees the old word wakes one who is awake, no more.
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether the caller must wake the thread, after it has left something: so is told one caller
    /// for each sleep.
    #[inline]
    pub fn must_wake(&self) -> bool {
        fence(Ordering::SeqCst);
        // Relaxed: the fences order what was left. One of several callers gets the word.
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_wakes_who_sleeps() {
        let doze = Doze::new();
        assert!(!doze.must_wake());
        doze.lie_down();
        assert!(doze.must_wake() && !doze.must_wake());
        doze.lie_down();
        doze.get_up();
        assert!(!doze.must_wake());
    }
}
