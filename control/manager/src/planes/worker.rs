//! The thread that keeps one chain as it is asked for.

mod demand;
mod drain;
mod tending;
mod update;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::backoff::Backoff;
use super::board::Board;
use super::desk::{Desk, Goal};
use super::drain::Draining;
use super::functions::{self, NotStarted};
use super::log::Log;
use super::on_demand::OnDemand;
use super::plane::Plane;
use super::process::{Process, Serving, command, serving};
use super::record::{ChainDir, Record};
use super::replicas::Replicas;
use crate::kept::Kept;
use crate::private::private_dir;
use crate::{Asked, ConditionKind, Run};

/// How often the length of the log is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Wait where nothing is to be done.
const CALM: Duration = Duration::from_secs(10);
/// How long a data plane of which nobody heard is given to begin, before one with another
/// specification takes its turn.
const BEGIN_MAX: Duration = Duration::from_secs(5);
/// Failures in a row, each soon after a start, that make a crash loop.
const LOOP: u32 = 2;

/// What all workers share.
#[derive(Debug)]
pub(super) struct Setup {
    /// The directory of all chains.
    pub(super) chains: PathBuf,
    /// The program that runs a chain.
    pub(super) program: PathBuf,
    /// Copies of the executables of functions.
    pub(super) kept: Kept,
    /// Bytes of the output that are kept of a chain.
    pub(super) log_bytes_max: u64,
    /// How long a data plane may take to end after SIGTERM.
    pub(super) stop_limit: Duration,
    /// When the supervisor began.
    pub(super) begun: Instant,
}

impl Setup {
    /// Where positions of a new log begin: behind those of each earlier one of its name, so that
    /// whoever reads on there has read nothing of it. No log grows by 16 bytes in a nanosecond.
    fn log_begin(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos() << 4).unwrap_or(u64::MAX / 2)
    }
}

/// The worker of one chain.
pub(super) struct Worker {
    setup: Arc<Setup>,
    dir: ChainDir,
    log: Arc<Log>,
    desk: Arc<Desk>,
    board: Arc<Board>,
    record: Option<Record>,
    plane: Option<Plane>,
    backoff: Backoff,
    /// What was asked for last.
    seen: Option<Run>,
    /// The specification that the data plane refused, and why.
    refused: Option<(Run, String)>,
    /// The specification whose number of threads the data plane did not take, and why.
    threads_kept: Option<(Run, String)>,
    /// What a data plane answered with last, and its generation.
    good: Option<(u64, Run)>,
    /// Whether a hot swap to what was seen last was tried, and nobody knows what became of it.
    trying: bool,
    /// Whether a process may run of which the record has nothing.
    unsure: bool,
    /// Whether the last data plane ended by itself.
    ended_by_itself: bool,
    /// Whether the log could not be cut.
    log_refused: bool,
    /// Replicas of functions.
    replicas: Replicas,
    /// Functions on demand.
    on_demand: OnDemand,
    /// The data plane that drains.
    draining: Option<Draining>,
}

impl Worker {
    /// The worker of chain `name`, with the data plane that runs already, of these.
    pub(super) fn adopt(
        setup: Arc<Setup>,
        name: &str,
        (desk, board): (Arc<Desk>, Arc<Board>),
        running: &[Serving],
    ) -> Worker {
        let dir = ChainDir::new(&setup.chains, name);
        let log = Arc::new(Log::new(dir.log(), setup.log_bytes_max, setup.log_begin()));
        let mut worker = Worker {
            setup,
            dir,
            log,
            desk,
            board,
            record: None,
            plane: None,
            backoff: Backoff::default(),
            seen: None,
            refused: None,
            threads_kept: None,
            good: None,
            trying: false,
            unsure: true,
            ended_by_itself: false,
            log_refused: false,
            replicas: Replicas::default(),
            on_demand: OnDemand::default(),
            draining: None,
        };
        worker.find(running);
        worker
    }

