//! A small host for the tests of functions: it gives packets to a function and reports what came of
//! them. The function is a value in a thread of the test, or a program, here without a sandbox.
//!
//! ```
//! use thruway_nf::trial::{Arrival, Setup};
//! use thruway_nf::{Batch, Config, Verdict};
//!
//! let mut trial = Setup::DEFAULT.thread(Config::DEFAULT, |_start| {
//!     Ok(|batch: &mut Batch<'_>| batch.each(|packet| match packet.bytes()[0] {
//!         0 => Verdict::Drop,
//!         _ => Verdict::Next(0),
//!     }))
//! })?;
//! let given = trial.exchange(&[&[1; 64], &[0; 64]])?;
//! assert_eq!(given[0].bytes, [1; 64]);
//! assert_eq!(given[1].arrival, Arrival::Dropped);
//! trial.finish()?;
//! # Ok::<(), thruway_nf::trial::TrialError>(())
//! ```

mod given;
mod streams;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use given::{Arrival, Given};
use rustix::event::{EventfdFlags, eventfd};
pub use streams::Shown;
pub use thruway_exchange::SlotTag;
use thruway_exchange::socket::{Message, Socket, SocketError};
use thruway_exchange::{
    Arena, Control, Doorbell, LinkError, Mapped, Master, PeerFault, Refusal, Token, Tuning, ring,
};
use thruway_nf_abi::LinkShape;
use thruway_nf_abi::control::DRAIN;
pub use thruway_nf_abi::features::Features;
use thruway_nf_abi::message::{Head, Hello, Kind, WaitMode, Welcome};

use self::given::Own;
use crate::{Config, Function, RunError, Start, run_on};

/// Longest time to wait for a function.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the element and its host would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// Sizes of the link.
    pub shape: LinkShape,
    /// Inputs of the element.
    pub inputs: u32,
    /// Outputs of the element.
    pub outputs: u32,
    /// The roles that outputs lead to, as the element's ROLES names them: `- scrubber`.
    pub roles: &'static str,
    /// What the function does when nothing waits.
    pub wait: WaitMode,
    /// Sessions that the arena has room for, if the function asks for scratch.
    pub sessions: u32,
    /// Slots after which the function publishes what it did.
    pub worker_threshold: u32,
    /// Text of the element's CONFIG; none if empty.
    pub configuration: &'static str,
    /// Features of the function interface that the host has: fewer for an earlier Thruway.
    pub features: Features,
}

impl Setup {
    /// One input, one output, a function that sleeps when nothing waits, 16 sessions.
    pub const DEFAULT: Setup = Setup {
        shape: LinkShape::DEFAULT,
        inputs: 1,
        outputs: 1,
        roles: "",
        wait: WaitMode::Block,
        sessions: 16,
        worker_threshold: 32,
        configuration: "",
        features: Features::ALL,
    };

