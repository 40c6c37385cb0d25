//! How the outside and the threads talk to each other: stop flags and mailboxes.

mod stops;

use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use thruway_element::{Facts, HandlerError, Ready, Stats};
use thruway_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use thruway_sync::{Counter, SleepState, StopLevel};

use crate::away::Gaps;
use crate::clock::ClockWords;
use crate::command::Command;
use crate::figures::{NodeFacts, ThreadFigures};
use crate::hot_swaps::HotSwaps;
use crate::layout::Layout;
use crate::signals::Takers;
use crate::trace;

/// Where the lines go that elements write for the user.
pub type LogSink = Arc<dyn Fn(&str) + Send + Sync>;

/// The queued commands of a thread.
#[derive(Default)]
pub(crate) struct CommandQueue {
    /// To be opened between two rounds, when no element runs.
    pub between: Vec<Command>,
    /// Calls that elements of other threads wait for: executed also while one of this thread's
    /// elements waits for an answer itself.
    pub calls: Vec<Command>,
}

/// One thread's mailbox.
pub(crate) struct Mailbox {
    waiting: AtomicBool,
    mails: Mutex<CommandQueue>,
    /// Ends the thread's sleep.
    pub wake: OwnedFd,
    /// Whether the thread has ended: it runs no more commands.
    left: AtomicBool,
    /// Whether it sleeps.
    pub sleep_state: SleepState,
    /// Cycles that the thread had nothing to do; it writes, anyone reads.
    pub idle: Counter,
    /// Times that it slept; it writes, anyone reads.
    pub sleeps: Counter,
    /// Times that another thread made a system call to wake it.
    pub rings: AtomicU64,
    /// The state of its clock.
    pub clock: ClockWords,
    /// How long it was away from its round.
    pub gaps: Gaps,
}

/// No element.
const NO_ELEMENT: u32 = u32::MAX;

/// Replaces the running configuration by another text, or returns why that fails.
pub type Reconfigure = Box<dyn Fn(&str) -> Result<(), String> + Send>;
/// Reads the configuration file again and lets it take over, or returns its errors. The argument
/// is what was written to the handler `reload`: how it is to run from then on, or nothing.
pub type Reload = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// The handle by which anyone stops, watches and asks a running router.
pub struct Control {
    /// Which runs must end.
    level: StopLevel,
    /// Whether a stop lets the packets in flight reach their end first.
    drain: bool,
    stopping: AtomicBool,
    /// Number of threads, of those in `boxes`, with no packet in flight.
    drained: AtomicU32,
    stops: AtomicU32,
    /// Index of the element that takes up stops, or `NO_ELEMENT`.
    manager: AtomicU32,
    running: AtomicBool,
    /// The waiters for that.
    beginners: Mutex<Vec<Ready>>,
    boxes: Vec<Mailbox>,
    stats: OnceLock<Vec<Arc<Stats>>>,
    figures: OnceLock<Vec<ThreadFigures>>,
    facts: OnceLock<NodeFacts>,
    layout: OnceLock<Arc<Layout>>,
    takers: Takers,
    reconfigure: Mutex<Option<Reconfigure>>,
    reload: Mutex<Option<Reload>>,
    hot_swaps: Mutex<Arc<HotSwaps>>,
    /// Traces that run, and how many there were.
    traces: Mutex<Vec<Arc<trace::Shared>>>,
    traces_begun: AtomicU32,
    log: LogSink,
    /// Further sinks of the lines for the user.
    log_sinks: Mutex<Vec<LogSink>>,
}

