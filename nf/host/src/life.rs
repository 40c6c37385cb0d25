//! The life of a function, as a machine without threads, clocks or system calls: events go in,
//! actions come out.
//!
//! | state | event | goes to | actions |
//! |---|---|---|---|
//! | Starting | attached | Running | publish |
//! | Starting | broke, attach deadline | Quarantined | kill |
//! | Starting, Running | ended | Restarting or Failed | withdraw if published |
//! | Running | broke, hangs | Quarantined | withdraw, kill |
//! | Running | drain | Draining | ask to drain |
//! | Draining | ended | Stopped | withdraw |
//! | Draining | broke, drain deadline | Ending | withdraw, kill |
//! | Quarantined | ended | Restarting or Failed | |
//! | Restarting | its time has come | Starting | start the next generation |
//! | Starting, Running, Quarantined | stop | Ending | withdraw if published, kill |
//! | Starting, Quarantined | drain | as stop: it holds no packets | |
//! | Restarting | stop, drain | Stopped | |
//! | Ending | ended | Stopped | |
//!
//! | forbidden | why |
//! |---|---|
//! | out of Stopped or Failed | the end was reported; a new function is a new machine |
//! | a second start before the end of the first process | two processes would write one region |
//! | published while Quarantined, Ending, Restarting | a Master would hand packets to nobody |
//! | from Quarantined back to Running | a function that lied once is not believed again |
//!
//! What a state does not list, it ignores: events may be late.

use std::time::Duration;

/// What happens between the failures of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Time from the first start that failed to the next one.
    pub first: Duration,
    /// Longest time; each start that fails after another doubles it up to this.
    pub max: Duration,
    /// Functions that ran are started again at once, so many times in a row; then once in `every`.
    pub burst: u32,
    /// Time in which one more such start is allowed.
    pub every: Duration,
    /// A function that ran so long has failed for the first time, for `failures_max`.
    pub stable_after: Duration,
    /// Failures in a row after which it is given up; never if `None`.
    pub failures_max: Option<u32>,
}

impl Default for Backoff {
    /// Starts that fail: 10 ms, doubled up to 10 s. Functions that ran: at once, 32 times, and one
    /// more every tenth of a second, which bounds what one that dies in a loop costs. Stable after
    /// 10 s; never given up.
    fn default() -> Backoff {
        Backoff {
            first: Duration::from_millis(10),
            max: Duration::from_secs(10),
            burst: 32,
            every: Duration::from_millis(100),
            stable_after: Duration::from_secs(10),
            failures_max: None,
        }
    }
}

impl Backoff {
    /// Time to the next start after so many failures in a row (at least one).
    fn delay(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.max)
    }
}

/// How patient the host is with a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// From the start of the process to READY.
    pub attach: Duration,
    /// How long it may have a packet before it is killed; for ever if `None`. The Masters measure
    /// it, by their own notes ([`Function::report_hang`](crate::Function::report_hang)): nothing
    /// that the function writes counts.
    pub hang: Option<Duration>,
    /// From the request to drain to the end of the process.
    pub drain: Duration,
}

impl Default for Patience {
    /// 5 s to attach, 1 s of hanging, 1 s to drain.
    fn default() -> Patience {
        Patience {
            attach: Duration::from_secs(5),
            hang: Some(Duration::from_secs(1)),
            drain: Duration::from_secs(1),
        }
    }
}

/// Where a function stands in its life; see the table of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its process runs and has not attached yet.
    Starting,
    /// It works.
    Running,
    /// It was asked to finish what it has and to end.
    Draining,
    /// It broke the protocol or hangs: it gets nothing any more and is being killed.
    Quarantined,
    /// It is being killed because it is to stop.
    Ending,
    /// Its process is gone; the next starts after a while.
    Restarting,
    /// It was stopped.
    Stopped,
    /// It was given up.
    Failed,
}

