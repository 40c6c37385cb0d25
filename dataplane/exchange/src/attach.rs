//! A Worker's end of the handshake.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::SocketType;
use rustix::net::sockopt::socket_type;
use thruway_nf_abi::features::Disagreement;
use thruway_nf_abi::message::{Hello, Kind, SOCKET_FD, Wake, Welcome, first_link_of, role_names};
use thruway_nf_abi::{LinkHeader, LinkShape};
use thruway_region::{Region, RegionError};
use thruway_sync::atomic::{AtomicBool, Ordering};

use crate::arena::Arena;
use crate::control::Control;
use crate::mapped::{GroupRegion, LinkError, Mapped};
use crate::socket::{Message, Socket, SocketError};
use crate::worker::Worker;

/// Why a Worker has no links.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// There is no control socket: it was not started by a host.
    #[error(
        "this program is a network function and does nothing by itself: run it with Nf(EXEC \
         \"path args\") in a configuration (there is no control socket at descriptor {SOCKET_FD})"
    )]
    NotAFunction,
    /// The process has attached before.
    #[error("this process has attached to its host already: a function attaches once")]
    Twice,
    /// The host does not want it.
    #[error("the host refuses this function: {0}")]
    Refused(String),
    /// The socket fails, or what came is no message of this version.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// They do not agree on the features of the interface.
    #[error(transparent)]
    Features(#[from] Disagreement),
    /// A message out of turn.
    #[error("the host sent {0:?} where it should have sent WELCOME or CONFIGURE")]
    Unexpected(Kind),
    /// Too few or too many descriptors came.
    #[error("the host handed over {got} descriptors where this function needs {needed}")]
    Descriptors {
        /// What came.
        got: usize,
        /// What should have come.
        needed: usize,
    },
    /// The control region or the arena cannot be used.
    #[error("what the host handed over: {0}")]
    Region(#[from] RegionError),
    /// A link cannot be used.
    #[error("what the host handed over: {0}")]
    Link(#[from] LinkError),
}

/// A Worker's end of one link, and the handle to wake the Master at the other.
pub struct WorkerLink {
    /// The rings.
    pub worker: Worker<Mapped>,
    master: OwnedFd,
}

/// Packets given back after which a Master that sleeps is woken although more wait: a quarter of a
/// usual ring.
const GATHERED_MAX: u32 = 256;

/// Wakes a Master that sleeps.
#[derive(Debug, Clone, Copy)]
pub struct MasterBell<'a>(BorrowedFd<'a>);

impl MasterBell<'_> {
    /// After a flush that said so.
    #[cold]
    pub fn ring(&self) {
        // A full counter is a Master that was woken already.
        let _ = rustix::io::write(self.0, &1u64.to_ne_bytes());
    }
}

impl WorkerLink {
    /// The rings, and how to wake the Master.
    #[inline]
    pub fn split(&mut self) -> (&mut Worker<Mapped>, MasterBell<'_>) {
        (&mut self.worker, MasterBell(self.master.as_fd()))
    }

    /// Gives back all slots that the Worker is done with, and wakes the Master if it sleeps.
    #[inline]
    pub fn flush(&mut self) {
        if self.worker.flush() {
            self.wake_master();
        }
    }

    /// Gives back all slots that the Worker is done with. Wakes the Master, if it sleeps, when
    /// nothing else waits or much was given back: a Master that is woken for the first of many
    /// batches has little to do, and on a core that both share it takes the Worker's place.
    #[inline]
    pub fn hand_back(&mut self) {
        if self.worker.waiting() == 0 || self.worker.unannounced() >= GATHERED_MAX {
            self.flush();
        } else {
            self.worker.show();
        }
    }

    #[cold]
    fn wake_master(&self) {
        MasterBell(self.master.as_fd()).ring();
    }
}

/// What a Worker beyond the first one has of its host.
pub struct WorkerPart {
    /// Its number: 1 and so on.
    pub number: u32,
    /// Its control region.
    pub control: Control,
    /// The links that it serves.
    pub links: Vec<WorkerLink>,
    /// The scratch of its links' sessions.
    pub arena: Option<Arena>,
}