    /// Finds what an earlier manager left.
    fn find(&mut self, running: &[Serving]) {
        if !self.dir.path().exists() {
            self.unsure = false;
            return;
        }
        let read = private_dir(self.dir.path()).and_then(|()| Record::read(&self.dir));
        match read {
            Ok(record) => {
                let layouts = record.as_ref().map(|record| record.replicas.clone());
                self.replicas.layouts = layouts.unwrap_or_default();
                let deployed = record.as_ref().map(|record| record.deployed.clone());
                self.on_demand.deployed = deployed.unwrap_or_default();
                self.record = record;
            }
            Err(error) => {
                let remedy = "what runs runs on; the next start writes it anew";
                self.board.report("RecordRefused", &format!("{error}; {remedy}"));
            }
        }
        let identity = self.record.as_ref().and_then(|record| record.process.clone());
        if let Some(identity) = &identity {
            match Process::of_record(identity) {
                Some(process) => return self.take(process, None),
                None => {
                    let pid = identity.pid;
                    let message = format!("process {pid} ended, or its number is another's now");
                    self.board.report("Gone", &message);
                    self.ended_by_itself = true;
                    // A hot swap is tried only with one that answers.
                    let good = self.record.as_ref().filter(|record| record.swapping);
                    self.good = good.map(|record| (record.generation, record.run()));
                }
            }
        }
        self.take_of(running);
    }

    /// Looks for such a process now.
    fn find_by_socket(&mut self) -> bool {
        let socket = self.dir.socket();
        self.take_of(&serving(|control| control == socket))
    }

    /// Adopts the process that serves the chain's control socket without being in the record: the
    /// manager was killed between its start and the record. True if there is one.
    fn take_of(&mut self, running: &[Serving]) -> bool {
        self.unsure = false;
        let process = Process::of_socket(&self.dir.socket(), running);
        let Some(process) = process else { return false };
        // Nobody knows what it runs.
        let unknown = || Record { swapping: true, ..Record::new(0, Run::default(), 0) };
        let mut record = self.record.take().unwrap_or_else(unknown);
        // A record of another process may be older than this one: a hot swap makes sure.
        record.swapping |= record.process.is_some();
        record.process = Some(process.identity().clone());
        self.record = Some(record);
        self.write_record();
        self.take(process, None);
        true
    }

    /// The output of its data planes.
    pub(super) fn log(&self) -> Arc<Log> {
        Arc::clone(&self.log)
    }

    /// Whether a chain with this directory was being deleted.
    pub(super) fn is_deleted(&self) -> bool {
        self.dir.is_deleted()
    }

    /// Takes a process that runs: one that was started when the log ended at `log_start`, or one
    /// that was found.
    fn take(&mut self, process: Process, log_start: Option<u64>) {
        let pid = process.pid();
        let reason = if log_start.is_some() { "Started" } else { "Adopted" };
        let start = log_start.unwrap_or_else(|| self.log.end());
        self.plane = Some(Plane::new(process, log_start.is_some(), start));
        let generation = self.record.as_ref().map_or(0, |record| record.generation);
        let restarts = self.record.as_ref().map_or(0, |record| record.restarts);
        let control = self.dir.socket().display().to_string();
        self.board.change(|status| {
            status.pid = Some(pid);
            status.control = Some(control);
            status.observed_generation = generation;
            status.restarts = restarts;
        });
        self.board.report(reason, &format!("process {pid} runs generation {generation}"));
        if self.backoff.failures() < LOOP {
            self.not_ready("Starting", &format!("process {pid} does not answer yet"));
        }
    }

    /// Forgets a condition that does not matter to the chain any more.
    fn forget(&self, kind: ConditionKind) {
        self.board.change(|status| status.conditions.retain(|one| one.kind != kind));
    }

    fn not_ready(&self, reason: &str, message: &str) {
        self.board.state(ConditionKind::Ready, false, reason, message);
    }

    fn out_of_date(&self, reason: &str, message: &str) {
        self.board.state(ConditionKind::UpToDate, false, reason, message);
    }

    /// Writes the record; a data plane runs on without.
    fn write_record(&mut self) {
        let Some(record) = &mut self.record else { return };
        record.replicas.clone_from(&self.replicas.layouts);
        record.deployed.clone_from(&self.on_demand.deployed);
        if let Err(error) = record.write(&self.dir) {
            self.board.report("RecordNotWritten", &error.to_string());
        }
    }

    /// Works until it is to leave, or until its chain is deleted.
    pub(super) fn run(mut self) {
        while let Some(goal) = self.desk.goal() {
            if self.plane.as_ref().is_some_and(|plane| plane.process.has_ended()) {
                self.ended();
            }
            let wait = match &goal {
                Goal::Left => return,
                Goal::Unknown => self.watch(),
                Goal::As(asked) if asked.run.spec.stopped => self.stop(),
                Goal::As(asked) if asked.run.spec.drain => self.drain(asked),
                Goal::As(asked) => {
                    self.end_draining();
                    self.keep(asked)
                }
                Goal::Deleted => match self.delete(&goal) {
                    Some(wait) => wait,
                    None => return,
                },
            };
            self.rest(wait);
        }
    }