impl State {
    /// A word for people.
    pub fn name(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Running => "running",
            State::Draining => "draining",
            State::Quarantined => "quarantined",
            State::Ending => "ending",
            State::Restarting => "restarting",
            State::Stopped => "stopped",
            State::Failed => "failed",
        }
    }

    /// Whether nothing follows.
    pub fn is_final(self) -> bool {
        matches!(self, State::Stopped | State::Failed)
    }

    /// Whether it has a process.
    fn has_process(self) -> bool {
        !matches!(self, State::Restarting | State::Stopped | State::Failed)
    }

    /// Whether Masters may have its links.
    fn is_published(self) -> bool {
        matches!(self, State::Running | State::Draining)
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The function said READY.
    Attached,
    /// Its process is gone, or could not be started.
    Ended,
    /// It broke the protocol.
    Broke,
    /// It has had a packet for too long.
    Hangs,
    /// Time has passed.
    Time,
    /// It shall finish what it has and end.
    Drain,
    /// It shall end.
    Stop,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Start a process for this generation, with fresh regions.
    Start(u32),
    /// Give the Masters their links.
    Publish,
    /// Take the links back.
    Withdraw,
    /// Kill the process.
    Kill,
    /// Ask the function to drain.
    AskToDrain,
}

/// Why the machine itself had a function killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    Attach,
    Progress,
    Drain,
}

/// A function's life. Times are since any fixed moment.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    state: State,
    patience: Patience,
    backoff: Backoff,
    generation: u32,
    /// When the state was entered.
    since: Duration,
    /// When the next start is due, in Restarting.
    restart_at: Duration,
    /// Failures in a row, and how many of them, the last ones, were starts.
    failures: u32,
    failed_starts: u32,
    /// Starts at once that are left, and since when the next one is earned.
    at_once: u32,
    earned_at: Duration,
    overdue: Option<Overdue>,
    has_attached: bool,
}

