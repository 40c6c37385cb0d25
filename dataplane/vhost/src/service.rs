//! The thread of a port: meets front-ends, answers their messages, passes kicks and calls on.
//!
//! A front-end's descriptors may be such that reading or writing waits for ever. Then this thread
//! does, and nobody but the guest of that front-end misses it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use thruway_sync::atomic::Ordering;

use crate::connection::{Connection, Incoming};
use crate::message::{Head, ProtocolFault, Request};
use crate::session::{RINGS, Reply, Rings as _, Session};
use crate::shared::{Address, End, OnEvent, PortEvent, PortRings, Shared};

/// Time between two tries to connect.
const CONNECT_EVERY: Duration = Duration::from_millis(500);

/// Time from the end of a connection after a protocol violation to the next one.
const FAULT_PAUSE: Duration = Duration::from_millis(100);

/// Time in which further kicks are not looked at: a guest that kicks without end must not keep a
/// processor.
const KICK_PAUSE: Duration = Duration::from_micros(50);

/// Where connections come from.
pub(crate) enum Source {
    Listen(UnixListener),
    Connect(PathBuf),
    /// Where the next front-end connects.
    Attached(Option<UnixListener>),
}

impl Source {
    pub fn open(address: &Address) -> Result<Source, String> {
        match address {
            Address::Listen(path) => listen(path).map(Source::Listen),
            Address::Connect(path) => Ok(Source::Connect(path.clone())),
            Address::Attached => Ok(Source::Attached(None)),
        }
    }

    /// A connection, if there is one now.
    fn take(&mut self, shared: &Shared) -> Option<OwnedFd> {
        match self {
            Source::Listen(listener) => listener.accept().ok().map(|(stream, _)| stream.into()),
            Source::Connect(path) => UnixStream::connect(path).ok().map(OwnedFd::from),
            Source::Attached(waiting) => {
                if let Some(next) = shared.attached.lock().take() {
                    // Its accept must not wait, or there is none.
                    *waiting = next.set_nonblocking(true).is_ok().then_some(next);
                }
                let (stream, _) = waiting.as_ref()?.accept().ok()?;
                *waiting = None;
                Some(stream.into())
            }
        }
    }
}

/// Listens at a path; takes the place of a socket at which nobody listens any more.
fn listen(path: &Path) -> Result<UnixListener, String> {
    let bound = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let about = std::fs::symlink_metadata(path);
            let is_socket = about.is_ok_and(|about| about.file_type().is_socket());
            let is_left = UnixStream::connect(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            if !(is_socket && is_left) {
                let why =
                    if is_socket { "another program listens there" } else { "it is no socket" };
                return Err(format!("cannot listen at '{}': {why}", path.display()));
            }
            std::fs::remove_file(path).and_then(|()| UnixListener::bind(path))
        }
        other => other,
    };
    let listener =
        bound.map_err(|error| format!("cannot listen at '{}': {error}", path.display()))?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    Ok(listener)
}

/// Why a connection ended.
enum Ended {
    /// The port is closed.
    Closing,
    /// The front-end closed its end.
    Left,
    Fault(ProtocolFault),
}

impl<T: Into<ProtocolFault>> From<T> for Ended {
    fn from(fault: T) -> Ended {
        Ended::Fault(fault.into())
    }
}

struct Service {
    shared: Arc<Shared>,
    source: Source,
    on_event: OnEvent,
    is_ready: bool,
}

/// Starts the thread of a port.
pub(crate) fn spawn(shared: Arc<Shared>, source: Source, on_event: OnEvent) -> Result<(), String> {
    let service = Service { shared, source, on_event, is_ready: false };
    std::thread::Builder::new()
        .name("vhost".into())
        .spawn(move || service.run())
        .map(drop)
        .map_err(|error| format!("cannot start a thread: {error}"))
}

impl Service {
    fn run(mut self) {
        while !self.is_closing() {
            match self.source.take(&self.shared) {
                Some(fd) => self.serve(Connection::new(fd)),
                None => self.wait_for_connection(),
            }
        }
    }

    fn is_closing(&self) -> bool {
        self.shared.is_closing.load(Ordering::Acquire)
    }

    fn wait_for_connection(&self) {
        let mut fds = vec![PollFd::new(&self.shared.service, PollFlags::IN)];
        let at_most = match &self.source {
            Source::Listen(listener) | Source::Attached(Some(listener)) => {
                fds.push(PollFd::new(listener, PollFlags::IN));
                None
            }
            Source::Connect(_) => Some(CONNECT_EVERY),
            Source::Attached(None) => None,
        };
        wait(&mut fds, at_most);
        self.shared.service.silence();
    }

