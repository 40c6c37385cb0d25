//! What a host of a pair does again and again: it follows the term, sends or installs sessions,
//! looks whether the other host is there, and renews its lease.

use std::time::Duration;

use thruway_element::Cx;

use super::Replicate;
use super::role::Role;

/// Time between two looks at what changed, nanoseconds.
const TICK_NS: i64 = 5_000_000;
/// The same while packets may wait for the other host.
const HURRIED_TICK_NS: i64 = 500_000;
/// A tick that comes later than this after the one before it is late.
const LATE_NS: i64 = 50_000_000;
/// Batches taken in one tick at most.
const BATCHES: usize = 32;

impl Replicate {
    /// Asks for the lease that this host needs, and notes until when it may serve.
    fn renew_lease(&mut self, now: i64) {
        let Some(leasing) = &self.leasing else { return };
        self.link.claim(match self.role {
            Role::Active => Some(self.term),
            Role::Backup if self.wants_takeover => Some(self.term.next()),
            Role::Backup | Role::SwitchingOver { .. } => None,
        });
        let left = leasing.left(&self.link, self.term);
        let left = i64::try_from(left.as_nanos()).unwrap_or(i64::MAX);
        self.leased_until = if left > 0 { now.saturating_add(left) } else { i64::MIN };
    }

    /// Whether a backup that is to take over may: with a witness only with a lease.
    fn may_take_over(&self) -> bool {
        self.leasing.is_none() || !self.link.lease_left(self.term.next()).is_zero()
    }

    /// Notes a tick. Where ticks were late this process stood still, and has not listened: the
    /// other host's silence counts from then on.
    fn note_tick(&mut self, now: i64) {
        if now.saturating_sub(self.ticked) > LATE_NS {
            self.steady_since = now;
        }
        self.ticked = now;
    }

    /// Whether the active host has been silent for long enough, while this one listened.
    fn is_abandoned(&self, now: i64) -> bool {
        let listened = Duration::from_nanos(now.saturating_sub(self.steady_since).max(0) as u64);
        self.after.is_some_and(|after| self.link.silence().min(listened) > after)
    }

    /// A host that begins serves no traffic until it has reached the other one, or could not for a
    /// while: that may have taken over.
    fn end_hold(&mut self, now: i64, is_connected: bool) {
        if self.held_until > 0 && (is_connected || now >= self.held_until) {
            self.held_until = 0;
        }
        if self.serves() {
            self.is_new = false;
        }
    }

    /// Interval of ticks, nanoseconds.
    pub(super) fn tick_ns(&self, now: i64) -> i64 {
        // Acknowledgements to senders wait for the next look.
        let acknowledges = self.role == Role::Active && self.sender.goes_on();
        let is_hurried = self.commit.is_some() || acknowledges || now < self.hurry_until;
        if is_hurried || self.switchover_until.is_some() { HURRIED_TICK_NS } else { TICK_NS }
    }

    /// Takes over where the other host is silent, or an operator wants it and it is not reached.
    fn take_over_if_wanted(&mut self, cx: &mut Cx<'_>, is_connected: bool) {
        let is_backup = self.role == Role::Backup;
        self.is_takeover_requested &= is_backup && !is_connected;
        let is_due = self.installer.is_synchronized()
            && !self.link.is_foreign()
            && self.is_abandoned(cx.now());
        self.wants_takeover = is_backup && (is_due || self.is_takeover_requested);
        if self.wants_takeover {
            let silence = self.link.stop_echo();
            // Or it was heard at this moment.
            self.wants_takeover = self.after.is_none_or(|after| silence > after);
        }
        if !self.wants_takeover {
            self.link.resume_echo();
        }
        self.renew_lease(cx.now());
        if self.wants_takeover && self.may_take_over() {
            let silence = self.link.silence();
            self.take_over(cx, &format!("the other host was silent for {silence:.0?}"));
            self.renew_lease(cx.now());
        }
    }

    fn tick_active(&mut self, cx: &mut Cx<'_>) {
        self.sender.tick(cx);
        self.commits_now |= self.sender.complete_stream().is_some();
        if let Some(commit) = &mut self.commit {
            commit.release(cx, self.sender.ledger());
        }
        self.try_switchover(cx);
    }

    pub(super) fn tick(&mut self, cx: &mut Cx<'_>) {
        self.note_tick(cx.now());
        // Also at a backup: a packet may come as soon as it serves.
        self.sender.count_changed(cx);
        // In this order: a stream begins when the term of both is known.
        let is_connected = self.link.stream().is_some();
        self.follow(cx, self.link.term());
        self.end_hold(cx.now(), is_connected);
        match self.role {
            Role::Active => self.tick_active(cx),
            Role::SwitchingOver { .. } => self.watch_switchover(cx),
            Role::Backup => {}
        }
        self.receive(cx, BATCHES);
        self.tunnel.flush();
        self.take_over_if_wanted(cx, is_connected);
        self.link.set_has_sessions(self.has_sessions());
        self.call(cx);
        while let Some(line) = self.link.line() {
            cx.log(&format!("Replicate: {line}"));
        }
    }
}