impl Life {
    /// A function whose first process is to be started: do so.
    pub fn new(patience: Patience, backoff: Backoff, now: Duration) -> (Life, Action) {
        let life = Life {
            state: State::Starting,
            patience,
            backoff,
            generation: 1,
            since: now,
            restart_at: now,
            failures: 0,
            failed_starts: 0,
            at_once: backoff.burst,
            earned_at: now,
            overdue: None,
            has_attached: false,
        };
        (life, Action::Start(1))
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// Number of the present or next process; the first is 1.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Which deadline the last process missed, if it did.
    pub fn overdue(&self) -> Option<Overdue> {
        self.overdue
    }

    /// When [`Event::Time`] is due, if the state waits for a time.
    pub fn deadline(&self) -> Option<Duration> {
        match self.state {
            State::Starting => Some(self.since + self.patience.attach),
            State::Draining => Some(self.since + self.patience.drain),
            State::Restarting => Some(self.restart_at),
            _ => None,
        }
    }

    /// Takes in what happened; gives what is to be done, in order.
    pub fn on(&mut self, now: Duration, event: Event) -> Vec<Action> {
        match event {
            Event::Attached => self.attached(now),
            Event::Ended => self.ended(now),
            Event::Broke => self.broke(now, None),
            Event::Hangs => self.hangs(now),
            Event::Time => self.time(now),
            Event::Drain => self.drain(now),
            Event::Stop => self.stop(now),
        }
    }

    fn enter(&mut self, state: State, now: Duration) {
        self.state = state;
        self.since = now;
    }

    fn attached(&mut self, now: Duration) -> Vec<Action> {
        if self.state != State::Starting {
            return Vec::new();
        }
        self.enter(State::Running, now);
        self.has_attached = true;
        self.failed_starts = 0;
        vec![Action::Publish]
    }

    fn ended(&mut self, now: Duration) -> Vec<Action> {
        if !self.state.has_process() {
            return Vec::new();
        }
        let actions = if self.state.is_published() { vec![Action::Withdraw] } else { Vec::new() };
        match self.state {
            State::Draining | State::Ending => self.enter(State::Stopped, now),
            State::Running => {
                self.count_failure(now);
                self.try_again(now);
            }
            // Starting; or Quarantined, where the failure was counted before.
            State::Starting => {
                self.count_failed_start();
                self.try_again(now);
            }
            _ => self.try_again(now),
        }
        actions
    }

    fn count_failed_start(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.failed_starts = self.failed_starts.saturating_add(1);
    }

    /// Time to the next start.
    fn delay(&mut self, now: Duration) -> Duration {
        if self.failed_starts > 0 {
            return self.backoff.delay(self.failed_starts);
        }
        let every = self.backoff.every;
        while self.at_once < self.backoff.burst && now.saturating_sub(self.earned_at) >= every {
            self.at_once += 1;
            self.earned_at += every.max(Duration::from_nanos(1));
        }
        if self.at_once == self.backoff.burst {
            self.earned_at = now;
        }
        if self.at_once == 0 {
            // It is earned then, and used at once.
            self.earned_at += every;
            return self.earned_at.saturating_sub(now);
        }
        self.at_once -= 1;
        Duration::ZERO
    }

    /// Counts a failure of a function that ran since `since`.
    fn count_failure(&mut self, now: Duration) {
        if now.saturating_sub(self.since) >= self.backoff.stable_after {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
    }

    /// One that never attached is wrongly configured or built: trying again does not help.
    fn try_again(&mut self, now: Duration) {
        let given_up = self.backoff.failures_max.is_some_and(|most| self.failures >= most);
        if given_up || !self.has_attached {
            self.enter(State::Failed, now);
        } else {
            self.restart_at = now + self.delay(now);
            self.enter(State::Restarting, now);
        }
    }

    fn broke(&mut self, now: Duration, overdue: Option<Overdue>) -> Vec<Action> {
        let next = match self.state {
            State::Starting => {
                self.count_failed_start();
                State::Quarantined
            }
            State::Running => {
                self.count_failure(now);
                State::Quarantined
            }
            State::Draining => State::Ending,
            _ => return Vec::new(),
        };
        self.overdue = overdue;
        self.kill(next, now)
    }

    fn kill(&mut self, next: State, now: Duration) -> Vec<Action> {
        let published = self.state.is_published();
        self.enter(next, now);
        // In this order: Masters take slots and frames back when links are withdrawn, and one that
        // is not dead yet could still write into them (verify/promela, mutant RECLAIM_ALIVE).
        if published { vec![Action::Kill, Action::Withdraw] } else { vec![Action::Kill] }
    }

    /// One that is draining has a deadline of its own.
    fn hangs(&mut self, now: Duration) -> Vec<Action> {
        match self.state {
            State::Running => self.broke(now, Some(Overdue::Progress)),
            _ => Vec::new(),
        }
    }

    fn time(&mut self, now: Duration) -> Vec<Action> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return Vec::new();
        }
        match self.state {
            State::Starting => self.broke(now, Some(Overdue::Attach)),
            State::Draining => self.broke(now, Some(Overdue::Drain)),
            State::Restarting => {
                // 0 means that no function runs.
                self.generation = self.generation.checked_add(1).unwrap_or(1);
                self.overdue = None;
                self.enter(State::Starting, now);
                vec![Action::Start(self.generation)]
            }
            _ => Vec::new(),
        }
    }

    fn drain(&mut self, now: Duration) -> Vec<Action> {
        if self.state != State::Running {
            return if self.state == State::Draining { Vec::new() } else { self.stop(now) };
        }
        self.enter(State::Draining, now);
        vec![Action::AskToDrain]
    }

    fn stop(&mut self, now: Duration) -> Vec<Action> {
        match self.state {
            State::Starting | State::Running | State::Draining => self.kill(State::Ending, now),
            State::Quarantined => {
                // It is being killed already.
                self.enter(State::Ending, now);
                Vec::new()
            }
            State::Restarting => {
                self.enter(State::Stopped, now);
                Vec::new()
            }
            State::Ending | State::Stopped | State::Failed => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
