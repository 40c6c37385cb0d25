//! Whether a function that gives nothing back had a processor to work with. On a machine with too
//! much to do a function that is well can get none for seconds; to end it would lose what it has
//! and give its successor no more of the processor.
//!
//! The kernel reports: how long each thread ran (`schedstat`), and whether it could run now
//! (`stat`). Nothing that the function writes counts.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

/// What the threads of a process have of the processors.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    /// How long they ran, in all.
    ran: Duration,
    /// Whether one of them runs, or could.
    can_run: bool,
}

impl Share {
    /// Of a process; `None` when it has ended or the kernel does not report.
    fn of(pid: i32) -> Option<Share> {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let each = threads.flatten().filter_map(|thread| Share::of_thread(&thread.path()));
        each.reduce(|all, one| Share {
            ran: all.ran + one.ran,
            can_run: all.can_run || one.can_run,
        })
    }

    fn of_thread(thread: &Path) -> Option<Share> {
        let read = |name| std::fs::read_to_string(thread.join(name)).ok();
        let ran = read("schedstat")?.split(' ').next()?.parse().ok()?;
        // Behind the name, which is in parentheses and may hold any.
        let state = read("stat")?.rsplit_once(')')?.1.trim_start().chars().next();
        Some(Share { ran: Duration::from_nanos(ran), can_run: state == Some('R') })
    }
}

/// How often in a row a function may be late for want of a processor: one that has made itself the
/// last in the queue is not waited for without end.
const EXCUSES: u32 = 16;
/// A function has had its chance if it ran for this share of the time.
const CHANCE: u32 = 10;

/// What is known of one process.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// When it was looked at, newest last, and how long it had run by then.
    seen: VecDeque<(Duration, Duration)>,
    excuses: u32,
}

impl Watch {
    /// Packets begin to wait for the process.
    pub fn look(&mut self, now: Duration, pid: i32) {
        if let Some(share) = Share::of(pid) {
            self.note(now, share.ran);
        }
    }

    fn note(&mut self, now: Duration, ran: Duration) {
        // One that is old enough, and the last.
        if self.seen.len() > 1 {
            self.seen.pop_front();
        }
        self.seen.push_back((now, ran));
    }

    /// Whether the process, which has had a packet for `hang`, hardly had a processor meanwhile.
    pub fn is_starved(&mut self, now: Duration, hang: Duration, pid: i32) -> bool {
        Share::of(pid).is_some_and(|share| self.judge(now, hang, share))
    }

    fn judge(&mut self, now: Duration, hang: Duration, share: Share) -> bool {
        let old_enough = |(at, _): &&(Duration, Duration)| now.saturating_sub(*at) >= hang / 2;
        let Some((at, before)) = self.seen.iter().rfind(old_enough).copied() else { return false };
        let time = now.saturating_sub(at);
        let is_starved = share.can_run && share.ran.saturating_sub(before) < time / CHANCE;
        self.note(now, share.ran);
        self.excuses = if is_starved { self.excuses + 1 } else { 0 };
        is_starved && self.excuses <= EXCUSES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANG: Duration = Duration::from_secs(1);

    fn ran(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Of a process that could run, or sleeps.
    fn share(ms: u64, can_run: bool) -> Share {
        Share { ran: ran(ms), can_run }
    }

    /// Looked at now, and a second later.
    fn judged(ms: u64, can_run: bool) -> bool {
        let mut watch = Watch::default();
        watch.note(Duration::from_secs(5), ran(70));
        watch.judge(Duration::from_secs(6), HANG, share(70 + ms, can_run))
    }

    #[test]
    fn who_could_run_and_hardly_did_is_starved() {
        assert!(judged(0, true) && judged(99, true));
        assert!(!judged(0, false), "it sleeps");
        assert!(!judged(100, true) && !judged(1000, true), "it had its chance");
    }

    #[test]
    fn nobody_is_judged_by_a_moment() {
        let mut watch = Watch::default();
        assert!(!watch.judge(HANG, HANG, share(0, true)), "it was never looked at");
        let mut watch = Watch::default();
        watch.note(Duration::from_millis(400), ran(0));
        watch.note(Duration::from_millis(1300), ran(90));
        // By the older of the two.
        assert!(watch.judge(Duration::from_millis(1400), HANG, share(90, true)));
    }

    #[test]
    fn excuses_end() {
        let mut watch = Watch::default();
        watch.note(Duration::ZERO, ran(0));
        let mut starved =
            |second: u64| watch.judge(Duration::from_secs(second), HANG, share(0, true));
        assert!((1..=u64::from(EXCUSES)).all(&mut starved));
        assert!(!starved(u64::from(EXCUSES) + 1));
    }

    #[test]
    fn the_kernel_tells_of_this_process() {
        let clock = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_nsec;
        let pid = std::process::id().cast_signed();
        let before = Share::of(pid).expect("the kernel reports it");
        let begin = clock();
        while clock().abs_diff(begin) < 20_000_000 {}
        let after = Share::of(pid).expect("the kernel reports it");
        assert!(after.ran >= before.ran + Duration::from_millis(10) && after.can_run);
        assert!(Share::of(i32::MAX).is_none());
    }
}
