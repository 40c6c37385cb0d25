//! How a Worker sleeps and is woken, so that no wake-up is lost.
//!
//! One word per Worker, shared by all Master threads. The published protocol (Algorithm 5, lines
//! 24-26) lets the Worker say WAIT_FOR_SIGNAL *after* its last look at the ring: a token that comes
//! in between wakes nobody. Here the Worker says WAITING, fences, and looks again:
//!
//! ```text
//! Worker                               Master
//! status = WAITING                     M.prod = n            (Release)
//! fence(SeqCst)               W1       fence(SeqCst)         M1
//! look at every M.prod again           status == WAITING ?
//!   tokens: status = RUNNING, go on      swap(SIGNED) was WAITING: wake
//!   none: sleep while status == WAITING
//! ```
//!
//! The two fences are in some order. If W1 is first, the Master's look comes after WAITING was
//! written and it wakes; if M1 is first, the Worker's look sees the tokens. Acquire and Release
//! alone would allow each side to miss the other's write (store buffering), hence SeqCst fences.

use core::time::Duration;

use thruway_nf_abi::control::{RUNNING, SIGNED, WAITING};
use thruway_sync::atomic::{AtomicU32, Ordering, fence};

/// A Worker's wake-up word, seen from a Master.
pub trait Bell {
    /// The word: RUNNING, WAITING or SIGNED.
    fn status(&self) -> &AtomicU32;

    /// Ends the Worker's sleep: a system call.
    fn wake(&self);
}

/// A Worker's wake-up word, seen from itself.
pub trait SleepWord {
    /// The word: RUNNING, WAITING or SIGNED.
    fn status(&self) -> &AtomicU32;

    /// Sleeps while the word is WAITING, at most so long; may return early.
    fn sleep(&self, at_most: Option<Duration>);
}

/// Wakes the Worker if it sleeps or is about to. True if this call woke it: of several Masters
/// only one does. The tokens must have been published before.
#[inline]
pub fn ring<B: Bell>(bell: &B) -> bool {
    // M1: orders the publication before the look at the word; pairs with W1 in `rest`.
    fence(Ordering::SeqCst);
    // Relaxed: the word carries no data; what is ordered is ordered by the fences.
    if bell.status().load(Ordering::Relaxed) != WAITING {
        return false;
    }
    // A swap, because another Master may be here too: one of them gets WAITING.
    if bell.status().swap(SIGNED, Ordering::Relaxed) != WAITING {
        return false;
    }
    bell.wake();
    true
}

/// How a rest ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// There was work at the second look: it did not sleep.
    None,
    /// A Master woke it.
    Woken,
    /// The time was over, or the kernel ended the sleep for its own reasons.
    TimedOut,
}

/// Declares that the Worker goes to sleep. False, and nothing declared, when `has_work` finds some
/// at the second look; it must read the shared indices afresh. A Worker that was woken swaps in
/// RUNNING itself.
pub fn prepare_wait(status: &AtomicU32, mut has_work: impl FnMut() -> bool) -> bool {
    // A swap, as every write of this word: both sides write it, and only read-modify-writes have
    // one order in loom's eyes (plain stores of two threads have none there). It costs nothing:
    // the Worker is about to sleep.
    status.swap(WAITING, Ordering::Relaxed);
    // W1: orders WAITING before the second look; pairs with M1 in `ring`.
    fence(Ordering::SeqCst);
    if has_work() {
        status.swap(RUNNING, Ordering::Relaxed);
        return false;
    }
    true
}

/// Lets a Worker sleep until a Master rings, unless `has_work` finds some at the second look.
pub fn rest<B: SleepWord>(
    bed: &B,
    at_most: Option<Duration>,
    has_work: impl FnMut() -> bool,
) -> Rest {
    if !prepare_wait(bed.status(), has_work) {
        return Rest::None;
    }
    bed.sleep(at_most);
    match bed.status().swap(RUNNING, Ordering::Relaxed) {
        WAITING => Rest::TimedOut,
        _ => Rest::Woken,
    }
}
