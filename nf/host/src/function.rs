//! A function as its element sees it.

use crate::error::HostError;
use crate::keeper::{self, Command};
use crate::life::{Backoff, Patience, State};
use crate::process::cpu_time;
use crate::sandbox::{Order, Program, SandboxReport};
use crate::wiring::{self, HostLink};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thruway_exchange::{Arena, Control, GroupRegion, Pages, PeerFault};
use thruway_nf_abi::LinkShape;
use thruway_nf_abi::message::{Kind, LEN_MAX, LINKS_MAX, WaitMode};
use thruway_sync::atomic::{AtomicU32, Ordering};

/// Longest time that a function has to answer a call of a handler.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// Commands that may wait for the supervisor; more are refused.
const COMMANDS_MAX: usize = 256;

/// What a function is to be: its program and sandbox, its links, how it is supervised.
#[derive(Debug, Clone)]
pub struct FunctionSpec {
    /// The name that lines of the log have for it: that of its element.
    pub label: String,
    /// Program, limits, isolation. The limit to its regions is set by [`Function::start`].
    pub order: Order,
    /// Sizes of each link.
    pub shape: LinkShape,
    /// Pages of its regions.
    pub pages: Pages,
    /// The region of its trust group, where tokens are descriptors.
    pub group: Option<GroupRegion>,
    /// Master threads: each gets a link.
    pub links: u32,
    /// Inputs of its element.
    pub inputs: u32,
    /// Outputs of its element.
    pub outputs: u32,
    /// What it does when no packets wait.
    pub wait: WaitMode,
    /// Hybrid waiting: how long it looks before it sleeps, in nanoseconds.
    pub spin_ns: u32,
    /// Slots after which it publishes (WORKER_PKT_THRESHOLD).
    pub worker_threshold: u32,
    /// Sessions that its arena has room for.
    pub sessions: u32,
    /// Most scratch per session, in bytes.
    pub scratch_len_max: u32,
    /// What a function of streams may do, as bits of `stream_need` in `nf/abi`; 0 where it is to be
    /// one of packets.
    pub stream: u32,
    /// The arena to begin with, if it fits: that of a function in whose place this one comes.
    pub arena: Option<Arc<Arena>>,
    /// What it is configured with after WELCOME.
    pub configuration: Option<String>,
    /// How patient the host is.
    pub patience: Patience,
    /// What happens between its failures.
    pub backoff: Backoff,
    /// Whether another process waits, started and in its sandbox, to take its place.
    pub standby: bool,
}

impl FunctionSpec {
    /// One Master thread, one input, one output, blocking, strictly isolated.
    pub fn new(program: Program) -> FunctionSpec {
        let (shape, pages) = wiring::DEFAULT_SHAPE;
        FunctionSpec {
            label: program.path.display().to_string(),
            order: Order::new(program),
            shape,
            pages,
            group: None,
            links: 1,
            inputs: 1,
            outputs: 1,
            wait: WaitMode::Block,
            spin_ns: 50_000,
            worker_threshold: 32,
            sessions: 0,
            scratch_len_max: 256,
            stream: 0,
            arena: None,
            configuration: None,
            patience: Patience::default(),
            backoff: Backoff::default(),
            standby: false,
        }
    }
}

/// What is known of a function at a moment.
#[derive(Debug, Clone)]
pub struct Status {
    /// Where it stands.
    pub state: State,
    /// Its name, as it says.
    pub name: String,
    /// Its process's number, while it has one.
    pub pid: Option<i32>,
    /// Starts after the first.
    pub restarts: u64,
    /// Times that it broke the protocol, of the rings or of the control socket.
    pub faults: u64,
    /// Times that it hung.
    pub hangs: u64,
    /// CPU time of all its processes.
    pub cpu_time: Duration,
    /// How its last process ended, if one has.
    pub last_end: Option<String>,
    /// The end of what its present or last process wrote to its standard output and error.
    pub output: String,
    /// Which measures of its sandbox are in force.
    pub sandbox: Option<SandboxReport>,
}

/// Why a handler's call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No process is attached.
    #[error("the function is not running")]
    NotRunning,
    /// It did not answer.
    #[error("the function did not answer within {CALL_TIMEOUT:?}")]
    NoAnswer,
    /// It has too many questions to answer already, or this one is too long.
    #[error("the function cannot take this question now, or it is too long")]
    Refused,
    /// Its answer is an error.
    #[error("{0}")]
    Answer(String),
}