/// What a Worker has of its host.
pub struct Attached {
    /// How the host wants it to behave.
    pub welcome: Welcome,
    /// The roles that outputs lead to: see [`role_names`].
    pub roles: String,
    /// The control region; of the first Worker if the function is several.
    pub control: Control,
    /// One for each Master thread, or each of those that the first Worker serves.
    pub links: Vec<WorkerLink>,
    /// Readable when the host wakes it, if it asked for that; not blocking.
    pub eventfd: Option<OwnedFd>,
    /// Its sessions' scratch, if it asked for some and there are sessions; of the first Worker's
    /// sessions.
    pub arena: Option<Arena>,
    /// What the other Workers have, in order.
    pub others: Vec<WorkerPart>,
    /// For requests.
    pub socket: Socket,
    /// What the host configures it with, if that came already: see [`Attached::configuration`].
    pub configuration: Option<String>,
}

/// Shakes hands with the host that started this process.
///
/// # Errors
/// [`AttachError`].
pub fn attach(hello: &Hello) -> Result<Attached, AttachError> {
    static ATTACHED: AtomicBool = AtomicBool::new(false);
    // JUSTIFICATION: a descriptor that a process is started with is known by its number only.
    // SAFETY: it is used for this one duplication. Where nothing is open under the number, or
    // something else than a control socket, the calls below say so; nothing is closed.
    let given = unsafe { BorrowedFd::borrow_raw(SOCKET_FD) };
    match socket_type(given) {
        Ok(SocketType::SEQPACKET) => {}
        Ok(_) | Err(Errno::BADF | Errno::NOTSOCK) => return Err(AttachError::NotAFunction),
        // A sandbox may forbid the question; then the handshake will show.
        Err(_) => {}
    }
    let Ok(socket) = rustix::io::fcntl_dupfd_cloexec(given, SOCKET_FD + 1) else {
        return Err(AttachError::NotAFunction);
    };
    // Relaxed: only the first claim must succeed.
    if ATTACHED.swap(true, Ordering::Relaxed) {
        return Err(AttachError::Twice);
    }
    attach_by(socket.into(), hello)
}

/// Shakes hands over a given socket: for a Worker that is a thread of its host's process. What
/// comes is mapped anew, so that the two sides share memory, and no addresses.
///
/// # Errors
/// [`AttachError`].
pub fn attach_by(socket: Socket, hello: &Hello) -> Result<Attached, AttachError> {
    socket.send(hello.head(), &hello.to_bytes(), &[])?;
    let mut configuration = None;
    loop {
        let message = socket.receive()?;
        match message.head.kind {
            Kind::Welcome => return open(socket, hello, message, configuration),
            Kind::Refused => return Err(AttachError::Refused(message.text())),
            Kind::Configure => configuration = Some(message.text()),
            other => return Err(AttachError::Unexpected(other)),
        }
    }
}

fn open(
    socket: Socket,
    hello: &Hello,
    message: Message,
    configuration: Option<String>,
) -> Result<Attached, AttachError> {
    let welcome = Welcome::parse(message.head, &message.body).map_err(SocketError::from)?;
    if let Err(why) = hello.offer.accept(welcome.features) {
        // A host from before there were features knows it by this message alone.
        socket.send_failed(&why.to_string())?;
        return Err(why.into());
    }
    let roles = role_names(&message.body).map_err(SocketError::from)?.to_owned();
    let has_eventfd = hello.wake == Wake::Eventfd;
    let has_arena = hello.scratch_len > 0 && welcome.sessions > 0;
    let needed = welcome.workers as usize
        + usize::from(has_eventfd)
        + usize::from(welcome.has_group)
        + usize::from(has_arena)
        + 2 * welcome.links as usize;
    let got = message.fds.len();
    let short = || AttachError::Descriptors { got, needed };
    if got != needed {
        return Err(short());
    }
    let mut fds = message.fds.into_iter();
    let mut next = |wanted: bool| if wanted { fds.next() } else { None };
    let mut controls = Vec::new();
    for _ in 0..welcome.workers {
        controls.push(Control::open(next(true).ok_or_else(short)?)?);
    }
    let eventfd = next(has_eventfd);
    let group = next(welcome.has_group);
    let arena = match next(has_arena) {
        Some(fd) => Some(Arena::open(fd, hello.scratch_len, welcome.sessions)?),
        None => None,
    };
    let links = open_links(fds.collect(), group, welcome.worker_threshold)?;
    let mut parts = share_out(&welcome, controls, links, arena).into_iter();
    let WorkerPart { control, links, arena, .. } = parts.next().ok_or_else(short)?;
    let others = parts.collect();
    Ok(Attached { welcome, roles, control, links, eventfd, arena, others, socket, configuration })
}