    /// Serves a front-end until it is gone.
    fn serve(&mut self, connection: Connection) {
        {
            let mut status = self.shared.status.lock();
            (status.is_connected, status.connections) = (true, status.connections + 1);
        }
        let mut session = Session::new();
        let end = self.rounds(&connection, &mut session);
        let mut rings = PortRings(&self.shared);
        (0..RINGS).for_each(|ring| drop(rings.stop(ring)));
        self.note_ready(&session);
        // The front-end learns of the end before anything else can be.
        drop(connection);
        let port = self.shared.name.as_str();
        let why = match &end {
            Ended::Closing => "the port was closed".to_owned(),
            Ended::Left => "the front-end left".to_owned(),
            Ended::Fault(fault) => fault.to_string(),
        };
        if let Ended::Fault(fault) = &end {
            let fault = fault.name();
            tracing::error!(port, fault, why, "virtual machine's device ended");
            (self.on_event)(PortEvent::Fault(why.clone()));
        } else {
            tracing::debug!(port, why, "virtual machine's device ended");
        }
        let is_fault = matches!(end, Ended::Fault(_));
        {
            let mut status = self.shared.status.lock();
            status.is_connected = false;
            status.faults += u64::from(is_fault);
            status.last_end = why;
        }
        if is_fault && !self.is_closing() {
            std::thread::sleep(FAULT_PAUSE);
        }
    }

    fn rounds(&mut self, connection: &Connection, session: &mut Session) -> Ended {
        let mut kicks_from = Instant::now();
        loop {
            let ready = Ready::wait(&self.shared, connection, session, kicks_from);
            if self.is_closing() {
                return Ended::Closing;
            }
            if ready.kicks != [false; RINGS] {
                kicks_from = Instant::now() + KICK_PAUSE;
            }
            let done = self.pass_events(&ready, session).and_then(|()| {
                if ready.message { self.message(connection, session) } else { Ok(()) }
            });
            if let Err(end) = done {
                return end;
            }
        }
    }

    /// Kicks to packet threads, their calls to the guest.
    fn pass_events(&self, ready: &Ready, session: &Session) -> Result<(), Ended> {
        self.shared.service.silence();
        for (ring, end) in self.shared.ends.iter().enumerate() {
            if let Some(fault) = end.take_fault() {
                return Err(fault.into());
            }
            if let Some(call) = session.call(ring).filter(|_| end.take_call()) {
                // One that was called often enough has not looked yet.
                match rustix::io::write(call, &1_u64.to_ne_bytes()) {
                    Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            if let Some(kick) = session.kick(ring).filter(|_| ready.kicks[ring]) {
                match rustix::io::read(kick, &mut [0; 8]) {
                    Ok(8) => end.wake(),
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    // No eventfd: it would be ready for ever.
                    Ok(_) => return Err(ProtocolFault::NoKick.into()),
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        Ok(())
    }

    fn message(&mut self, connection: &Connection, session: &mut Session) -> Result<(), Ended> {
        let Some(Incoming { head, body, fds }) = connection.receive()? else {
            return Err(Ended::Left);
        };
        let request = Request::parse(head.request, &body)?;
        let mut rings = PortRings(&self.shared);
        let reply = session.handle((head.request, request), fds, &mut rings)?;
        self.note_ready(session);
        match reply {
            Reply::Body(body) => connection.send(&Head::answer(head.request, &body))?,
            Reply::Done if head.needs_reply() && session.acknowledges() => {
                connection.send(&Head::answer(head.request, &0_u64.to_le_bytes()))?;
            }
            Reply::Done => {}
        }
        Ok(())
    }

    /// Notes whether the driver uses the rings.
    fn note_ready(&mut self, session: &Session) {
        let is_ready = self.shared.ends.iter().all(End::is_used);
        {
            let mut status = self.shared.status.lock();
            (status.is_ready, status.features) = (is_ready, session.features().0);
        }
        if std::mem::replace(&mut self.is_ready, is_ready) != is_ready {
            (self.on_event)(if is_ready { PortEvent::Ready } else { PortEvent::Down });
        }
    }
}

/// What a wait found.
#[derive(Debug, Default)]
struct Ready {
    message: bool,
    kicks: [bool; RINGS],
}

impl Ready {
    fn wait(
        shared: &Shared,
        connection: &Connection,
        session: &Session,
        kicks_from: Instant,
    ) -> Ready {
        let left = kicks_from.saturating_duration_since(Instant::now());
        let mut fds = vec![
            PollFd::new(&shared.service, PollFlags::IN),
            PollFd::new(connection, PollFlags::IN),
        ];
        let mut rings = Vec::new();
        for ring in (0..RINGS).filter(|_| left.is_zero()) {
            if let Some(kick) = session.kick(ring) {
                fds.push(PollFd::from_borrowed_fd(kick, PollFlags::IN));
                rings.push(ring);
            }
        }
        wait(&mut fds, (!left.is_zero()).then_some(left));
        let mut ready = Ready { message: has_news(&fds[1]), ..Ready::default() };
        for (ring, fd) in rings.into_iter().zip(&fds[2..]) {
            ready.kicks[ring] = has_news(fd);
        }
        ready
    }
}

fn has_news(fd: &PollFd<'_>) -> bool {
    !fd.revents().is_empty()
}

/// Waits for one of them; an error (a signal) is as good as an early end.
fn wait(fds: &mut [PollFd<'_>], at_most: Option<Duration>) {
    let at_most = at_most.and_then(|time| Timespec::try_from(time).ok());
    if poll(fds, at_most.as_ref()).is_err() {
        fds.iter_mut().for_each(PollFd::clear_revents);
    }
}
