//! Data planes as processes: started, adopted, watched, changed and ended.
//!
//! Each chain has a directory `STATE/chains/NAME` with a record of its process, and a worker thread
//! here. The processes do not need this one: when it ends, they run on, and the next [`Supervisor`]
//! adopts them.

mod backoff;
mod board;
mod desk;
mod drain;
mod files;
mod functions;
mod log;
mod on_demand;
mod plane;
mod process;
mod record;
mod remote;
mod replicas;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

use crate::kept::Kept;
use crate::private::private_dir;
use crate::{Asked, ChainStatus, DataPlanes, Event, LogPart, PlaneError};
use board::Board;
use desk::{Desk, Goal};
use log::Log;
use process::Serving;
use record::{ChainDir, Record};
use remote::Remote;
use worker::{Setup, Worker};

/// How long an earlier manager may take to release the state: one that was killed has it until the
/// kernel has ended it.
const RELEASE_MAX: Duration = Duration::from_secs(5);
/// Stack of a worker, bytes.
const STACK: usize = 512 << 10;

/// Where and how data planes are kept.
#[derive(Debug, Clone)]
pub struct SupervisorConfig {
    /// Directory of the manager's state; made where it is missing, for this user only.
    pub state: PathBuf,
    /// The program `thruway`.
    pub program: PathBuf,
    /// Bytes of a data plane's output that are kept.
    pub log_bytes_max: u64,
    /// How long a data plane may take to end after SIGTERM; then SIGKILL ends it.
    pub stop_limit: Duration,
}

impl SupervisorConfig {
    /// With 4 MiB of output for each chain, and 15 s to end: `thruway run` itself takes 10 s at
    /// most.
    pub fn new(state: impl Into<PathBuf>, program: impl Into<PathBuf>) -> SupervisorConfig {
        SupervisorConfig {
            state: state.into(),
            program: program.into(),
            log_bytes_max: 4 << 20,
            stop_limit: Duration::from_secs(15),
        }
    }
}

/// A data plane that runs and that nobody asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Its process.
    pub pid: u32,
    /// Its control socket.
    pub control: PathBuf,
}

impl From<Serving> for Unknown {
    fn from(one: Serving) -> Unknown {
        Unknown { pid: one.pid, control: one.socket }
    }
}

/// One chain.
struct Entry {
    desk: Arc<Desk>,
    board: Arc<Board>,
    log: Arc<Log>,
    thread: JoinHandle<()>,
}

/// Runs the chains of this host as processes of their own.
pub struct Supervisor {
    setup: Arc<Setup>,
    chains: Mutex<BTreeMap<String, Entry>>,
    /// Processes that were reported as unknown.
    reported: Mutex<BTreeSet<u32>>,
    events: Sender<Event>,
    /// Held while this manager lives: there is one for a state.
    _lock: File,
}

impl Supervisor {
    /// Starts to keep chains: adopts the data planes that an earlier manager left. They run on as
    /// they are until [`DataPlanes::converge`] says what is asked for.
    ///
    /// # Errors
    /// The state cannot be used: another manager has it, or another user could change it.
    pub fn start(config: SupervisorConfig, events: Sender<Event>) -> Result<Supervisor> {
        private_dir(&config.state)?;
        let chains = std::path::absolute(config.state.join("chains"))?;
        private_dir(&chains)?;
        let lock = held(&chains)?;
        let setup = Setup {
            program: std::path::absolute(&config.program)?,
            log_bytes_max: config.log_bytes_max,
            stop_limit: config.stop_limit,
            kept: Kept::open(&config.state)?,
            begun: Instant::now(),
            chains,
        };
        let supervisor = Supervisor {
            setup: Arc::new(setup),
            chains: Mutex::default(),
            reported: Mutex::default(),
            events,
            _lock: lock,
        };
        supervisor.adopt()?;
        Ok(supervisor)
    }

    /// A worker for each directory.
    fn adopt(&self) -> Result<()> {
        let mut chains = self.chains.lock();
        let running = self.running();
        for entry in std::fs::read_dir(&self.setup.chains)? {
            let name = entry?.file_name();
            if let Some(name) = name.to_str().filter(|name| is_name(name)) {
                chains.insert(name.to_owned(), self.worker(name, Goal::Unknown, &running)?);
            }
        }
        Ok(())
    }