/// What each Worker has: links that follow each other, and the part of the arena that has their
/// sessions.
fn share_out(
    welcome: &Welcome,
    controls: Vec<Control>,
    links: Vec<WorkerLink>,
    mut arena: Option<Arena>,
) -> Vec<WorkerPart> {
    let Welcome { links: count, workers, .. } = *welcome;
    let mut links = links.into_iter();
    let mut parts = Vec::new();
    for (number, control) in (0..).zip(controls) {
        let [first, next] = [number, number + 1].map(|n| first_link_of(n, count, workers));
        // The last one has what a host of sessions that cannot be shared out evenly leaves.
        let end = if next == count { u32::MAX } else { welcome.sessions / count * next };
        let (own, rest) = arena.map(|arena| arena.split_at(end)).unzip();
        arena = rest;
        let links = links.by_ref().take((next - first) as usize).collect();
        parts.push(WorkerPart { number, control, links, arena: own });
    }
    parts
}

fn open_links(
    fds: Vec<OwnedFd>,
    group: Option<OwnedFd>,
    threshold: u32,
) -> Result<Vec<WorkerLink>, AttachError> {
    let mut fds = fds.into_iter();
    let mut group_fd = group;
    let mut group: Option<GroupRegion> = None;
    let mut links = Vec::new();
    while let (Some(region), Some(master)) = (fds.next(), fds.next()) {
        if let Some(fd) = group_fd.take() {
            group = Some(GroupRegion::open(fd, &shape_of(&region)?)?);
        }
        let mapped = Mapped::open(region, group.clone())?;
        // JUSTIFICATION: the Worker's end of memory that a Master of another mapping made.
        // SAFETY: the mapping was just made and is given to no one else. The host keeps to the
        // protocol: a Worker is its guest and trusts it. That another process, or another mapping
        // in this one, has a second Worker for the link is for the host to prevent.
        let worker = unsafe { Worker::new(mapped, threshold) };
        links.push(WorkerLink { worker, master });
    }
    Ok(links)
}

/// The shape that a link's region declares, read before it is opened: a group's region needs it.
fn shape_of(region: &OwnedFd) -> Result<LinkShape, AttachError> {
    let fd = region.try_clone().map_err(|_| SocketError::System(Errno::MFILE))?;
    let mut header = [0; LinkHeader::LEN];
    Region::open(fd)?.copy_out(0, &mut header)?;
    Ok(LinkHeader::parse(&header).ok_or(LinkError::NotALink)?)
}

/// What the host configures a function with; waits for it. See [`Attached::configuration`].
///
/// # Errors
/// [`AttachError`].
pub fn receive_configuration(socket: &Socket) -> Result<String, AttachError> {
    let message = socket.receive()?;
    match message.head.kind {
        Kind::Configure => Ok(message.text()),
        other => Err(AttachError::Unexpected(other)),
    }
}

impl Attached {
    /// What the host configures it with; waits for it. Only for functions that cannot do without:
    /// a host that sends none lets them wait until it gives up on them.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn configuration(&mut self) -> Result<String, AttachError> {
        if let Some(text) = self.configuration.take() {
            return Ok(text);
        }
        receive_configuration(&self.socket)
    }

    /// Says that it is ready for packets.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn ready(&self) -> Result<(), SocketError> {
        self.socket.send_ready()
    }

    /// Says why it cannot begin. The process should end then.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn failed(&self, why: &str) -> Result<(), SocketError> {
        self.socket.send_failed(why)
    }

    /// The socket, to wait on beside other descriptors.
    pub fn socket_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
