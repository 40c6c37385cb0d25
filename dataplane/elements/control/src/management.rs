//! The thread that serves a socket: all that clients cause but the handler calls themselves happens
//! here, outside of the threads of packets (ADR 30).

use std::any::Any;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use thruway_element::{Cx, Ready, Remote};
use thruway_sync::atomic::{AtomicBool, Ordering};

use super::acceptor::Acceptor;
use super::desk::Desk;

/// A socket's service.
pub(super) trait Service: Send + 'static {
    /// Does what there is to do, and never waits. Returns when to look again even if nothing
    /// happens.
    fn turn(&mut self, desk: &Desk) -> Option<Instant>;

    /// The descriptors to wait for, and for what.
    fn watch<'a>(&'a self, desk: &Desk, fds: &mut Vec<(BorrowedFd<'a>, PollFlags)>);

    /// Where clients come in.
    fn acceptor(&mut self) -> &mut Acceptor;

    /// Takes over a predecessor's door and clients.
    fn take(&mut self, left: Self);
}

/// The service of an element, in whichever thread it is.
pub(super) struct Post<S: Service> {
    state: PostState<S>,
    /// Of an element that is initialised.
    remote: Option<Arc<dyn Remote>>,
}

/// Where a service is.
enum PostState<S: Service> {
    /// Held here: no thread serves.
    Idle(Box<S>),
    /// In its thread.
    Serving(Manager<S>),
    /// It went to a successor, or died.
    Gone,
}

impl<S: Service> Post<S> {
    pub(super) fn new(service: S) -> Post<S> {
        Post { state: PostState::Idle(Box::new(service)), remote: None }
    }

    /// The service, after its thread has ended.
    pub(super) fn stop(&mut self) -> Option<Box<S>> {
        match std::mem::replace(&mut self.state, PostState::Gone) {
            PostState::Idle(service) => Some(service),
            PostState::Serving(manager) => manager.stop().map(Box::new),
            PostState::Gone => None,
        }
    }

    /// Serves, where the element is initialised.
    fn start(&mut self, service: Box<S>) -> Result<(), String> {
        self.state = match &self.remote {
            Some(remote) => PostState::Serving(Manager::start(*service, Arc::clone(remote))?),
            None => PostState::Idle(service),
        };
        Ok(())
    }

    /// Opens the door of an element that is being initialised, and serves.
    ///
    /// # Errors
    /// The door cannot be opened, or there is no thread.
    pub(super) fn begin(&mut self, cx: &mut Cx<'_>, mut service: Box<S>) -> Result<(), String> {
        service.acceptor().belongs_to(cx);
        let warning = service.acceptor().open(Instant::now())?;
        warning.iter().for_each(|line| cx.log(line));
        let node = cx.node();
        self.remote = cx.calls().remote(node);
        self.start(service)
    }

    /// Goes on with what a predecessor left, if that is a service like its own; `both` sees it
    /// before.
    pub(super) fn take_over(&mut self, state: Box<dyn Any + Send>, both: impl FnOnce(&S)) {
        let Ok(mut left) = state.downcast::<S>() else { return };
        // Its own service comes back after a hot swap that failed.
        let Some(mut service) = self.stop() else {
            let _ = self.start(left);
            return;
        };
        if service.acceptor().is_like(left.acceptor()) {
            both(&left);
            service.take(*left);
        }
        // Without a thread there is no service; the run goes on.
        let _ = self.start(service);
    }

    /// The service, and a desk without waiting calls, at the end.
    pub(super) fn end(&mut self) -> Option<(Box<S>, Desk)> {
        let service = self.stop()?;
        Some((service, Desk::last(self.remote.take()?)))
    }
}

/// Ends the wait of a thread.
#[derive(Clone)]
struct Bell(Arc<OwnedFd>);

impl Bell {
    fn ring(&self) {
        // A full counter is readable all the same.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

/// A thread that serves a socket until it is stopped.
pub(super) struct Manager<S: Service> {
    thread: Option<JoinHandle<S>>,
    stop: Arc<AtomicBool>,
    bell: Bell,
}

impl<S: Service> Manager<S> {
    /// Begins to serve.
    ///
    /// # Errors
    /// No thread, or no descriptor.
    pub(super) fn start(mut service: S, remote: Arc<dyn Remote>) -> Result<Manager<S>, String> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let bell = Bell(Arc::new(bell.map_err(|error| format!("no event counter: {error}"))?));
        let stop = Arc::new(AtomicBool::new(false));
        let (theirs, rung) = (Arc::clone(&stop), bell.clone());
        let thread = std::thread::Builder::new().name("control".into());
        let thread = thread.spawn(move || {
            let ring = rung.clone();
            let ready: Ready = Arc::new(move || ring.ring());
            remote.when_running(&ready);
            let mut desk = Desk { remote, ready, now: Instant::now(), is_open: false };
            while !theirs.load(Ordering::Acquire) {
                desk.now = Instant::now();
                desk.is_open = desk.remote.is_running();
                let next = service.turn(&desk);
                // A poll that fails means only that the next turn comes sooner.
                let _ = wait(&service, &desk, &rung, next);
            }
            service
        });
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Manager { thread: Some(thread), stop, bell })
    }

    /// Ends the thread; the service as it stands. `None` of one that died.
    pub(super) fn stop(mut self) -> Option<S> {
        self.end()
    }

    fn end(&mut self) -> Option<S> {
        self.stop.store(true, Ordering::Release);
        self.bell.ring();
        self.thread.take()?.join().ok()
    }
}

impl<S: Service> Drop for Manager<S> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until something happens or the time has come.
fn wait<S: Service>(
    service: &S,
    desk: &Desk,
    bell: &Bell,
    until: Option<Instant>,
) -> io::Result<()> {
    let mut watched = Vec::new();
    service.watch(desk, &mut watched);
    let mut fds = vec![PollFd::new(&*bell.0, PollFlags::IN)];
    fds.extend(watched.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)));
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    // Rounded up: a wait that ends just before its time would come again at once.
    let left = left.map(|left| left + Duration::from_micros(100));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    poll(&mut fds, left.as_ref())?;
    if !fds[0].revents().is_empty() {
        rustix::io::read(&*bell.0, &mut [0; 8])?;
    }
    Ok(())
}