    /// Waits until there is something to do, at most so long. What is done meanwhile is all that
    /// chains at rest cost.
    fn rest(&mut self, wait: Duration) {
        let end = Instant::now() + wait;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let process = self.plane.as_ref().map(|plane| plane.process.end());
            let is_called = self.desk.wait(process, left.min(LOOK));
            self.cut_log();
            if is_called || left <= LOOK {
                return;
            }
        }
    }

    /// Keeps the log within its bound; reports once that this cannot be done.
    fn cut_log(&mut self) {
        let cut = self.log.cut();
        if let Err(error) = &cut
            && !self.log_refused
        {
            self.board.report("LogNotCut", &error.to_string());
        }
        self.log_refused = cut.is_err();
    }

    /// Looks after a data plane that nothing is to be done to.
    fn watch(&mut self) -> Duration {
        self.check();
        self.plane.as_ref().map_or(CALM, Plane::next_check)
    }

    /// Ends the data plane of a chain that is declared and not to run.
    fn stop(&mut self) -> Duration {
        (self.seen, self.good) = (None, None);
        if let Some(wait) = self.end() {
            return wait;
        }
        self.show_no_replicas();
        self.forget_on_demand();
        self.forget(ConditionKind::Drained);
        self.not_ready("Stopped", "the chain is declared and not to run");
        self.board.state(ConditionKind::UpToDate, true, "Stopped", "nothing runs, as asked for");
        CALM
    }

    /// Ends the data plane and removes the chain's directory. `None` when that is done.
    fn delete(&mut self, goal: &Goal) -> Option<Duration> {
        if let Some(wait) = self.end() {
            return Some(wait);
        }
        if self.unsure && self.find_by_socket() {
            return Some(Duration::ZERO);
        }
        self.log.forget();
        if let Err(error) = self.dir.remove() {
            let what = "what the manager did not write stays";
            self.board.report("DirectoryLeft", &format!("{error}; {what}"));
        }
        self.record = None;
        self.board.report("Deleted", "its data plane ended and its directory is removed");
        if self.desk.close(goal) { None } else { Some(Duration::ZERO) }
    }

    /// Ends the data plane: politely, then by force. `None` when there is none.
    fn end(&mut self) -> Option<Duration> {
        let limit = self.setup.stop_limit;
        Some(self.plane.as_mut()?.end(limit))
    }

    fn keep_running(&mut self, asked: &Asked) -> Duration {
        if self.seen.as_ref() != Some(&asked.run) {
            self.seen = Some(asked.run.clone());
            self.refused = None;
            self.trying = false;
            self.backoff.reset();
        }
        let Some(plane) = &mut self.plane else { return self.try_start(asked) };
        if plane.is_ending() {
            // It was to end; the next one starts when it has.
            return plane.end(self.setup.stop_limit);
        }
        self.check();
        self.update(asked);
        self.plane.as_ref().map_or(CALM, Plane::next_check)
    }

    /// Starts a data plane if it is time.
    fn try_start(&mut self, asked: &Asked) -> Duration {
        if let Some(wait) = self.backoff.wait(Instant::now()) {
            return wait;
        }
        if self.unsure && self.find_by_socket() {
            return Duration::ZERO;
        }
        if let Err(error) = self.start(asked) {
            self.backoff.failed(Instant::now());
            // It may have been started all the same.
            self.unsure = true;
            self.not_ready(error.reason, &error.message);
            self.out_of_date("NotRunning", "no data plane runs");
            self.board.report(error.reason, &error.message);
            return self.backoff.wait(Instant::now()).unwrap_or_default();
        }
        self.plane.as_ref().map_or(CALM, Plane::next_check)
    }

    /// What to start: what is asked for, or what ran before if that was refused.
    fn to_start(&self, asked: &Asked) -> (u64, Run) {
        match &self.record {
            // One of generation 0 was adopted without a record: nobody knows what it ran.
            Some(record) if self.is_refused(&asked.run) && record.generation > 0 => {
                (record.generation, record.run())
            }
            _ => (asked.generation, asked.run.clone()),
        }
    }

    fn is_refused(&self, run: &Run) -> bool {
        self.refused.as_ref().is_some_and(|(refused, _)| refused == run)
    }

    fn start(&mut self, asked: &Asked) -> Result<(), NotStarted> {
        let (generation, run) = self.to_start(asked);
        private_dir(self.dir.path())?;
        functions::keep(&self.setup.kept, &run)?;
        self.dir.write_configuration(&run, &self.setup.kept)?;
        let before = self.record.as_ref().map_or(0, |record| record.restarts);
        let restarts = before + u32::from(self.ended_by_itself);
        let mut record = Record::new(generation, run, restarts);
        record.replicas.clone_from(&self.replicas.layouts);
        record.deployed.clone_from(&self.on_demand.deployed);
        // Before the process: if this manager ends in between, the next one looks for it, and
        // knows what it runs. One that is started again does not wait for the disk.
        let is_known = |now: &Record| now.generation == generation && now.run() == record.run();
        if !self.record.as_ref().is_some_and(is_known) {
            record.write(&self.dir)?;
        }
        let (output, log_start) = (self.log.open()?, self.log.end());
        let mut command = command(&self.setup.program, &self.dir, &record.spec, output)?;
        let process = Process::start(&mut command)?;
        record.process = Some(process.identity().clone());
        self.record = Some(record);
        self.write_record();
        self.ended_by_itself = false;
        self.take(process, Some(log_start));
        Ok(())
    }

    /// The data plane ended.
    fn ended(&mut self) {
        let Some(plane) = self.plane.take() else { return };
        let how = plane.process.ending();
        let pid = plane.process.pid();
        if let Some(record) = &mut self.record {
            record.process = None;
            // The record of one that ended by itself has a process that runs no more: the next
            // manager finds that out.
            if std::mem::take(&mut record.swapping) || plane.is_ending() {
                self.write_record();
            }
        }
        if std::mem::take(&mut self.trying) {
            let why = "the data plane ended while this configuration took over";
            self.refused = self.seen.clone().map(|seen| (seen, why.to_owned()));
        }
        self.out_of_date("NotRunning", "no data plane runs");
        self.board.change(|status| {
            status.pid = None;
            status.control = None;
            status.observed_generation = 0;
        });
        if plane.is_ending() {
            self.board.report("Stopped", &format!("process {pid}: {how}"));
            return;
        }
        self.ended_by_itself = true;
        self.backoff.ended(plane.started, Instant::now());
        let words = self.log.since(plane.log_start, 2000);
        let message = format!("process {pid}: {how}\n{words}");
        let message = message.trim_end();
        let is_loop = self.backoff.failures() >= LOOP;
        // Another process may have the chain's socket: then that one is found.
        self.unsure = self.backoff.failures() > 0;
        self.not_ready(if is_loop { "CrashLoop" } else { "Exited" }, message);
        self.board.report("Exited", message);
        if is_loop && !plane.has_answered() {
            self.go_back(message);
        }
    }

    /// Has what ran before started again, where what is asked for does not begin to run.
    fn go_back(&mut self, message: &str) {
        let (Some(record), Some((generation, run))) = (&mut self.record, &self.good) else {
            return;
        };
        if record.run() == *run || *generation == 0 {
            return;
        }
        let why = format!(
            "generation {} does not begin to run, so generation {generation} runs: {message}",
            record.generation
        );
        *record =
            Record { process: None, ..Record::new(*generation, run.clone(), record.restarts) };
        self.refused = self.seen.clone().map(|seen| (seen, why.clone()));
        self.backoff.reset();
        self.board.report("ConfigurationRefused", &why);
    }

    /// Looks whether the data plane answers, if it is time.
    fn check(&mut self) {
        let Some(plane) = &mut self.plane else { return };
        match plane.check(&self.dir.socket()) {
            None => {}
            Some(Ok(())) => {
                let message = format!("process {} answers", plane.process.pid());
                self.board.turn(ConditionKind::Ready, true, "Answers", &message);
                if let Some(record) = self.record.as_ref().filter(|record| !record.swapping) {
                    self.good = Some((record.generation, record.run()));
                }
            }
            Some(Err(why)) if plane.is_late(BEGIN_MAX) => {
                self.board.turn(ConditionKind::Ready, false, "NoAnswer", &why);
            }
            Some(Err(_)) => {}
        }
    }
}