/// What the supervisor thread and the users of a function share.
#[derive(Debug)]
pub(crate) struct Shared {
    generation: AtomicU32,
    published: Mutex<Published>,
    status: Mutex<Status>,
    changed: Condvar,
    commands: Mutex<VecDeque<Command>>,
    /// Wakes the supervisor thread.
    pub bell: OwnedFd,
}

/// What the present generation has for Masters and handlers.
#[derive(Debug, Default)]
pub(crate) struct Published {
    pub links: Vec<Option<HostLink>>,
    pub control: Option<Control>,
    pub arena: Option<Arc<Arena>>,
}

/// A lock whose holder panicked holds whole values all the same: each change is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Gives the Masters a generation's links.
    pub fn publish(&self, generation: u32, published: Published) {
        let mut present = lock(&self.published);
        *present = published;
        // Under the lock: a Master that took a link sees its number, and none before it. Release:
        // whoever sees the number finds the links.
        self.generation.store(generation, Ordering::Release);
    }

    /// Takes them back; what Masters took already stays mapped until they let go of it.
    pub fn withdraw(&self) {
        let mut published = lock(&self.published);
        self.generation.store(0, Ordering::Release);
        // The arena outlives the generation.
        *published = Published { arena: published.arena.take(), ..Published::default() };
    }

    pub fn change(&self, change: impl FnOnce(&mut Status)) {
        change(&mut lock(&self.status));
        self.changed.notify_all();
    }

    pub fn take_command(&self) -> Option<Command> {
        lock(&self.commands).pop_front()
    }

    /// Leaves a command for the supervisor; gives it back when too many wait.
    fn command(&self, command: Command) -> Result<(), Command> {
        let mut commands = lock(&self.commands);
        // To stop is always possible.
        if commands.len() >= COMMANDS_MAX && !matches!(command, Command::Stop) {
            return Err(command);
        }
        commands.push_back(command);
        self.ring();
        Ok(())
    }

    /// Wakes the supervisor.
    pub fn ring(&self) {
        // An eventfd that is full is readable, which is all that is wanted.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// A supervised function. Dropping it kills its process and waits for the end, some milliseconds.
#[derive(Debug)]
pub struct Function {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A function that is being started.
#[derive(Debug)]
pub struct Begun {
    function: Function,
    attached: Receiver<Result<(), HostError>>,
}

impl Begun {
    /// Waits until the function has attached.
    ///
    /// # Errors
    /// Why it did not.
    pub fn attached(self) -> Result<Arc<Function>, HostError> {
        match self.attached.recv() {
            Ok(Ok(())) => Ok(Arc::new(self.function)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(HostError::Stopped),
        }
    }
}

impl Function {
    /// Starts a function and waits until it has attached.
    ///
    /// # Errors
    /// All of [`HostError`]: a function that does not attach the first time is not tried again.
    pub fn start(spec: FunctionSpec) -> Result<Arc<Function>, HostError> {
        Function::begin(spec)?.attached()
    }

    /// Starts a function without waiting, so that many can be started at once.
    ///
    /// # Errors
    /// What is wrong with the spec itself.
    pub fn begin(mut spec: FunctionSpec) -> Result<Begun, HostError> {
        if spec.links == 0 || spec.links > LINKS_MAX {
            let why = format!("{} Master threads; a function serves 1 to {LINKS_MAX}", spec.links);
            return Err(HostError::Argument { what: "links", why });
        }
        spec.order.limits.regions_bytes = wiring::regions_bytes(&spec)?;
        // Each link is two descriptors, besides those of the control region and the start.
        spec.order.limits.open_files += 2 * u64::from(spec.links);
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let bell = rustix::event::eventfd(0, flags)
            .map_err(|error| HostError::system("making an eventfd", error))?;
        let shared = Arc::new(Shared {
            generation: AtomicU32::new(0),
            published: Mutex::default(),
            status: Mutex::new(Status::starting()),
            changed: Condvar::new(),
            commands: Mutex::default(),
            bell,
        });
        let (tell, attached) = sync_channel(1);
        let thread = keeper::spawn(spec, shared.clone(), tell)?;
        Ok(Begun { function: Function { shared, thread: Some(thread) }, attached })
    }

    /// The present generation: changes when links change; 0 means that no function runs.
    #[inline]
    pub fn generation(&self) -> u32 {
        // Acquire pairs with `publish`.
        self.shared.generation.load(Ordering::Acquire)
    }

    /// The present generation's link of a Master thread, once. Takes a lock: to be called when
    /// [`Function::generation`] has changed.
    pub fn take_link(&self, thread: usize) -> Option<HostLink> {
        lock(&self.shared.published).links.get_mut(thread)?.take()
    }

    /// A Master saw that the function broke the protocol: it is killed and restarted. A report on
    /// a generation that is gone is ignored.
    pub fn report_fault(&self, generation: u32, fault: PeerFault) {
        // Refused only when as much is waiting already, which is not less of a reason to kill it.
        let _ = self.shared.command(Command::Fault(generation, fault));
    }

    /// Packets begin to wait for the function: should it be said to hang, it counts from about now
    /// whether it had a processor.
    pub fn watch(&self) {
        // Refused only when there is more to do than that.
        let _ = self.shared.command(Command::Watch);
    }

    /// A Master saw that the function has had a packet for longer than [`Patience::hang`]: it is
    /// killed and restarted. A report on a generation that is gone is ignored.
    pub fn report_hang(&self, generation: u32) {
        // Refused only when as much is waiting already: the next look reports it again.
        let _ = self.shared.command(Command::Hang(generation));
    }

    /// What is known of it.
    pub fn status(&self) -> Status {
        let status = lock(&self.shared.status);
        let mut copy = status.clone();
        // The lock is held: the supervisor takes the number away before it is anyone else's.
        copy.cpu_time += status.pid.map_or(Duration::ZERO, cpu_time);
        copy
    }

    /// The control region of the present generation: figures and counters.
    pub fn control(&self) -> Option<Control> {
        lock(&self.shared.published).control.clone()
    }

    /// The scratch of its sessions, if it asked for any.
    pub fn arena(&self) -> Option<Arc<Arena>> {
        lock(&self.shared.published).arena.clone()
    }

    /// Calls a handler within the function: [`Kind::Read`] or [`Kind::Write`]. Waits for the
    /// answer, so not to be called by a thread that moves packets: those [`ask`](Self::ask).
    ///
    /// # Errors
    /// [`CallError`].
    pub fn call(&self, kind: Kind, text: &str) -> Result<String, CallError> {
        let (reply, answer) = sync_channel(1);
        // One answer for room for one: it is never refused.
        self.ask(kind, text, move |answer| drop(reply.try_send(answer)));
        answer.recv().unwrap_or(Err(CallError::NotRunning))
    }

    /// The same without waiting: `reply` is called with the answer within two seconds, by
    /// the supervisor's thread or, where nothing can be asked, at once. It must not wait.
    pub fn ask(
        &self,
        kind: Kind,
        text: &str,
        reply: impl FnOnce(Result<String, CallError>) + Send + 'static,
    ) {
        let is_question = matches!(kind, Kind::Read | Kind::Write);
        if !is_question || text.len() > LEN_MAX / 2 {
            return reply(Err(CallError::Refused));
        }
        if self.generation() == 0 {
            return reply(Err(CallError::NotRunning));
        }
        let reply = Reply(Box::new(reply));
        let call = Command::Call { kind, text: text.into(), reply };
        if let Err(Command::Call { reply, .. }) = self.shared.command(call) {
            reply.give(Err(CallError::Refused));
        }
    }

    /// Asks it to finish what waits and to end; it is killed when that takes too long. Masters
    /// keep their links until it has ended.
    pub fn drain(&self) {
        if self.shared.command(Command::Drain).is_err() {
            self.stop();
        }
    }

    /// Kills it, for good.
    pub fn stop(&self) {
        // Never refused.
        let _ = self.shared.command(Command::Stop);
    }

    /// Waits until its state is one of these, for some time; gives the state.
    pub fn wait_for(&self, wanted: impl Fn(State) -> bool, at_most: Duration) -> State {
        let end = Instant::now() + at_most;
        let mut status = lock(&self.shared.status);
        while !wanted(status.state) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.changed.wait_timeout(status, left);
            status = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        status.state
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // A panic there was told by the panic itself; the process died with the thread.
            let _ = thread.join();
        }
    }
}

impl Status {
    fn starting() -> Status {
        Status {
            state: State::Starting,
            name: String::new(),
            pid: None,
            restarts: 0,
            faults: 0,
            hangs: 0,
            cpu_time: Duration::ZERO,
            last_end: None,
            output: String::new(),
            sandbox: None,
        }
    }
}

/// What becomes of a call's answer.
pub(crate) struct Reply(Box<dyn FnOnce(Result<String, CallError>) + Send>);

impl Reply {
    /// Gives the answer on.
    pub fn give(self, answer: Result<String, CallError>) {
        (self.0)(answer);
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}
