//! A machine that knows nothing of Thruway, supervised as a function is: started, ready when its
//! drivers use all network cards, ended when it lies or hangs, started again when it ends.
//!
//! Its [`Life`] is a function's. What a function says over its control socket, the machine's
//! network cards show: their owner reports it ([`VmReporter`]).

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};

use crate::error::HostError;
use crate::life::{Action, Backoff, Event, Life, Overdue, Patience, State};
use crate::machine::{StandardOrder, launch_vm};
use crate::process::Process;
use crate::status::Status;

/// Stack of the supervisor's thread, bytes.
const STACK_LEN: usize = 256 << 10;

/// Time between two looks at the console: it is read 64 KB at most in between.
const OUTPUT_PAUSE: Duration = Duration::from_millis(10);

/// What a machine is to be.
#[derive(Debug, Clone)]
pub struct VmSpec {
    /// Image, limits, network cards.
    pub order: StandardOrder,
    /// How patient the host is.
    pub patience: Patience,
    /// What happens between its failures.
    pub backoff: Backoff,
}

/// Makes new sockets for all network cards, listens at them, and gives descriptors by whose names
/// (`/proc/self/fd`) QEMU connects.
pub type Wire = Box<dyn FnMut() -> io::Result<Vec<OwnedFd>> + Send>;

/// What the owner of the network cards reports.
#[derive(Debug)]
enum Report {
    Ready,
    Fault(String),
    Hang,
    Stop,
}

#[derive(Debug)]
struct Shared {
    reports: Mutex<VecDeque<Report>>,
    status: Mutex<Status>,
    changed: Condvar,
    bell: OwnedFd,
}

/// Reports more than this wait for nobody.
const REPORTS_MAX: usize = 64;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn report(&self, report: Report) {
        let mut reports = lock(&self.reports);
        if reports.len() < REPORTS_MAX || matches!(report, Report::Stop) {
            reports.push_back(report);
        }
        drop(reports);
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn change(&self, change: impl FnOnce(&mut Status)) {
        change(&mut lock(&self.status));
        self.changed.notify_all();
    }
}

/// Reports about a machine's network cards, from any thread.
#[derive(Debug, Clone)]
pub struct VmReporter(Arc<Shared>);

impl VmReporter {
    /// The drivers use all network cards.
    pub fn ready(&self) {
        self.0.report(Report::Ready);
    }

    /// The machine broke the protocol of a network card: it is ended and started again.
    pub fn fault(&self, why: String) {
        self.0.report(Report::Fault(why));
    }

    /// The machine has taken nothing for longer than [`Patience::hang`], while packets waited.
    pub fn hang(&self) {
        self.0.report(Report::Hang);
    }
}

/// A machine that is supervised. Dropping it ends the machine and waits for that.
#[derive(Debug)]
pub struct Vm {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Vm {
    /// Prepares a machine: what reports about it can be made before it starts.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn prepare() -> Result<(Vm, VmReporter), HostError> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| HostError::system("making an eventfd", error))?;
        let shared = Arc::new(Shared {
            reports: Mutex::default(),
            status: Mutex::new(Status::starting()),
            changed: Condvar::new(),
            bell,
        });
        let reporter = VmReporter(Arc::clone(&shared));
        Ok((Vm { shared, thread: None }, reporter))
    }

    /// Starts it, and waits until the drivers use its network cards.
    ///
    /// # Errors
    /// Why they do not. A machine that is not ready the first time is not tried again.
    pub fn start(&mut self, spec: VmSpec, wire: Wire) -> Result<(), HostError> {
        let shared = Arc::clone(&self.shared);
        let (reply_to, ready) = sync_channel(1);
        let run = move || Supervisor::new(spec, wire, shared, reply_to).run();
        let thread = std::thread::Builder::new()
            .name("vm-keeper".into())
            .stack_size(STACK_LEN)
            .spawn(run)
            .map_err(|error| HostError::system("starting a supervisor thread", error))?;
        self.thread = Some(thread);
        ready.recv().unwrap_or(Err(HostError::Stopped))
    }

    /// What is known of it.
    pub fn status(&self) -> Status {
        lock(&self.shared.status).clone()
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        self.shared.report(Report::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic there was told by the panic itself; the process died with the thread.
            let _ = thread.join();
        }
    }
}

struct Supervisor {
    spec: VmSpec,
    wire: Wire,
    shared: Arc<Shared>,
    reply_to: Option<SyncSender<Result<(), HostError>>>,
    clock: Instant,
    life: Life,
    events: VecDeque<Event>,
    process: Option<Process>,
    /// Why the present process ends; the first reason counts.
    cause: Option<HostError>,
    output_at: Duration,
    has_output: bool,
}

impl Supervisor {
    fn new(
        spec: VmSpec,
        wire: Wire,
        shared: Arc<Shared>,
        reply_to: SyncSender<Result<(), HostError>>,
    ) -> Supervisor {
        let (life, _start) = Life::new(spec.patience, spec.backoff, Duration::ZERO);
        Supervisor {
            spec,
            wire,
            shared,
            reply_to: Some(reply_to),
            clock: Instant::now(),
            life,
            events: VecDeque::new(),
            process: None,
            cause: None,
            output_at: Duration::ZERO,
            has_output: true,
        }
    }

    fn run(mut self) {
        self.start();
        self.process_events();
        while !self.life.state().is_final() {
            let (ended, output) = self.wait();
            self.round(ended, output);
        }
    }

    fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    fn process_events(&mut self) {
        while let Some(event) = self.events.pop_front() {
            let before = self.life.overdue();
            let actions = self.life.on(self.now(), event);
            self.note_overdue(before);
            for action in actions {
                self.act(action);
            }
            let state = self.life.state();
            self.shared.change(|status| status.state = state);
            if let Some(reply_to) = self.reply_to.take_if(|_| state.is_final()) {
                // One that was never ready is an error of the start.
                let _ = reply_to.try_send(Err(self.cause.take().unwrap_or(HostError::Stopped)));
            }
        }
    }

    /// If a deadline was missed, that is the cause.
    fn note_overdue(&mut self, before: Option<Overdue>) {
        let patience = self.spec.patience;
        let cause = match self.life.overdue() {
            overdue if overdue == before => return,
            Some(Overdue::Attach) => {
                HostError::NeverReady { deadline: patience.attach, output: self.output() }
            }
            Some(Overdue::Progress) => {
                self.shared.change(|status| status.hangs += 1);
                HostError::Hung { hang: patience.hang.unwrap_or_default() }
            }
            Some(Overdue::Drain) | None => return,
        };
        self.cause.get_or_insert(cause);
    }

    fn output(&mut self) -> String {
        self.process.as_mut().map_or_else(String::new, Process::last_output)
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Start(_) => self.start(),
            Action::Publish => {
                let (machine, pid) =
                    (self.spec.order.label.as_str(), self.process.as_ref().map_or(0, Process::pid));
                tracing::info!(machine, pid, "virtual machine is ready");
                if let Some(reply_to) = self.reply_to.take() {
                    let _ = reply_to.try_send(Ok(()));
                }
            }
            Action::Kill => {
                self.bury();
                self.events.push_back(Event::Ended);
            }
            // Cards without a machine drop packets by themselves.
            Action::Withdraw | Action::AskToDrain => {}
        }
    }

    fn start(&mut self) {
        self.cause = None;
        self.has_output = true;
        // What was reported was about the one before.
        lock(&self.shared.reports).retain(|report| matches!(report, Report::Stop));
        let cards =
            (self.wire)().map_err(|source| HostError::System { what: "making sockets", source });
        let launched = cards.and_then(|cards| launch_vm(&self.spec.order, cards));
        match launched.map(Process::of) {
            Ok(process) => {
                let is_again = self.life.generation() > 1;
                self.shared.change(|status| {
                    status.pid = Some(process.pid());
                    status.sandbox = Some(process.report().clone());
                    status.restarts += u64::from(is_again);
                });
                self.process = Some(process);
            }
            Err(error) => {
                let reason = error.to_string();
                self.shared.change(|status| status.last_end = Some(reason));
                self.cause.get_or_insert(error);
                self.events.push_back(Event::Ended);
            }
        }
    }

    /// Ends the process, if it has not ended, and notes how.
    fn bury(&mut self) {
        self.shared.change(|status| status.pid = None);
        let Some(mut process) = self.process.take() else { return };
        let exit = process.kill();
        let output = process.output_kept();
        if let Ok(exit) = exit {
            let ended = HostError::MachineEnded { exit, output: output.clone() };
            self.cause.get_or_insert(ended);
        }
        let end = self.cause.as_ref().map(HostError::to_string);
        let (machine, reason) =
            (self.spec.order.label.as_str(), end.as_deref().unwrap_or_default());
        match self.life.state() {
            State::Ending | State::Stopped => tracing::debug!(machine, "virtual machine stopped"),
            // Whoever starts it reports that.
            _ if self.reply_to.is_some() => {}
            _ => tracing::error!(machine, reason, "virtual machine ended"),
        }
        self.shared.change(|status| {
            status.cpu_time += process.cpu_time();
            status.output = output;
            status.last_end = end;
        });
    }

    /// Waits for something to happen: whether the process ended, whether it wrote something.
    fn wait(&self) -> (bool, bool) {
        let now = self.now();
        let mut until = self.life.deadline();
        let mut fds = vec![PollFd::new(&self.shared.bell, PollFlags::IN)];
        if let Some(process) = &self.process {
            fds.push(PollFd::from_borrowed_fd(process.pidfd(), PollFlags::IN));
            if self.has_output && now >= self.output_at {
                fds.push(PollFd::from_borrowed_fd(process.output(), PollFlags::IN));
            } else if self.has_output {
                until = Some(until.map_or(self.output_at, |until| until.min(self.output_at)));
            }
        }
        let left = until.map(|until| until.saturating_sub(now));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        if rustix::event::poll(&mut fds, left.as_ref()).is_err() {
            return (false, false);
        }
        let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        (is_ready(1), is_ready(2))
    }

    fn round(&mut self, has_ended: bool, has_output: bool) {
        let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
        if has_output {
            self.output_at = self.now() + OUTPUT_PAUSE;
            if let Some(process) = &mut self.process {
                self.has_output = process.take_output();
                let output = process.output_kept();
                self.shared.change(|status| status.output = output);
            }
        }
        if has_ended && self.process.is_some() {
            self.bury();
            self.events.push_back(Event::Ended);
            // Its reports came before its end; they concern nobody any more.
            self.process_events();
        }
        let reports = std::mem::take(&mut *lock(&self.shared.reports));
        for report in reports {
            let event = match report {
                Report::Ready => Event::Attached,
                Report::Hang => Event::Hangs,
                Report::Stop => Event::Stop,
                Report::Fault(why) => {
                    let output = self.output();
                    self.cause.get_or_insert(HostError::Card { why, output });
                    self.shared.change(|status| status.faults += 1);
                    Event::Broke
                }
            };
            self.events.push_back(event);
            self.process_events();
        }
        self.events.push_back(Event::Time);
        self.process_events();
    }
}