    /// Processes of data planes below this state, with or without a record.
    fn running(&self) -> Vec<Serving> {
        process::serving(|socket| socket.starts_with(&self.setup.chains))
    }

    /// A worker of a chain, with what runs of it.
    fn worker(&self, name: &str, goal: Goal, running: &[Serving]) -> Result<Entry> {
        let desk = Arc::new(Desk::new(goal)?);
        let board = Arc::new(Board::new(name, self.events.clone()));
        let own = (Arc::clone(&desk), Arc::clone(&board));
        let worker = Worker::adopt(Arc::clone(&self.setup), name, own, running);
        if worker.is_deleted() && desk.goal() == Some(Goal::Unknown) {
            desk.set(Goal::Deleted);
        }
        let log = worker.log();
        let thread = std::thread::Builder::new().name(format!("chain {name}")).stack_size(STACK);
        let thread = thread.spawn(move || worker.run())?;
        Ok(Entry { desk, board, log, thread })
    }

    /// Has a chain deleted, by the next manager if this one is killed now.
    fn delete(&self, name: &str, entry: &Entry) -> bool {
        if let Err(error) = ChainDir::new(&self.setup.chains, name).mark_deleted() {
            entry.board.report("RecordNotWritten", &error.to_string());
        }
        entry.desk.set(Goal::Deleted)
    }

    /// Gives a chain a goal, and a worker where it has none.
    fn give(&self, chains: &mut BTreeMap<String, Entry>, name: &str, goal: Goal) {
        if let Err(error) = ChainDir::new(&self.setup.chains, name).unmark_deleted() {
            Board::new(name, self.events.clone()).report("RecordNotWritten", &error.to_string());
        }
        if chains.get(name).is_some_and(|entry| entry.desk.set(goal.clone())) {
            return;
        }
        // One without a directory never ran.
        let is_new = !self.setup.chains.join(name).exists();
        let running = if is_new { Vec::new() } else { self.running() };
        match self.worker(name, goal, &running) {
            Ok(entry) => drop(chains.insert(name.to_owned(), entry)),
            Err(error) => Board::new(name, self.events.clone())
                .report("StartFailed", &format!("no worker for the chain: {error}")),
        }
    }

    /// Data planes below this state that run and that nobody asked for. Before the first
    /// [`DataPlanes::converge`] these are all that were adopted. They are watched and never ended,
    /// but by [`Supervisor::end`].
    pub fn unknown(&self) -> Vec<Unknown> {
        let chains = self.chains.lock();
        let is_known = |entry: &&Entry| !matches!(entry.desk.goal(), None | Some(Goal::Unknown));
        let is_other = |one: &Serving| {
            let chain =
                one.socket.parent().and_then(Path::file_name).and_then(|name| name.to_str());
            let entry = chain.and_then(|chain| chains.get(chain)).filter(is_known);
            // One that is being started has no process yet.
            let own = |entry: &Entry| entry.board.status().pid.is_none_or(|pid| pid == one.pid);
            !entry.is_some_and(own)
        };
        self.running().into_iter().filter(is_other).map(Unknown::from).collect()
    }

    /// Ends an unknown data plane by its chain's name and removes the chain's directory; false if
    /// no unknown chain has this name.
    pub fn end(&self, chain: &str) -> bool {
        let chains = self.chains.lock();
        let entry = chains.get(chain);
        entry.is_some_and(|entry| {
            entry.desk.goal() == Some(Goal::Unknown) && self.delete(chain, entry)
        })
    }

    /// Reports unknown data planes, each once.
    fn report_unknown(&self) {
        for one in self.unknown() {
            if !self.reported.lock().insert(one.pid) {
                continue;
            }
            let chain = one.control.parent().and_then(Path::file_name).unwrap_or_default();
            let message = format!(
                "process {} serves {}, and nobody asked for it: it runs on; declare the chain \
                 again, or end it",
                one.pid,
                one.control.display()
            );
            let chain = chain.to_string_lossy();
            Board::new(&chain, self.events.clone()).report("Unknown", &message);
        }
    }

