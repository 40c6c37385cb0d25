//! All connections of one socket.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::event::PollFlags;

use super::client::Client;
use super::perform::Rules;
use super::protocol::{GREETING, PERMISSION, answer};
use crate::acceptor::Acceptor;
use crate::client_limits::{Admission, Claim, Peer, room_for};
use crate::desk::Desk;
use crate::management::Service;

/// Clients taken in one turn.
const ACCEPTED_MAX: usize = 16;

/// See the module's description.
pub(super) struct Server {
    pub acceptor: Acceptor,
    pub rules: Rules,
    pub verbose: bool,
    pub clients: Vec<Client>,
}

impl Server {
    fn accept(&mut self, desk: &Desk) {
        for _ in 0..ACCEPTED_MAX {
            let visitor = match self.acceptor.accept(desk) {
                None => return,
                Some(Err(stranger)) => {
                    let mut out = GREETING.as_bytes().to_vec();
                    answer(&mut out, PERMISSION, &["Permission denied: another user's socket"]);
                    // A courtesy: it may not even read.
                    let _ = stranger.send(&[std::io::IoSlice::new(&out)]);
                    continue;
                }
                Some(Ok(visitor)) => visitor,
            };
            if !self.make_room(desk, visitor.peer) {
                continue;
            }
            let from = visitor.from.clone();
            let client = Client::new(visitor, desk.now);
            self.log_event(desk, "opened", &client, &from);
            self.clients.push(client);
        }
    }

    /// Disconnects a client when there are too many: the one that was idle longest, those that
    /// never used a handler first. False if none can go.
    fn make_room(&mut self, desk: &Desk, peer: Peer) -> bool {
        let claims: Vec<Claim<_>> = self.clients.iter().map(Client::claim).collect();
        match room_for(peer, &claims) {
            Admission::Free => true,
            Admission::InsteadOf(at) => {
                self.close(desk, at);
                true
            }
            Admission::None => false,
        }
    }

    fn close(&mut self, desk: &Desk, at: usize) {
        let client = self.clients.swap_remove(at);
        self.log_event(desk, "closed", &client, "");
    }

    fn log_event(&self, desk: &Desk, what: &str, client: &Client, from: &str) {
        if self.verbose {
            let (label, number) = (self.acceptor.label(), client.number());
            desk.remote.log(&format!("{label}{what} connection {number}{from}"));
        }
    }

    /// Gives the answers that are there, and closes everything.
    ///
    /// # Errors
    /// The file of a Unix socket cannot be removed.
    pub(super) fn end(mut self, desk: &Desk) -> Result<(), String> {
        for client in &mut self.clients {
            client.end(desk);
        }
        self.clients.clear();
        self.acceptor.close()
    }
}

impl Service for Server {
    fn turn(&mut self, desk: &Desk) -> Option<Instant> {
        self.acceptor.retry(desk);
        self.accept(desk);
        let mut at = 0;
        while let Some(client) = self.clients.get_mut(at) {
            match client.serve(desk, &self.acceptor, &self.rules) {
                true => at += 1,
                false => self.close(desk, at),
            }
        }
        let looks = self.clients.iter().filter_map(|client| client.next_look(desk.now));
        looks.chain(self.acceptor.next_look()).min()
    }

    fn acceptor(&mut self) -> &mut Acceptor {
        &mut self.acceptor
    }

    fn take(&mut self, left: Server) {
        self.acceptor.take(left.acceptor);
        self.clients = left.clients;
    }

    fn watch<'a>(&'a self, desk: &Desk, fds: &mut Vec<(BorrowedFd<'a>, PollFlags)>) {
        self.acceptor.watch(desk, fds);
        self.clients.iter().for_each(|client| client.watch(fds));
    }
}
