//! Whether a function that gives nothing back had a processor to work with. On a machine with too
//! much to do a function that is well can get none for seconds; to end it would lose what it has
//! and give its successor no more of the processor.
//!
//! The kernel reports: how long each thread ran (`schedstat`), and whether it could run now
//! (`stat`). Nothing that the function writes counts.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

/// What a thread has of the processors.
#[derive(Debug, Clone, Copy)]
struct Share {
    /// The thread's number.
    thread: i32,
    /// How long it ran, in all.
    ran: Duration,
    /// Whether it runs, or could.
    can_run: bool,
}

impl Share {
    /// Of each thread of a process; `None` when it has ended or the kernel does not report.
    fn all_of(pid: i32) -> Option<Vec<Share>> {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let all: Vec<Share> =
            threads.flatten().filter_map(|thread| Share::of_thread(&thread.path())).collect();
        (!all.is_empty()).then_some(all)
    }

    fn of_thread(path: &Path) -> Option<Share> {
        let read = |name| std::fs::read_to_string(path.join(name)).ok();
        let thread = path.file_name()?.to_str()?.parse().ok()?;
        let ran = read("schedstat")?.split(' ').next()?.parse().ok()?;
        // Behind the name, which is in parentheses and may hold any.
        let state = read("stat")?.rsplit_once(')')?.1.trim_start().chars().next();
        Some(Share { thread, ran: Duration::from_nanos(ran), can_run: state == Some('R') })
    }
}

/// How often in a row a function may be late for want of a processor: one that has made itself the
/// last in the queue is not waited for without end.
const EXCUSES: u32 = 16;
/// A thread has had its chance if it ran for this share of the time.
const CHANCE: u32 = 10;

/// What is known of one process.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// When it was looked at, newest last, and what its threads had by then.
    seen: VecDeque<(Duration, Vec<Share>)>,
    excuses: u32,
}

impl Watch {
    /// Packets begin to wait for the process.
    pub fn look(&mut self, now: Duration, pid: i32) {
        if let Some(shares) = Share::all_of(pid) {
            self.note(now, shares);
        }
    }

    fn note(&mut self, now: Duration, shares: Vec<Share>) {
        // One that is old enough, and the last.
        if self.seen.len() > 1 {
            self.seen.pop_front();
        }
        self.seen.push_back((now, shares));
    }

    /// Whether a thread of the process, which has had a packet for `hang`, hardly had a processor
    /// meanwhile. Which of them has the packet only the process knows: others that work do not
    /// speak against the one that cannot.
    pub fn is_starved(&mut self, now: Duration, hang: Duration, pid: i32) -> bool {
        Share::all_of(pid).is_some_and(|shares| self.judge(now, hang, shares))
    }

    fn judge(&mut self, now: Duration, hang: Duration, shares: Vec<Share>) -> bool {
        let old_enough = |(at, _): &&(Duration, Vec<Share>)| now.saturating_sub(*at) >= hang / 2;
        let Some((at, before)) = self.seen.iter().rfind(old_enough) else { return false };
        let chance = now.saturating_sub(*at) / CHANCE;
        // One that began meanwhile is not known for long enough.
        let is_starved = shares.iter().filter(|share| share.can_run).any(|share| {
            let known = before.iter().find(|old| old.thread == share.thread);
            known.is_some_and(|old| share.ran.saturating_sub(old.ran) < chance)
        });
        self.note(now, shares);
        self.excuses = if is_starved { self.excuses + 1 } else { 0 };
        is_starved && self.excuses <= EXCUSES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANG: Duration = Duration::from_secs(1);

    /// Of threads 1 and so on: how long each ran, in milliseconds, and whether it could run.
    fn shares<const N: usize>(threads: [(u64, bool); N]) -> Vec<Share> {
        let share =
            |(thread, (ms, can_run))| Share { thread, ran: Duration::from_millis(ms), can_run };
        (1..).zip(threads).map(share).collect()
    }

    /// Looked at now, and a second later, in which its threads ran so long.
    fn judged<const N: usize>(threads: [(u64, bool); N]) -> bool {
        let mut watch = Watch::default();
        watch.note(Duration::from_secs(5), shares([(70, true); N]));
        let after = threads.map(|(ms, can_run)| (70 + ms, can_run));
        watch.judge(Duration::from_secs(6), HANG, shares(after))
    }

    #[test]
    fn who_could_run_and_hardly_did_is_starved() {
        assert!(judged([(0, true)]) && judged([(99, true)]));
        assert!(!judged([(0, false)]), "it sleeps");
        assert!(!judged([(100, true)]) && !judged([(1000, true)]), "it had its chance");
    }

    #[test]
    fn each_thread_is_judged_by_itself() {
        assert!(judged([(1000, true), (3, true)]), "one Worker starves beside one that works");
        assert!(judged([(0, false), (3, true)]));
        assert!(!judged([(1000, true), (0, false)]), "one hangs beside one that works");
        assert!(!judged([(0, false), (0, false)]));
        let mut watch = Watch::default();
        watch.note(Duration::from_secs(5), shares([(70, true)]));
        let with_a_new_one = shares([(1000, true), (1, true)]);
        assert!(!watch.judge(Duration::from_secs(6), HANG, with_a_new_one));
    }

    #[test]
    fn nobody_is_judged_by_a_moment() {
        let one = |ms| shares([(ms, true)]);
        let mut watch = Watch::default();
        assert!(!watch.judge(HANG, HANG, one(0)), "it was never looked at");
        let mut watch = Watch::default();
        watch.note(Duration::from_millis(400), one(0));
        watch.note(Duration::from_millis(1300), one(90));
        // By the older of the two.
        assert!(watch.judge(Duration::from_millis(1400), HANG, one(90)));
    }

    #[test]
    fn excuses_end() {
        let mut watch = Watch::default();
        watch.note(Duration::ZERO, shares([(0, true)]));
        let mut starved =
            |second: u64| watch.judge(Duration::from_secs(second), HANG, shares([(0, true)]));
        assert!((1..=u64::from(EXCUSES)).all(&mut starved));
        assert!(!starved(u64::from(EXCUSES) + 1));
    }

    #[test]
    fn the_kernel_tells_of_this_process() {
        let clock = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_nsec;
        let pid = std::process::id().cast_signed();
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let now = || {
            let all = Share::all_of(pid).expect("the kernel reports it");
            *all.iter().find(|share| share.thread == own).expect("this thread")
        };
        let before = now();
        let begin = clock();
        while clock().abs_diff(begin) < 20_000_000 {}
        let after = now();
        assert!(after.ran >= before.ran + Duration::from_millis(10) && after.can_run);
        assert!(Share::all_of(i32::MAX).is_none());
    }
}
