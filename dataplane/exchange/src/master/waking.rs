//! How the Master makes sure that the Worker does not sleep while tokens wait.

use super::Master;
use crate::bell::{Bell, ring};
use crate::storage::Storage;

impl<S: Storage> Master<S> {
    /// Wakes the Worker if tokens wait for longer than the age threshold (Algorithm 3).
    #[inline]
    pub fn check_age<B: Bell>(&mut self, bell: &B, now: u64) {
        if now.saturating_sub(self.oldest) >= self.tuning.age_threshold {
            self.ensure_awake(bell);
        }
    }

    /// Whether tokens were shown for which the Worker may have to be woken.
    #[inline]
    pub fn may_sleep_through(&self) -> bool {
        self.ensured != self.published && self.outstanding() > 0
    }

    /// When the oldest token was shown for which the Worker may have to be woken; `None` if there
    /// is none.
    #[inline]
    pub fn unattended_since(&self) -> Option<u64> {
        if !self.may_sleep_through() {
            return None;
        }
        // The Worker has seen what it gave back, whatever was made sure of.
        let unattended = self.published.wrapping_sub(self.ensured).min(self.outstanding());
        Some(self.shown_at(self.published.wrapping_sub(unattended)))
    }

    /// Wakes the Worker if it sleeps although tokens wait.
    ///
    /// A Worker that was awake after tokens were shown sees them before it sleeps (its
    /// second look), so the word is looked at once for each publication at most.
    #[inline]
    pub fn ensure_awake<B: Bell>(&mut self, bell: &B) {
        if self.may_sleep_through() {
            self.wake(bell);
        }
    }

    pub(super) fn wake<B: Bell>(&mut self, bell: &B) {
        self.ensured = self.published;
        if ring(bell) {
            self.figures.wake_ups += 1;
        }
    }
}
