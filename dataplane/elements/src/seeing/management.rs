//! The thread that serves a socket: all that clients cause but the handler calls themselves happens
//! here, outside of the threads of packets (ADR 36).

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use thruway_element::{Ready, Remote};
use thruway_sync::atomic::{AtomicBool, Ordering};

/// What a thread needs to serve clients.
pub(super) struct Desk {
    /// The router's handlers.
    pub remote: Arc<dyn Remote>,
    /// Ends the thread's wait.
    pub ready: Ready,
    /// Now.
    pub now: Instant,
}

/// A socket's service.
pub(super) trait Service: Send + 'static {
    /// Does what there is to do, and never waits. Returns when to look again even if nothing
    /// happens.
    fn turn(&mut self, desk: &Desk) -> Option<Instant>;

    /// The descriptors to wait for, and for what.
    fn watch<'a>(&'a self, fds: &mut Vec<(BorrowedFd<'a>, PollFlags)>);
}

/// What ends the wait of a thread.
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
            let mut desk = Desk { remote, ready, now: Instant::now() };
            while !theirs.load(Ordering::Acquire) {
                desk.now = Instant::now();
                let next = service.turn(&desk);
                // A poll that fails means only that the next turn comes sooner.
                let _ = wait(&service, &rung, next);
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
fn wait<S: Service>(service: &S, bell: &Bell, until: Option<Instant>) -> io::Result<()> {
    let mut watched = Vec::new();
    service.watch(&mut watched);
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