impl Control {
    pub(crate) fn new(threads: usize, drain: bool, log: LogSink) -> std::io::Result<Control> {
        let boxes: Result<Vec<Mailbox>, rustix::io::Errno> = (0..threads)
            .map(|_| {
                let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
                let waiting = AtomicBool::new(false);
                let (idle, clock) = (Counter::new(), ClockWords::new());
                Ok(Mailbox {
                    waiting,
                    left: AtomicBool::new(false),
                    mails: Mutex::default(),
                    wake,
                    sleep_state: SleepState::new(),
                    idle,
                    sleeps: Counter::new(),
                    rings: AtomicU64::new(0),
                    clock,
                    gaps: Gaps::default(),
                })
            })
            .collect();
        Ok(Control {
            level: StopLevel::default(),
            drain,
            stopping: AtomicBool::new(false),
            drained: AtomicU32::new(0),
            stops: AtomicU32::new(0),
            manager: AtomicU32::new(NO_ELEMENT),
            running: AtomicBool::new(false),
            beginners: Mutex::default(),
            boxes: boxes?,
            stats: OnceLock::new(),
            figures: OnceLock::new(),
            facts: OnceLock::new(),
            layout: OnceLock::new(),
            takers: Takers::default(),
            reconfigure: Mutex::default(),
            reload: Mutex::default(),
            hot_swaps: Mutex::default(),
            traces: Mutex::default(),
            traces_begun: AtomicU32::new(0),
            log,
            log_sinks: Mutex::default(),
        })
    }

    /// Passes a line for the user on.
    pub(crate) fn log(&self, line: &str) {
        (self.log)(line);
        for sink in self.log_sinks.lock().iter() {
            sink(line);
        }
    }

    /// Copies all lines for the user to `sink`.
    pub(crate) fn add_log_sink(&self, sink: LogSink) {
        self.log_sinks.lock().push(sink);
    }

    /// The signals that elements wait for, ascending: the owner of the process installs their
    /// handlers, and calls [`Control::signal`] for each signal received.
    pub fn wanted_signals(&self) -> Vec<i32> {
        self.takers.wanted()
    }

    /// Passes a signal of the process to the elements that wait for it: each one's handler `run` is
    /// written once, in its thread, between two rounds. False if no element waits for it.
    pub fn signal(&self, signal: i32) -> bool {
        self.takers.came(signal, |taker| {
            let mail: Command = Box::new(move |out, core| core.signal(out, taker));
            self.mailbox(taker.thread).send(mail);
        })
    }

    /// Signals that elements were notified of but have not begun to process, ascending: after the
    /// last run, none will.
    pub fn signals_left(&self) -> Vec<i32> {
        self.takers.left()
    }

    pub(crate) fn takers(&self) -> &Takers {
        &self.takers
    }

