//! The clients of a ChatterSocket.

use std::io::IoSlice;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use thruway_port::socket::Connection;
use thruway_sync::atomic::{AtomicUsize, Ordering};

use super::log::{BACKLOG_MAX, Log};
use crate::acceptor::{Acceptor, TOKEN_TIME};
use crate::client_limits::{Admission, Claim, Peer, room_for};
use crate::desk::Desk;
use crate::gate::TOKEN_MAX;
use crate::management::Service;

const GREETING: &[u8] = b"Click::ChatterSocket/1.0\r\n";
/// Bytes given to a client at once.
const CHUNK: usize = 16 << 10;
/// Clients taken in one turn.
const ACCEPTED_MAX: usize = 16;
/// Time until bytes that did not go out are tried again.
const SEND_PAUSE: Duration = Duration::from_millis(5);

struct Client {
    connection: Connection,
    peer: Peer,
    greeting: &'static [u8],
    /// Where in the log it is.
    position: u64,
    /// State of the token check, and its deadline; `None` for an admitted client.
    token: Option<(Vec<u8>, Instant)>,
    behind: bool,
}

/// How a client stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientState {
    /// It has all there is.
    Served,
    /// It takes no more now.
    Behind,
    /// It is gone, or too far behind.
    Lost,
}

impl Client {
    /// Sends it what it takes, of the greeting and the log.
    fn serve(&mut self, log: &Log, chunk: &mut Vec<u8>) -> ClientState {
        // Once through the longest backlog: a client that keeps pace is no reason to stay.
        for _ in 0..=BACKLOG_MAX / CHUNK {
            let bytes = match self.greeting {
                [] => {
                    if !log.copy(self.position, CHUNK, chunk) {
                        return ClientState::Lost;
                    }
                    &*chunk
                }
                greeting => greeting,
            };
            if bytes.is_empty() {
                return ClientState::Served;
            }
            match self.connection.send(&[IoSlice::new(bytes)]) {
                Ok(Some(0)) | Err(_) => return ClientState::Lost,
                Ok(None) => return ClientState::Behind,
                Ok(Some(count)) if self.greeting.is_empty() => self.position += count as u64,
                Ok(Some(count)) => self.greeting = self.greeting.get(count..).unwrap_or(&[]),
            }
        }
        ClientState::Behind
    }

    /// Reads the client's token, and discards all else. False when the connection must be closed.
    fn receive(&mut self, acceptor: &Acceptor, log: &Log, now: Instant) -> bool {
        let mut chunk = [0; 1 << 10];
        let count = match self.connection.receive(&mut chunk) {
            Ok(None) => 0,
            Ok(Some(count)) if count > 0 => count,
            Ok(Some(_)) | Err(_) => return false,
        };
        let Some((shown, deadline)) = &mut self.token else { return true };
        shown.extend_from_slice(&chunk[..count]);
        let Some(end) = shown.iter().position(|byte| *byte == b'\n') else {
            return shown.len() <= TOKEN_MAX + 16 && now < *deadline;
        };
        let line = String::from_utf8_lossy(&shown[..end]).trim_end().to_owned();
        let token = line.split_once(' ').filter(|(verb, _)| verb.eq_ignore_ascii_case("AUTH"));
        if !token.is_some_and(|(_, token)| acceptor.lets_in(token)) {
            return false;
        }
        self.token = None;
        self.position = log.end();
        true
    }
}

/// See the module's description.
pub(super) struct Server {
    pub acceptor: Acceptor,
    log: Arc<Log>,
    greets: bool,
    clients: Vec<Client>,
    count: Arc<AtomicUsize>,
    chunk: Vec<u8>,
}

impl Server {
    pub(super) fn new(acceptor: Acceptor, log: Arc<Log>, greets: bool) -> Server {
        let (clients, count) = (Vec::new(), Arc::new(AtomicUsize::new(0)));
        Server { acceptor, log, greets, clients, count, chunk: Vec::with_capacity(CHUNK) }
    }

