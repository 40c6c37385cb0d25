//! The supervisor of one machine: a thread that does what its [`Life`] says.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::shared::{Change, Next, OnChange, Report, Shared, VmSpec, Wire, lock};
use crate::error::HostError;
use crate::life::{Action, Event, Life, Overdue, State};
use crate::machine::{Monitor, launch_vm};
use crate::process::Process;

/// Time between two looks at the console: it is read 64 KB at most in between.
const OUTPUT_PAUSE: Duration = Duration::from_millis(10);

/// See the module's description.
pub(super) struct Supervisor {
    spec: VmSpec,
    wire: Wire,
    on_change: OnChange,
    shared: Arc<Shared>,
    reply_to: Option<SyncSender<Result<(), HostError>>>,
    clock: Instant,
    life: Life,
    events: VecDeque<Event>,
    process: Option<Process>,
    /// The present process's, once it was used.
    monitor: Option<Monitor>,
    /// Whether the owner knows that the machine is ready.
    is_up: bool,
    /// Why the present process ends; the first reason counts.
    cause: Option<HostError>,
    output_at: Duration,
    has_output: bool,
}

impl Supervisor {
    /// Of a machine that is to be started. `reply_to` hears whether it is ready.
    pub fn new(
        spec: VmSpec,
        (wire, on_change): (Wire, OnChange),
        shared: Arc<Shared>,
        reply_to: Option<SyncSender<Result<(), HostError>>>,
    ) -> Supervisor {
        let (life, _start) = Life::new(spec.patience, spec.backoff, Duration::ZERO);
        Supervisor {
            spec,
            wire,
            on_change,
            shared,
            reply_to,
            clock: Instant::now(),
            life,
            events: VecDeque::new(),
            process: None,
            monitor: None,
            is_up: false,
            cause: None,
            output_at: Duration::ZERO,
            has_output: true,
        }
    }

    /// Runs until the machine was stopped or given up.
    pub fn run(mut self) {
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
                self.is_up = true;
                if (self.on_change)(Change::Up) == Next::StandStill {
                    self.command("pausing the virtual machine", Monitor::pause);
                }
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

    fn resume(&mut self) {
        self.command("continuing the virtual machine", Monitor::resume);
        let pid = self.process.as_ref().map_or(0, Process::pid);
        let machine = self.spec.order.label.as_str();
        tracing::info!(machine, pid, "virtual machine that waited goes on");
    }

    /// Has QEMU stop or continue the machine; one that does not is ended.
    fn command(
        &mut self,
        what: &'static str,
        command: impl FnOnce(&mut Monitor) -> Result<(), String>,
    ) {
        let Some(process) = &self.process else { return };
        let done = match &mut self.monitor {
            Some(monitor) => command(monitor),
            None => match process.control().try_clone_to_owned() {
                Ok(fd) => command(self.monitor.insert(Monitor::new(fd))),
                Err(error) => Err(error.to_string()),
            },
        };
        if let Err(why) = done {
            self.cause.get_or_insert(HostError::Monitor { what, why });
            self.events.push_back(Event::Broke);
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
        self.monitor = None;
        if std::mem::take(&mut self.is_up) {
            (self.on_change)(Change::Down);
        }
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
                Report::Resume => {
                    self.resume();
                    continue;
                }
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
