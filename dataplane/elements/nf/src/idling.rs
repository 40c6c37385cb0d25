//! What a thread does when its function gives nothing back: it looks again, makes sure that the
//! function is awake, and sleeps.

use thruway_element::{Cx, Run};
use thruway_exchange::Tuning;

use super::replica::Nf;
use super::state::NfState;
use super::waking::Policy;

/// Rounds in which nothing came back before the thread may sleep.
///
/// A round with nothing to do takes some 100 ns: this is about one exchange between two cores.
const PATIENCE: u32 = 64;
/// Rounds between two looks whether the wake-up line must be cleared while resting: a wake-up that
/// comes late must not keep the thread awake.
const QUIET_EVERY: u32 = 16;
/// Token of the timer that ends the age of waiting packets.
const AGE_TIMER: u32 = 1;

impl Nf {
    /// Nothing came back: the thread may sleep, after some patience.
    pub fn rest(&mut self, cx: &mut Cx<'_>) -> Run {
        let is_pressed = self.pressing.is_felt(cx);
        let Some(NfState { link: Some(link), .. }) = &mut self.running else { return Run::Again };
        if is_pressed {
            // Whoever presses wakes the thread; an old wake-up must not.
            link.quiet();
            return Run::Idle;
        }
        self.idle = self.idle.saturating_add(1);
        if link.outstanding() > 0 && self.idle < PATIENCE {
            return Run::Again;
        }
        if self.resting && !self.idle.is_multiple_of(QUIET_EVERY) {
            return Run::Idle;
        }
        match self.resting {
            true => link.quiet_late(),
            false => link.quiet(),
        }
        if let Policy::Adaptive { .. } = self.policy {
            link.ensure_awake();
        } else if link.may_sleep_through() && !self.resting {
            let age = i64::try_from(self.tuning.age_threshold).unwrap_or(i64::MAX);
            cx.set_timer(AGE_TIMER, cx.now().saturating_add(age));
        }
        self.resting = link.rest();
        if self.resting { Run::Idle } else { Run::Again }
    }

    /// Something moves: the function need not wake this thread.
    #[inline]
    pub fn be_awake(&mut self) {
        self.idle = 0;
        if std::mem::replace(&mut self.resting, false)
            && let Some(NfState { link: Some(link), .. }) = &mut self.running
        {
            link.wakened();
        }
    }

    /// Wakes the function if packets have waited for that long enough; see [`super::waking`].
    #[inline]
    pub fn wake_if_due(&mut self, cx: &Cx<'_>) {
        let Some(NfState { link: Some(link), gathering, .. }) = &mut self.running else { return };
        match self.policy {
            Policy::Fixed => link.check_age(cx.now()),
            Policy::Adaptive { latency } => {
                let since = link.unattended_since();
                if gathering.is_due(latency, since, link.put_count(), cx.now()) {
                    link.ensure_awake();
                }
            }
        }
    }

    /// Sets the thresholds, which then decide when the function is woken.
    pub fn set_tuning(&mut self, tuning: Tuning) {
        (self.tuning, self.policy) = (tuning, Policy::Fixed);
        if let Some(NfState { link: Some(link), .. }) = &mut self.running {
            link.tune(tuning);
        }
    }
}
