//! An idle thread: polls for a while, then sleeps until a packet, a timer, another thread or a
//! command ends that.
//!
//! No wake-up is lost: the thread announces its sleep, runs one more round, and sleeps only if that
//! finds nothing either ([`thruway_sync::SleepState`]). A thread that leaves work for it wakes it.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thruway_packet::cycles;

use crate::clock::STABILISE_NS;
use crate::engine::Engine;

/// Longest sleep: elements may change without a notification (a file that grows), and sessions end.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// Sleep while the router stops: rounds must check for packets in flight.
const SLEEP_STOPPING: Duration = Duration::from_micros(200);
impl Engine {
    /// A round found something to do.
    #[inline]
    pub(crate) fn go_on(&mut self) {
        if self.rest.rounds > 0 {
            self.end_quiet();
        }
    }

    fn end_quiet(&mut self) {
        let rest = &mut self.rest;
        if std::mem::take(&mut rest.lying) {
            self.core.control.mailbox(self.core.thread).sleep_state.end_wait();
        }
        let quiet = self.out.now().saturating_sub(rest.since);
        rest.patience.learn(quiet, std::mem::take(&mut rest.slept));
        rest.rounds = 0;
    }

    /// A round found nothing to do: waits, and counts the time; from the second such round on that
    /// the rounds take, too.
    pub(crate) fn rest(&mut self) {
        self.rest.rounds = self.rest.rounds.saturating_add(1);
        let begin = if self.rest.rounds > 1 { self.rest.rested } else { cycles() };
        self.idle();
        self.rest.rested = cycles();
        self.away.rested(self.rest.rested);
        let spent = self.rest.rested.wrapping_sub(begin);
        self.core.control.mailbox(self.core.thread).idle.add(spent);
    }

    /// Polls, prepares to sleep, or sleeps; simulated time jumps.
    fn idle(&mut self) {
        let next = self.next_event();
        if let (true, Some(next)) = (self.time.is_simulated(), next) {
            self.out.set_now(self.out.now().max(next));
            return;
        }
        let now = self.out.now();
        if self.rest.rounds == 1 {
            self.rest.since = now;
        }
        let left = next.map_or(i64::MAX, |next| next.saturating_sub(now));
        let quiet = now.saturating_sub(self.rest.since);
        if !self.rest.patience.is_over(quiet, left) {
            return std::hint::spin_loop();
        }
        let control = std::sync::Arc::clone(&self.core.control);
        let sleep_state = &control.mailbox(self.core.thread).sleep_state;
        if !std::mem::replace(&mut self.rest.lying, true) {
            // The next round is the look that follows.
            return sleep_state.prepare_wait();
        }
        let longest = match (control.is_stopping(), self.time.is_settling()) {
            (true, _) => SLEEP_STOPPING,
            (false, true) => Duration::from_nanos(STABILISE_NS),
            (false, false) => SLEEP_MAX,
        };
        let left = Duration::from_nanos(u64::try_from(left).unwrap_or(0));
        control.mailbox(self.core.thread).sleeps.add(1);
        self.sleep(left.min(longest));
        sleep_state.end_wait();
        (self.rest.lying, self.rest.slept) = (false, true);
        self.out.set_now(self.time.read(self.out.now()));
    }

    fn sleep(&mut self, longest: Duration) {
        let mailbox = self.core.control.mailbox(self.core.thread);
        let mut fds: Vec<PollFd<'_>> = std::mem::take(&mut self.rest.room);
        fds.push(PollFd::new(&mailbox.wake, PollFlags::IN));
        fds.extend(self.core.fds.iter().map(|(_, fd)| PollFd::new(fd, PollFlags::IN)));
        let timeout = Timespec {
            tv_sec: longest.as_secs() as i64,
            tv_nsec: i64::from(longest.subsec_nanos()),
        };
        // An interrupted or failed poll means only that the next round comes sooner.
        let _ = poll(&mut fds, Some(&timeout));
        if !fds[0].revents().is_empty() {
            mailbox.quiet();
        }
        self.rest.room = emptied(fds);
    }
}

/// The same allocation, free of its borrows: collecting a vector from another one of the same type
/// reuses that one's memory.
fn emptied(fds: Vec<PollFd<'_>>) -> Vec<PollFd<'static>> {
    fds.into_iter().map_while(|_| None).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_kept() {
        let file = std::fs::File::open("/dev/null").expect("there is one");
        let fds: Vec<PollFd<'_>> = (0..9).map(|_| PollFd::new(&file, PollFlags::IN)).collect();
        let capacity = fds.capacity();
        let room = emptied(fds);
        assert!(room.is_empty() && room.capacity() == capacity);
    }
}