    /// The traces that run.
    pub(crate) fn traces(&self) -> MutexGuard<'_, Vec<Arc<trace::Shared>>> {
        self.traces.lock()
    }

    /// How many traces there were before this one.
    pub(crate) fn next_trace(&self) -> u32 {
        self.traces_begun.fetch_add(1, Ordering::Relaxed)
    }

    /// Gives the router a writable `hotconfig` handler.
    pub fn allow_reconfigure(&self, reconfigure: Reconfigure) {
        *self.reconfigure.lock() = Some(reconfigure);
    }

    /// Replaces the configuration, where that is allowed.
    pub(crate) fn reconfigure(&self, text: &str) -> Result<(), HandlerError> {
        let reconfigure = self.reconfigure.lock();
        match &*reconfigure {
            Some(reconfigure) => reconfigure(text).map_err(HandlerError::refused),
            None => Err(HandlerError::no_write("hotconfig")),
        }
    }

    /// Gives the router a writable `reload` handler, which reads its configuration file again.
    pub fn allow_reload(&self, reload: Reload) {
        *self.reload.lock() = Some(reload);
    }

    /// Reads the configuration file again and lets it take over; `how` is to run, if that changes
    /// (see [`Reload`]).
    ///
    /// # Errors
    /// This driver does not reload, or the configuration is wrong; the running one continues.
    pub fn reload(&self, how: &str) -> Result<(), HandlerError> {
        let reload = self.reload.lock();
        match &*reload {
            Some(reload) => reload(how).map_err(HandlerError::refused),
            None => Err(HandlerError::no_write("reload")),
        }
    }

    /// Has the handler `swaps` answer with these counts.
    pub fn share_hot_swaps(&self, counts: Arc<HotSwaps>) {
        *self.hot_swaps.lock() = counts;
    }

    /// The outcomes of the process's hot swaps.
    pub(crate) fn hot_swaps(&self) -> String {
        self.hot_swaps.lock().lines()
    }

    /// Whether [`reload`](Control::reload) does something.
    pub fn reloads(&self) -> bool {
        self.reload.lock().is_some()
    }

    pub(crate) fn set_running(&self, running: bool) {
        self.running.store(running, Ordering::Release);
        if running {
            let beginners = self.beginners.lock();
            beginners.iter().for_each(|ready| ready());
        }
    }

    /// A thread that reads [`Control::running`] after this is called again if that changes: the
    /// lock orders the read against the change.
    pub(crate) fn when_running(&self, ready: &Ready) {
        let mut beginners = self.beginners.lock();
        beginners.push(Ready::clone(ready));
    }

    /// Whether the threads are running.
    pub fn running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    pub(crate) fn set_layout(&self, layout: Arc<Layout>) {
        // Set once, as the statistics are.
        let _ = self.layout.set(layout);
    }

    pub(crate) fn set_stats(&self, stats: Vec<Arc<Stats>>) {
        // Set once, before anyone else has the handle.
        let _ = self.stats.set(stats);
    }

    /// Every thread's counters, by element index.
    pub fn stats(&self) -> &[Arc<Stats>] {
        self.stats.get().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn set_figures(&self, figures: Vec<ThreadFigures>) {
        // Set once, as the statistics are.
        let _ = self.figures.set(figures);
    }

    /// Every thread's published figures.
    pub(crate) fn figures(&self) -> &[ThreadFigures] {
        self.figures.get().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn set_facts(&self, facts: NodeFacts) {
        // Set once, before anyone asks: the router does not run yet.
        let _ = self.facts.set(facts);
    }

    /// The facts about elements.
    pub(crate) fn facts(&self) -> &[(usize, Arc<dyn Facts>)] {
        self.facts.get().map_or(&[], Vec::as_slice)
    }

    /// Cycles that a thread had nothing to do, up to the last time it woke.
    pub(crate) fn idle_cycles(&self, thread: usize) -> u64 {
        self.boxes.get(thread).map_or(0, |mailbox| mailbox.idle.get())
    }

    pub(crate) fn mailbox(&self, thread: usize) -> &Mailbox {
        &self.boxes[thread]
    }

    fn wake_all(&self) {
        for mailbox in &self.boxes {
            mailbox.ring();
        }
    }

    /// Number of its threads.
    pub(crate) fn threads(&self) -> usize {
        self.boxes.len()
    }

    /// The layout, whether it runs or not.
    pub(crate) fn laid_out(&self) -> Option<&Layout> {
        self.layout.get().map(|layout| &**layout)
    }

    pub(crate) fn layout(&self) -> Option<&Arc<Layout>> {
        self.layout.get().filter(|_| self.running())
    }
}

impl Mailbox {
    /// Leaves work to be done between two rounds.
    pub fn send(&self, mail: Command) {
        self.put(|mails| mails.between.push(mail));
    }

    /// Queues a call that an element of another thread waits for.
    pub fn send_call(&self, mail: Command) {
        self.put(|mails| mails.calls.push(mail));
    }

    fn put(&self, put: impl FnOnce(&mut CommandQueue)) {
        put(&mut self.mails.lock());
        // Release: a thread that sees the flag sees the queued commands.
        self.waiting.store(true, Ordering::Release);
        self.wake();
    }

    /// Wakes the thread, if it sleeps, after something was left for it.
    #[inline]
    pub fn wake(&self) {
        if self.sleep_state.must_wake() {
            self.ring();
        }
    }

    /// Whether commands are queued: one load, once per round.
    #[inline]
    pub fn waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// The thread begins to open its mail.
    pub fn enter(&self) {
        self.left.store(false, Ordering::Release);
    }

    /// The thread opens no mail any more.
    pub fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    /// Whether the thread has stopped running commands.
    pub fn is_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// All that waits.
    pub fn take(&self) -> CommandQueue {
        let mut mails = self.mails.lock();
        self.waiting.store(false, Ordering::Release);
        std::mem::take(&mut *mails)
    }

    /// Takes the calls that elements of other threads wait for; the rest stays queued.
    pub fn take_calls(&self) -> Vec<Command> {
        let mut mails = self.mails.lock();
        self.waiting.store(!mails.between.is_empty(), Ordering::Release);
        std::mem::take(&mut mails.calls)
    }

    fn ring(&self) {
        // Relaxed: a count, which orders nothing.
        self.rings.fetch_add(1, Ordering::Relaxed);
        // A full counter means that it is rung already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Takes the ring off, after waking.
    pub fn quiet(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
    }
}
