//! The supervisor of a function: a thread that owns its process, waits for what happens to it,
//! and does what its [`Life`] says.
//!
//! It is a thin shell. A function can make it busy only as far as is bounded here: so many
//! messages a round, so much output a time, answers to what was asked only.

mod calls;
mod spawner;
mod standby;
mod takeover;
mod talk;

use self::spawner::{STACK_LEN, Spawner};
use self::standby::{Remains, Standby};
use crate::call::Reply;
use crate::error::HostError;
use crate::life::{Action, Event, Life, Overdue, State};
use crate::line::Handshake;
use crate::pin;
use crate::process::Process;
use crate::shared::{Command, Published, Shared};
use crate::spec::FunctionSpec;
use crate::starvation::Watch;
use crate::wiring::{Scratch, Wiring};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thruway_exchange::PeerFault;

/// Time between two looks at a function's output: it writes 64 KB at most in between.
const OUTPUT_PAUSE: Duration = Duration::from_millis(10);

/// Starts the supervisor of a function. It tells once whether the function attached.
pub(crate) fn spawn(
    spec: FunctionSpec,
    shared: Arc<Shared>,
    reply_to: SyncSender<Result<(), HostError>>,
) -> Result<JoinHandle<()>, HostError> {
    let bell = shared.clone();
    let spawner = Spawner::new(spec.order.clone(), move || bell.ring())?;
    let work = move || {
        let clock = Instant::now();
        let (life, first) = Life::new(spec.patience, spec.backoff, Duration::ZERO);
        let scratch = spec.arena.clone().map(|arena| {
            let len = arena.scratch_len();
            (arena, len)
        });
        let keeper = Keeper {
            spec,
            shared,
            reply_to: Some(reply_to),
            clock,
            life,
            events: VecDeque::new(),
            process: None,
            watch: Watch::default(),
            handshake: Handshake::default(),
            wiring: None,
            scratch,
            cause: None,
            calls: VecDeque::new(),
            next_call: 1,
            output_at: Duration::ZERO,
            has_output: true,
            standby: None,
            standby_at: None,
            remains: None,
            spawner,
        };
        keeper.run(first);
    };
    std::thread::Builder::new()
        .name("nf-keeper".into())
        .stack_size(STACK_LEN)
        .spawn(work)
        .map_err(|error| HostError::system("starting a supervisor thread", error))
}

struct Keeper {
    spec: FunctionSpec,
    shared: Arc<Shared>,
    reply_to: Option<SyncSender<Result<(), HostError>>>,
    clock: Instant,
    life: Life,
    /// What actions caused, to be taken in next.
    events: VecDeque<Event>,
    process: Option<Process>,
    watch: Watch,
    handshake: Handshake,
    wiring: Option<Wiring>,
    scratch: Option<Scratch>,
    /// Why the present process ends; the first reason counts.
    cause: Option<HostError>,
    /// Questions without an answer yet, oldest first.
    calls: VecDeque<Asked>,
    next_call: u32,
    output_at: Duration,
    /// Its output has not been closed.
    has_output: bool,
    /// The process that waits to take the present one's place.
    standby: Option<Standby>,
    /// When it is to be started, if there is to be one.
    standby_at: Option<Duration>,
    /// What is left of the last process, to be let go of when there is time.
    remains: Option<Remains>,
    /// Starts all processes. Dropped after them: they die with its thread.
    spawner: Spawner,
}

/// A question to the function.
struct Asked {
    id: u32,
    until: Duration,
    /// `None` when the one who asked was told that no answer came: one may come still.
    reply: Option<Reply>,
}

/// What a wait found ready.
#[derive(Default)]
struct Ready {
    ended: bool,
    message: bool,
    output: bool,
    /// The process that waits said something or ended.
    standby: bool,
}

impl Keeper {
    fn run(mut self, first: Action) {
        self.act(first);
        self.process_events();
        while !self.life.state().is_final() {
            let ready = self.wait();
            self.round(&ready);
        }
    }

    fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Takes in one event and all that it causes.
    fn on(&mut self, event: Event) {
        self.events.push_back(event);
        self.process_events();
    }

    fn process_events(&mut self) {
        while let Some(event) = self.events.pop_front() {
            let (before, was_final) = (self.life.overdue(), self.life.state().is_final());
            let actions = self.life.on(self.now(), event);
            self.note_overdue(before);
            for action in actions {
                self.act(action);
            }
            let state = self.life.state();
            self.shared.change(|status| status.state = state);
            if state.is_final() {
                // One that never attached is an error of the start.
                if state == State::Failed && !was_final && self.reply_to.is_none() {
                    let function = self.spec.label.as_str();
                    tracing::error!(function, "isolated function given up: no further restart");
                }
                self.report_failure();
            }
        }
    }

