//! How long the function may have a packet: HANG, measured by this thread's own notes. Nothing that
//! the function writes counts, its heartbeat least of all.
//!
//! Not counted is the time in which it cannot give back: while this thread takes nothing because
//! what lies downstream is full, and while the thread itself was late. Whether the function had a
//! processor to work with, its supervisor judges.

use thruway_element::Cx;

use super::link::Link;
use super::replica::Nf;
use super::state::NfState;

/// Token of the timer that looks for a hang.
pub(super) const HANG_TIMER: u32 = 3;
/// A timer that comes later than by this share of HANG says that the thread was away.
const LATE_SHARE: i64 = 4;

impl Nf {
    /// Sees to it that a function that has packets is looked at again.
    #[inline]
    pub fn expect_back(&mut self, cx: &mut Cx<'_>) {
        if self.hang.due.is_none()
            && let Some(NfState { link: Some(link), .. }) = &self.running
            && link.outstanding() > 0
            && let Some(limit) = self.hang_limit()
        {
            self.look_for_hang_at(cx, cx.now().saturating_add(limit));
        }
    }

    /// Nothing is taken from the function now: it may have to wait, too.
    #[inline]
    pub fn excuse(&mut self, cx: &Cx<'_>) {
        self.hang.excused = cx.now();
    }

    /// The timer: has the function ended if it has had a packet for too long.
    #[cold]
    pub fn look_for_hang(&mut self, cx: &mut Cx<'_>) {
        let Some(due) = self.hang.due.take() else { return };
        let Some(limit) = self.hang_limit() else { return };
        self.follow(cx);
        if cx.now().saturating_sub(due) > limit / LATE_SHARE {
            self.excuse(cx);
        }
        // What is back was not kept.
        if self.collect(cx) {
            self.be_awake();
        }
        let Some(NfState { link: Some(link), function, generation, .. }) = &self.running else {
            return;
        };
        let Some(since) = link.held_since() else { return };
        let end = since.max(self.hang.excused).saturating_add(limit);
        if cx.now() >= end {
            function.report_hang(*generation);
            // Until it is gone.
            self.excuse(cx);
        }
        let end = end.max(self.hang.excused.saturating_add(limit));
        self.look_for_hang_at(cx, end);
    }

    fn look_for_hang_at(&mut self, cx: &mut Cx<'_>, at: i64) {
        self.hang.due = Some(at);
        if let Some(state) = &self.running {
            state.function.watch();
        }
        cx.set_timer(HANG_TIMER, at);
    }

    /// HANG, and the time before the function is woken at all; `None` for ever.
    fn hang_limit(&self) -> Option<i64> {
        let hang = i64::try_from(self.settings.hang.as_nanos()).unwrap_or(i64::MAX);
        let asleep = match self.tuning.master_threshold {
            0 => 0,
            _ => i64::try_from(self.tuning.age_threshold).unwrap_or(i64::MAX),
        };
        (hang > 0).then(|| hang.saturating_add(asleep))
    }
}

impl Link {
    /// Since when the function has had its oldest packet.
    pub fn held_since(&self) -> Option<i64> {
        self.master.held_since().map(|since| i64::try_from(since).unwrap_or(i64::MAX))
    }
}
