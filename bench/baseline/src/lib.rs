//! What `thruway-bench exchange` measures the exchange against. Nothing that ships uses it.
//!
//! Two traditional exchanges, of section 6.3 of the paper (Cerrato et al., JPDC 114, 2018), built
//! from the same storage, with the same care:
//!
//! - *pair*: two one-way rings of frames, one towards the Worker and one back; the Worker copies
//!   each packet from the one to the other;
//! - *pointers*: two one-way rings of frame numbers, as between the parts of a DPDK application;
//!   frames lie in memory that all share and never move, nobody is isolated from anybody.
//!
//! The same care: private copies of the peer's index, shared words on lines of their own, batched
//! publication, prefetching, the same wake-up word. More than usual: because a packet always comes
//! back, the Master hands out no more than a ring holds, so that neither ring has a consumer index
//! and the Worker never finds the return ring full.
//!
//! And the exchange itself with choices that it did not make ([`Variant`]).
//!
//! This crate holds unsafe code: Workers change packets in place.

mod pair;
mod pointers;
mod variant;

pub use pair::{PairMaster, PairToken, PairWorker};
pub use pointers::{PointerMaster, PointerRing, PointerWorker};
pub use variant::Variant;

use thruway_exchange::{Bell, Tuning, ring};
use thruway_sync::atomic::{AtomicU32, Ordering};

/// The Master's indices of a pair of one-way rings, private.
struct Flight {
    slots: u32,
    tuning: Tuning,
    shared_indices: bool,
    /// Producer index of the ring towards the Worker, with what is not yet published.
    produced: u32,
    /// The same as the Worker sees it.
    published: u32,
    /// Private copy of the producer index of the ring back.
    returned: u32,
    /// Tokens taken out of the ring back.
    consumed: u32,
    oldest: u64,
}

impl Flight {
    fn new(slots: u32, tuning: Tuning, shared_indices: bool) -> Flight {
        Flight {
            slots,
            tuning,
            shared_indices,
            produced: 0,
            published: 0,
            returned: 0,
            consumed: 0,
            oldest: 0,
        }
    }

    fn room(&self) -> u32 {
        self.slots - self.produced.wrapping_sub(self.consumed)
    }

    fn publish<B: Bell>(&mut self, word: &AtomicU32, bell: &B, now: u64) {
        if self.produced == self.published {
            return;
        }
        if self.published == self.consumed {
            self.oldest = now;
        }
        self.published = self.produced;
        // Release: slots before the index; pairs with the Acquire in `Shift::look`.
        word.store(self.published, Ordering::Release);
        if self.published.wrapping_sub(self.returned) > self.tuning.master_threshold {
            ring(bell);
        }
    }

    fn check_age<B: Bell>(&self, bell: &B, now: u64) {
        let is_waiting = self.published != self.returned;
        if is_waiting && now.saturating_sub(self.oldest) >= self.tuning.age_threshold {
            ring(bell);
        }
    }

    /// Tokens that may be taken, at most `limit`. The Worker is trusted here.
    fn ready(&mut self, word: &AtomicU32, now: u64, limit: u32) -> u32 {
        if self.returned == self.consumed || self.shared_indices {
            // Acquire: slots before the index; pairs with the Release in `Shift::publish`.
            self.returned = word.load(Ordering::Acquire);
        }
        let count = self.returned.wrapping_sub(self.consumed).min(limit);
        if count > 0 {
            self.oldest = now;
        }
        count
    }
}

/// The Worker's indices, private. A token's number is the same in both rings.
struct Shift {
    threshold: u32,
    limit: u32,
    consumed: u32,
    published: u32,
}

impl Shift {
    fn new(threshold: u32) -> Shift {
        Shift { threshold: threshold.max(1), limit: 0, consumed: 0, published: 0 }
    }

    fn look(&mut self, word: &AtomicU32) -> u32 {
        // Acquire: pairs with the Release in `Flight::publish`.
        self.limit = word.load(Ordering::Acquire);
        self.limit.wrapping_sub(self.consumed)
    }

    fn waiting(&mut self, word: &AtomicU32) -> u32 {
        if self.limit == self.consumed {
            self.look(word)
        } else {
            self.limit.wrapping_sub(self.consumed)
        }
    }

    fn advance(&mut self, n: u32, word: &AtomicU32) {
        self.consumed = self.consumed.wrapping_add(n);
        if self.consumed.wrapping_sub(self.published) >= self.threshold {
            self.publish(word);
        }
    }

    fn publish(&mut self, word: &AtomicU32) {
        if self.published != self.consumed {
            self.published = self.consumed;
            // Release: slots before the index; pairs with the Acquire in `Flight::ready`.
            word.store(self.published, Ordering::Release);
        }
    }
}