    /// If the machine found a deadline missed, that is the cause.
    fn note_overdue(&mut self, before: Option<Overdue>) {
        let overdue = self.life.overdue();
        if overdue == before {
            return;
        }
        let patience = self.spec.patience;
        match overdue {
            Some(Overdue::Attach) => {
                let output = self.output();
                let deadline = patience.attach;
                self.blame(HostError::NeverAttached { deadline, output });
            }
            Some(Overdue::Progress) => {
                self.blame(HostError::Hung { hang: patience.hang.unwrap_or_default() });
                self.shared.change(|status| status.hangs += 1);
            }
            Some(Overdue::Drain) => self.blame(HostError::NotDrained { drain: patience.drain }),
            None => {}
        }
    }

    fn blame(&mut self, cause: HostError) {
        self.cause.get_or_insert(cause);
    }

    /// The function broke the protocol of the control socket.
    fn broke(&mut self, why: String) {
        let output = self.output();
        self.blame(HostError::Protocol { why, output });
        self.shared.change(|status| status.faults += 1);
        self.on(Event::Broke);
    }

    fn output(&mut self) -> String {
        self.process.as_mut().map_or_else(String::new, Process::last_output)
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Start(_) => self.start(),
            Action::Publish => self.publish(),
            Action::Withdraw => {
                self.shared.withdraw();
                if let Some(wiring) = self.wiring.take() {
                    wiring.wake_masters();
                    self.remains().wiring = Some(wiring);
                }
            }
            Action::Kill => {
                self.bury();
                self.events.push_back(Event::Ended);
            }
            Action::AskToDrain => {
                if let Some(wiring) = &self.wiring {
                    wiring.ask_to_drain();
                }
            }
        }
    }

    fn start(&mut self) {
        self.cause = None;
        self.wiring = None;
        self.watch = Watch::default();
        self.handshake = Handshake::default();
        self.has_output = true;
        match self.next_process() {
            Ok((process, attached)) => {
                let again = self.life.generation() > 1;
                self.log_start(process.pid(), again);
                self.shared.change(|status| {
                    status.pid = Some(process.pid());
                    status.sandbox = Some(process.report().clone());
                    status.restarts += u64::from(again);
                });
                self.process = Some(process);
                if let Some((hello, wiring)) = attached {
                    self.handshake = Handshake::AwaitsReady;
                    self.greet(&hello, Some(wiring));
                }
            }
            Err(error) => {
                let (function, reason) = (self.spec.label.as_str(), error.to_string());
                if self.reply_to.is_none() {
                    tracing::error!(function, reason, "isolated function cannot be started");
                }
                self.shared.change(|status| status.last_end = Some(reason));
                self.blame(error);
                self.events.push_back(Event::Ended);
            }
        }
    }

    /// Ends the process, if it has not ended, and notes how.
    fn bury(&mut self) {
        // Before its number can be another's.
        self.shared.change(|status| status.pid = None);
        let Some(mut process) = self.process.take() else { return };
        let exit = process.kill();
        let (output, silent) = (process.output_kept(), self.handshake == Handshake::AwaitsHello);
        if let Ok(exit) = exit {
            self.blame(HostError::Exited { exit, silent, output: output.clone() });
        }
        let end = self.cause.as_ref().map(HostError::to_string);
        self.log_end(process.pid(), end.as_deref().unwrap_or_default());
        self.shared.change(|status| {
            status.cpu_time += process.cpu_time();
            status.output = output;
            status.last_end = end;
        });
        self.remains().process = Some(process);
        self.end_calls();
    }

    fn log_start(&self, pid: i32, again: bool) {
        let function = self.spec.label.as_str();
        match again {
            true => tracing::warn!(function, pid, "isolated function restarted"),
            false => tracing::debug!(function, pid, "isolated function started"),
        }
    }

    /// A process ends when it was asked to, or it is a failure that an operator is to learn of.
    fn log_end(&self, pid: i32, reason: &str) {
        let function = self.spec.label.as_str();
        match self.life.state() {
            State::Draining | State::Ending | State::Stopped => {
                tracing::debug!(function, pid, "isolated function stopped");
            }
            // Whoever starts it reports that.
            _ if self.reply_to.is_some() => {}
            _ => tracing::error!(function, pid, reason, "isolated function ended"),
        }
    }

    /// Gives each of several Workers a CPU of those that the function may use.
    fn pin_workers(&self) {
        let Some(process) = &self.process else { return };
        let cpus = &self.spec.order.limits.cpus;
        if let Err(reason) = pin::workers(process.pid(), self.spec.workers, cpus) {
            let function = self.spec.label.as_str();
            tracing::warn!(function, reason, "Workers are not pinned to CPUs");
        }
    }

    fn publish(&mut self) {
        self.pin_workers();
        if let Some(wiring) = &self.wiring {
            let published = Published {
                links: wiring.host_links(self.life.generation()),
                controls: wiring.controls.clone(),
                arena: self.scratch.as_ref().map(|(arena, _)| arena.clone()),
            };
            self.shared.publish(self.life.generation(), published);
            if self.spec.standby && self.standby.is_none() {
                self.standby_at = Some(self.now() + standby::AFTER);
            }
        }
        if let Some(remains) = self.remains.take() {
            self.spawner.release(remains);
        }
        if let Some(reply_to) = self.reply_to.take() {
            // Nobody may be waiting any more.
            let _ = reply_to.try_send(Ok(()));
        }
    }

    /// The function is over; if it never attached, someone waits to know why.
    fn report_failure(&mut self) {
        if let Some(reply_to) = self.reply_to.take() {
            let _ = reply_to.try_send(Err(self.cause.take().unwrap_or(HostError::Stopped)));
        }
    }

    /// Waits for something to happen, until the life's next deadline at most.
    fn wait(&self) -> Ready {
        let now = self.now();
        let looks_at_output = now >= self.output_at;
        let mut until = self.life.deadline();
        if let (State::Running, Some(hang)) = (self.life.state(), self.spec.patience.hang) {
            // Whether shared memory was lost is looked at now and then.
            until = until.or(Some(now + hang));
        }
        if let Some(asked) = self.calls.iter().find(|asked| asked.reply.is_some()) {
            until = Some(until.map_or(asked.until, |until| until.min(asked.until)));
        }
        let mut fds = vec![PollFd::new(&self.shared.bell, PollFlags::IN)];
        if let Some(process) = &self.process {
            fds.push(PollFd::from_borrowed_fd(process.pidfd(), PollFlags::IN));
            fds.push(PollFd::from_borrowed_fd(process.control(), PollFlags::IN));
            if !self.has_output {
                // It closed its end, which would be ready for ever.
            } else if looks_at_output {
                fds.push(PollFd::from_borrowed_fd(process.output(), PollFlags::IN));
            } else {
                until = Some(until.map_or(self.output_at, |until| until.min(self.output_at)));
            }
        }
        if let (Some(at), State::Running) = (self.standby_at, self.life.state()) {
            until = Some(until.map_or(at, |until| until.min(at)));
        }
        let standby_first = fds.len();
        fds.extend(self.standby.iter().flat_map(Standby::watched));
        let left = until.map(|until| until.saturating_sub(now));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        // An error (a signal) is as good as an early end of the wait.
        if rustix::event::poll(&mut fds, left.as_ref()).is_err() {
            return Ready::default();
        }
        let has_news = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let (own, standby) = fds.split_at(standby_first);
        let is_ready = |at: usize| own.get(at).is_some_and(has_news);
        Ready {
            ended: is_ready(1),
            message: is_ready(2),
            output: is_ready(3),
            standby: standby.iter().any(has_news),
        }
    }

    fn round(&mut self, ready: &Ready) {
        if ready.output {
            self.output_at = self.now() + OUTPUT_PAUSE;
            if let Some(process) = &mut self.process {
                self.has_output = process.take_output();
                let output = process.output_kept();
                self.shared.change(|status| status.output = output);
            }
        }
        // What it said before it ended comes first.
        if ready.message {
            self.messages();
        }
        if ready.ended && self.process.is_some() {
            self.bury();
            self.on(Event::Ended);
        }
        self.commands();
        self.give_up_calls();
        let is_damaged = |wiring: &Wiring| wiring.is_damaged() || self.is_scratch_damaged();
        if self.wiring.as_ref().is_some_and(is_damaged) {
            self.broke("memory that it shares with its host is gone".into());
        } else {
            self.on(Event::Time);
        }
        // Who died was served first.
        if ready.standby {
            self.meet_standby();
        }
        self.keep_standby();
    }

    fn is_scratch_damaged(&self) -> bool {
        self.scratch.as_ref().is_some_and(|(arena, _)| arena.is_damaged())
    }

    fn commands(&mut self) {
        let mut count = [0; 8];
        // Empty if this round was for another reason.
        let _ = rustix::io::read(&self.shared.bell, &mut count);
        while let Some(command) = self.shared.take_command() {
            match command {
                Command::Fault(generation, fault) => self.fault(generation, fault),
                Command::Watch => {
                    if let Some(process) = &self.process {
                        self.watch.look(self.clock.elapsed(), process.pid());
                    }
                }
                Command::Hang(generation) => {
                    if generation == self.life.generation() && !self.is_starved() {
                        self.on(Event::Hangs);
                    }
                }
                Command::Call { kind, text, reply } => self.call(kind, &text, reply),
                Command::Drain => self.on(Event::Drain),
                Command::Stop => self.on(Event::Stop),
            }
        }
    }

    /// Whether the function is late for want of a processor.
    fn is_starved(&mut self) -> bool {
        let (now, hang) = (self.now(), self.spec.patience.hang.unwrap_or_default());
        let Some(process) = &self.process else { return false };
        let is_starved = self.watch.is_starved(now, hang, process.pid());
        if is_starved {
            let function = self.spec.label.as_str();
            tracing::warn!(
                function,
                "isolated function gets almost no CPU time; not restarting it as hung"
            );
        }
        is_starved
    }

    fn fault(&mut self, generation: u32, fault: PeerFault) {
        let runs = matches!(self.life.state(), State::Running | State::Draining);
        if runs && generation == self.life.generation() {
            self.blame(HostError::Fault(fault));
            self.shared.change(|status| status.faults += 1);
            self.on(Event::Broke);
        }
    }
}