    /// The process and the control socket of a chain.
    fn address(&self, chain: &str) -> std::result::Result<(u32, PathBuf), PlaneError> {
        let status = self.status(chain);
        let address = status.and_then(|status| Some((status.pid?, status.control?.into())));
        address.ok_or_else(|| PlaneError::NotRunning(chain.to_owned()))
    }
}

impl DataPlanes for Supervisor {
    fn converge(&self, asked: Vec<Asked>) {
        let mut chains = self.chains.lock();
        // Whose worker has gone, is deleted.
        chains.retain(|_, entry| !entry.thread.is_finished());
        let names: BTreeSet<String> = asked.iter().map(|one| one.name.clone()).collect();
        for one in asked {
            if is_name(&one.name) {
                let name = one.name.clone();
                self.give(&mut chains, &name, Goal::As(Box::new(one)));
            } else {
                Board::new(&one.name, self.events.clone())
                    .report("NameRefused", "a chain's name is a DNS label in lower case");
            }
        }
        for (name, entry) in chains.iter().filter(|(name, _)| !names.contains(*name)) {
            // What was never asked for stays.
            if let Some(Goal::As(_)) = entry.desk.goal() {
                self.delete(name, entry);
            }
        }
        drop(chains);
        self.report_unknown();
    }

    fn status(&self, chain: &str) -> Option<ChainStatus> {
        let chains = self.chains.lock();
        let entry = chains.get(chain)?;
        let goal = entry.desk.goal()?;
        let status = entry.board.status();
        (goal != Goal::Unknown || status.pid.is_some()).then_some(status)
    }

    fn program(&self) -> Option<&Path> {
        Some(&self.setup.program)
    }

    fn read(&self, chain: &str, handler: &str) -> std::result::Result<String, PlaneError> {
        let (pid, socket) = self.address(chain)?;
        Remote { socket: &socket, pid }.read(handler)
    }

    fn read_each(
        &self,
        chain: &str,
        handlers: &[String],
    ) -> std::result::Result<Vec<Option<String>>, PlaneError> {
        let (pid, socket) = self.address(chain)?;
        Remote { socket: &socket, pid }.read_each(handlers)
    }

    fn write(
        &self,
        chain: &str,
        handler: &str,
        value: &str,
    ) -> std::result::Result<(), PlaneError> {
        let (pid, socket) = self.address(chain)?;
        Remote { socket: &socket, pid }.write(handler, value)
    }

    fn log(&self, chain: &str, from: u64, len_max: u64) -> Result<LogPart> {
        let log = self.chains.lock().get(chain).map(|entry| Arc::clone(&entry.log));
        log.map_or_else(|| Ok(LogPart::default()), |log| log.part(from, len_max))
    }

    fn hashes(&self) -> Result<BTreeSet<String>> {
        let mut hashes = BTreeSet::new();
        for entry in std::fs::read_dir(&self.setup.chains)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str().filter(|name| is_name(name)) else { continue };
            let record = Record::read(&ChainDir::new(&self.setup.chains, name))?;
            let functions = record.into_iter().flat_map(|record| record.functions.into_values());
            hashes.extend(functions.map(|function| function.sha256));
        }
        Ok(hashes)
    }
}

impl Drop for Supervisor {
    /// The workers leave; the data planes run on.
    fn drop(&mut self) {
        let chains = std::mem::take(&mut *self.chains.lock());
        for entry in chains.values() {
            entry.desk.set(Goal::Left);
        }
        for entry in chains.into_values() {
            // A panic of a worker was reported by the runtime.
            let _ = entry.thread.join();
        }
    }
}

/// Whether a text is a DNS label (RFC 1123 section 2.1) in lower case.
fn is_name(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(good)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// The lock of the directory of all chains.
fn held(chains: &Path) -> Result<File> {
    let file = File::open(chains)?;
    let begin = Instant::now();
    while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if error.kind() != ErrorKind::WouldBlock {
            return Err(error.into());
        }
        if begin.elapsed() > RELEASE_MAX {
            let message = format!("{}: another manager uses this state", chains.display());
            return Err(Error::new(ErrorKind::AddrInUse, message));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(file)
}

#[cfg(test)]
mod tests;