    /// Tries a function in a thread of this process.
    ///
    /// # Errors
    /// [`TrialError`].
    pub fn thread<F: Function>(
        &self,
        config: Config,
        make: impl FnOnce(&mut Start<'_>) -> Result<F, String> + Send + 'static,
    ) -> Result<Trial, TrialError> {
        let (host, function) = Socket::pair()?;
        let thread = std::thread::spawn(move || run_on(function, &config, make));
        self.welcome(host, Runner::Thread(Some(thread)))
    }

    /// Tries a program. Its standard input is taken; it is not put into a sandbox.
    ///
    /// # Errors
    /// [`TrialError`].
    pub fn program(&self, program: &Command) -> Result<Trial, TrialError> {
        let (host, function) = Socket::pair()?;
        // The shell moves the socket to the number where a function looks for it.
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "exec 3<&0 </dev/null; exec \"$@\"", "sh"]);
        shell.arg(program.get_program()).args(program.get_args());
        shell.stdin(Stdio::from(OwnedFd::from(function)));
        let child = shell.spawn().map_err(TrialError::Spawn)?;
        // Without its copy of the function's end this process sees when the function ends.
        drop(shell);
        self.welcome(host, Runner::Process(child))
    }

    fn welcome(&self, socket: Socket, mut runner: Runner) -> Result<Trial, TrialError> {
        match self.shake_hands(socket) {
            Ok((master, parts)) => {
                Ok(Trial { master, parts, runner, taken: Vec::new(), own: Own::default() })
            }
            Err(error) => {
                // What the function says of it matters more.
                runner.end()?;
                Err(error)
            }
        }
    }

    fn shake_hands(&self, socket: Socket) -> Result<(Master<Mapped>, Parts), TrialError> {
        let message = receive(&socket)?;
        if message.head.kind != Kind::Hello {
            return Err(TrialError::Unexpected(message.head.kind, message.text()));
        }
        let hello = Hello::parse(message.head, &message.body).map_err(SocketError::from)?;
        if hello.outputs > self.outputs {
            let why = format!("it uses {} outputs of {}", hello.outputs, self.outputs);
            socket.send(Head::new(Kind::Refused, 0), why.as_bytes(), &[])?;
            return Err(TrialError::Refused(why));
        }
        let control = Control::create().map_err(LinkError::from)?;
        let link = Mapped::create(&self.shape, None, thruway_exchange::Pages::Normal)?;
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC).map_err(SocketError::from)?;
        let arena = match (hello.scratch_len, self.sessions) {
            (0, _) | (_, 0) => None,
            (len, sessions) => Some(Arena::create(len, sessions).map_err(LinkError::from)?),
        };
        let mut fds: Vec<BorrowedFd<'_>> = vec![control.fd()];
        fds.extend(arena.as_ref().map(Arena::fd));
        fds.extend([link.fd(), eventfd.as_fd()]);
        let roles: Vec<&str> = self.roles.split_whitespace().collect();
        let roles = roles.join("\n").replace('-', "");
        let welcome = self.answer(&hello);
        let body = [&welcome.to_bytes()[..], roles.as_bytes()].concat();
        socket.send(welcome.head(), &body, &fds)?;
        if !self.configuration.is_empty() {
            let text = self.configuration.as_bytes();
            socket.send(Head::new(Kind::Configure, 0), text, &[])?;
        }
        let message = receive(&socket)?;
        match message.head.kind {
            Kind::Ready => {}
            Kind::Failed => return Err(TrialError::Failed(message.text())),
            other => return Err(TrialError::Unexpected(other, message.text())),
        }
        let bell = Doorbell::new(control.clone(), None);
        let master = Master::new(link, self.outputs, Tuning::DEFAULT);
        Ok((master, Parts { hello, control, bell, socket, arena, _eventfd: eventfd, requests: 0 }))
    }

    fn answer(&self, hello: &Hello) -> Welcome {
        Welcome {
            links: 1,
            inputs: self.inputs,
            outputs: self.outputs,
            wait: self.wait,
            spin_ns: 50_000,
            worker_threshold: self.worker_threshold,
            sessions: if hello.scratch_len > 0 { self.sessions } else { 0 },
            has_group: false,
            restarted: false,
            features: hello.offer.known.and(self.features),
            workers: 1,
        }
    }
}