    /// How many clients there are, for others to read.
    pub(super) fn count(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.count)
    }

    pub(super) fn log(&self) -> Arc<Log> {
        Arc::clone(&self.log)
    }

    fn accept(&mut self, desk: &Desk) {
        for _ in 0..ACCEPTED_MAX {
            let visitor = match self.acceptor.accept(desk) {
                None => return,
                Some(Err(_)) => continue,
                Some(Ok(visitor)) => visitor,
            };
            if !self.make_room(visitor.peer) {
                continue;
            }
            let greeting = if self.greets { GREETING } else { &[] };
            let token = (!visitor.trusted).then(|| (Vec::new(), desk.now + TOKEN_TIME));
            let (connection, peer) = (visitor.connection, visitor.peer);
            let (position, behind) = (self.log.end(), false);
            self.clients.push(Client { connection, peer, greeting, position, token, behind });
        }
    }

    /// Sends the oldest away where there are too many, and one that has not shown its token before
    /// the others.
    fn make_room(&mut self, peer: Peer) -> bool {
        let claim = |(at, client): (usize, &Client)| {
            let worth = (client.token.is_none(), at);
            Claim { peer: client.peer, is_busy: false, worth }
        };
        let claims: Vec<Claim<_>> = self.clients.iter().enumerate().map(claim).collect();
        let listen_address = room_for(peer, &claims);
        if let Admission::InsteadOf(at) = listen_address {
            self.clients.remove(at);
        }
        listen_address != Admission::None
    }

    /// Serves all clients.
    fn serve(&mut self, now: Instant) {
        self.log.clear_news();
        let Server { clients, acceptor, log, chunk, .. } = self;
        clients.retain_mut(|client| {
            if !client.receive(acceptor, log, now) {
                return false;
            }
            if client.token.is_some() {
                return true;
            }
            let state = client.serve(log, chunk);
            client.behind = state == ClientState::Behind;
            state != ClientState::Lost
        });
        self.report_count();
    }

    fn report_count(&self) {
        let hearing = self.clients.iter().filter(|client| client.token.is_none()).count();
        // Before the number: a client that reads it may rely on being served.
        self.log.set_wanted(hearing > 0);
        self.count.store(hearing, Ordering::Release);
    }

    /// Sends what was said last, and closes everything.
    ///
    /// # Errors
    /// The file of a Unix socket cannot be removed.
    pub(super) fn end(mut self) -> Result<(), String> {
        self.serve(Instant::now());
        self.clients.clear();
        self.report_count();
        self.acceptor.close()
    }
}

impl Service for Server {
    fn turn(&mut self, desk: &Desk) -> Option<Instant> {
        self.acceptor.retry(desk);
        self.accept(desk);
        self.serve(desk.now);
        let tokens = self.clients.iter().filter_map(|client| client.token.as_ref());
        let deadlines = tokens.map(|(_, deadline)| *deadline);
        let behind = self.clients.iter().any(|client| client.behind);
        let again = behind.then(|| desk.now + SEND_PAUSE);
        deadlines.chain(again).chain(self.acceptor.next_look()).min()
    }

    fn acceptor(&mut self) -> &mut Acceptor {
        &mut self.acceptor
    }

    /// With the clients, what they have not heard yet.
    fn take(&mut self, left: Server) {
        self.acceptor.take(left.acceptor);
        (self.log, self.clients) = (left.log, left.clients);
        self.report_count();
    }

    fn watch<'a>(&'a self, desk: &Desk, fds: &mut Vec<(BorrowedFd<'a>, PollFlags)>) {
        self.acceptor.watch(desk, fds);
        fds.push((self.log.waker().as_fd(), PollFlags::IN));
        let clients = self.clients.iter();
        fds.extend(clients.map(|client| (client.connection.as_fd(), PollFlags::IN)));
    }
}