/// Why a trial failed.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The program cannot be started.
    #[error("the program does not start: {0}")]
    Spawn(std::io::Error),
    /// The function uses what the setup does not have.
    #[error("the function was refused: {0}")]
    Refused(String),
    /// It says that it cannot begin.
    #[error("the function cannot begin: {0}")]
    Failed(String),
    /// It answered with an error.
    #[error("the function answers: {0}")]
    Answer(String),
    /// A message out of turn.
    #[error("the function sent {0:?} out of turn: {1}")]
    Unexpected(Kind, String),
    /// The control socket fails.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// There is no memory for the link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A packet does not go into a slot.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// The function broke the protocol.
    #[error("the function broke the protocol: {0}")]
    Fault(#[from] PeerFault),
    /// It did not do in time what was waited for.
    #[error("the function did not {0} within {PATIENCE:?}")]
    Late(&'static str),
    /// It ended otherwise than it should.
    #[error("the function ended: {0}")]
    Ended(String),
}

enum Runner {
    Thread(Option<JoinHandle<Result<(), RunError>>>),
    Process(Child),
}

impl Runner {
    fn has_ended(&mut self) -> Result<bool, TrialError> {
        match self {
            Runner::Thread(thread) => Ok(thread.as_ref().is_none_or(JoinHandle::is_finished)),
            Runner::Process(child) => Ok(child.try_wait().map_err(TrialError::Spawn)?.is_some()),
        }
    }

    /// Waits for its end, which was asked for.
    fn end(&mut self) -> Result<(), TrialError> {
        match self {
            Runner::Thread(thread) => match thread.take().map(JoinHandle::join) {
                Some(Ok(Err(error))) => Err(TrialError::Ended(error.to_string())),
                Some(Err(_)) => Err(TrialError::Ended("it panicked".into())),
                Some(Ok(Ok(()))) | None => Ok(()),
            },
            Runner::Process(child) => {
                let begin = Instant::now();
                loop {
                    match child.try_wait().map_err(TrialError::Spawn)? {
                        Some(status) if status.success() => return Ok(()),
                        Some(status) => return Err(TrialError::Ended(status.to_string())),
                        None if begin.elapsed() > PATIENCE => return Err(TrialError::Late("end")),
                        None => std::thread::sleep(Duration::from_millis(1)),
                    }
                }
            }
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if let Runner::Process(child) = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

struct Parts {
    hello: Hello,
    control: Control,
    bell: Doorbell,
    socket: Socket,
    arena: Option<Arena>,
    /// Open while the function may write to it.
    _eventfd: OwnedFd,
    requests: u32,
}

/// A function on trial.
pub struct Trial {
    master: Master<Mapped>,
    parts: Parts,
    runner: Runner,
    taken: Vec<Given>,
    own: Own,
}

impl Trial {
    /// What the function said of itself.
    pub fn hello(&self) -> &Hello {
        &self.parts.hello
    }

    /// Its control region: counters, figures, heartbeat.
    pub fn control(&self) -> &Control {
        &self.parts.control
    }

    /// Its sessions' scratch.
    pub fn arena(&mut self) -> Option<&mut Arena> {
        self.parts.arena.as_mut()
    }

    /// Puts a packet; [`publish`](Self::publish) shows it.
    ///
    /// # Errors
    /// When the ring is full or the packet is too long.
    pub fn put(&mut self, mark: SlotTag, bytes: &[u8]) -> Result<(), TrialError> {
        // What a stream's function gives back has a head of its own, which is always read.
        let asked = if self.parts.hello.stream == 0 { mark.keeping() } else { mark };
        let slot = self.master.put(asked, bytes)?;
        self.own.put(slot, bytes);
        Ok(())
    }

    /// Packets so far that the function left as they were: of those, a host takes no bytes back.
    pub fn kept(&self) -> u64 {
        self.own.kept
    }

    /// Puts the news that a session has ended; it comes back as [`Arrival::Dropped`].
    ///
    /// # Errors
    /// When the ring is full.
    pub fn put_released(&mut self, session: u32) -> Result<(), TrialError> {
        self.master.put_released(session)?;
        Ok(())
    }

    /// Shows what was put.
    pub fn publish(&mut self) {
        self.master.publish(&self.parts.bell, 0);
    }

    /// Whether all that was put is back.
    pub fn is_idle(&self) -> bool {
        self.master.occupancy() == 0
    }

    /// Takes what there is now.
    ///
    /// # Errors
    /// When the function broke the protocol.
    pub fn poll(&mut self) -> Result<Vec<Given>, TrialError> {
        let (taken, own) = (&mut self.taken, &mut self.own);
        let mut take = |token: Token<'_, Mapped>| taken.push(own.given(&token));
        self.master.poll(0, u32::MAX, &mut take)?;
        self.master.poll_injected(u32::MAX, &mut take)?;
        Ok(std::mem::take(&mut self.taken))
    }

    /// Puts packets of no session, as many at once as there is room for, and waits until all are
    /// back: what the function gave, in order.
    ///
    /// # Errors
    /// [`TrialError`].
    pub fn exchange(&mut self, packets: &[&[u8]]) -> Result<Vec<Given>, TrialError> {
        let marked: Vec<_> = packets.iter().map(|bytes| (SlotTag::NONE, *bytes)).collect();
        self.exchange_marked(&marked)
    }

    /// As [`exchange`](Self::exchange), with input, direction and session of each packet.
    ///
    /// # Errors
    /// [`TrialError`].
    pub fn exchange_marked(
        &mut self,
        packets: &[(SlotTag, &[u8])],
    ) -> Result<Vec<Given>, TrialError> {
        let mut all = Vec::new();
        let mut waiting = packets.iter().peekable();
        let begin = Instant::now();
        while waiting.peek().is_some() || self.master.occupancy() > 0 {
            while self.master.room() > 0 {
                let Some((mark, bytes)) = waiting.next() else { break };
                self.put(*mark, bytes)?;
            }
            self.publish();
            let given = self.poll()?;
            if given.is_empty() {
                self.pause(begin, "give packets back")?;
            }
            all.extend(given);
        }
        Ok(all)
    }

    /// Waits until the function has injected at least so many packets.
    ///
    /// # Errors
    /// [`TrialError`].
    pub fn injected(&mut self, count: usize) -> Result<Vec<Given>, TrialError> {
        let mut all = Vec::new();
        let begin = Instant::now();
        while all.len() < count {
            let given = self.poll()?;
            all.extend(given.into_iter().filter(|given| given.arrival == Arrival::Injected));
            self.pause(begin, "inject packets")?;
        }
        Ok(all)
    }

    fn pause(&mut self, begin: Instant, what: &'static str) -> Result<(), TrialError> {
        if self.runner.has_ended()? {
            self.runner.end()?;
            return Err(TrialError::Ended("too early".into()));
        }
        if begin.elapsed() > PATIENCE {
            return Err(TrialError::Late(what));
        }
        std::thread::sleep(Duration::from_micros(50));
        Ok(())
    }

    /// A counter of the function's by its name.
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.parts.control.counters().into_iter().find(|(one, _)| one == name).map(|(_, n)| n)
    }

    /// Reads a handler of the function.
    ///
    /// # Errors
    /// [`TrialError::Answer`] when the function says so.
    pub fn read(&mut self, handler: &str) -> Result<String, TrialError> {
        self.request(Kind::Read, handler)
    }

    /// Writes a handler of the function.
    ///
    /// # Errors
    /// [`TrialError::Answer`] when the function says so.
    pub fn write(&mut self, handler: &str, value: &str) -> Result<(), TrialError> {
        self.request(Kind::Write, &format!("{handler} {value}")).map(drop)
    }

    fn request(&mut self, kind: Kind, text: &str) -> Result<String, TrialError> {
        let parts = &mut self.parts;
        parts.requests += 1;
        let id = parts.requests;
        parts.socket.send(Head::new(kind, id), text.as_bytes(), &[])?;
        parts.control.count_request();
        ring(&parts.bell);
        let message = receive(&parts.socket)?;
        match message.head {
            Head { kind: Kind::Reply, id: of, .. } if of == id => Ok(message.text()),
            Head { kind: Kind::Error, id: of, .. } if of == id => {
                Err(TrialError::Answer(message.text()))
            }
            Head { kind, .. } => Err(TrialError::Unexpected(kind, message.text())),
        }
    }

    /// Asks the function to end and waits until it has: its last packets.
    ///
    /// # Errors
    /// [`TrialError::Ended`] when it ended with an error.
    pub fn finish(mut self) -> Result<Vec<Given>, TrialError> {
        self.parts.control.set_command(DRAIN);
        ring(&self.parts.bell);
        self.runner.end()?;
        self.poll()
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // Ends a thread that nobody waits for.
        self.parts.control.set_command(DRAIN);
        ring(&self.parts.bell);
    }
}

/// A message, waited for with patience.
fn receive(socket: &Socket) -> Result<Message, TrialError> {
    let begin = Instant::now();
    loop {
        if let Some(message) = socket.try_receive()? {
            return Ok(message);
        }
        if begin.elapsed() > PATIENCE {
            return Err(TrialError::Late("answer"));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}
