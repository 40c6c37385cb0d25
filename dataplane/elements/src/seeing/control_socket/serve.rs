//! All connections of one socket.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::client::Client;
use super::perform::Rules;
use super::protocol::{GREETING, PERMISSION, answer};
use crate::seeing::door::{CONNECTIONS_MAX, Door};
use crate::seeing::management::{Desk, Service};

/// Clients taken in one turn.
const ACCEPTED_MAX: usize = 16;
/// Between two looks whether the router runs by now.
const START_PAUSE: Duration = Duration::from_millis(2);

/// See the module's description.
pub(super) struct Server {
    pub door: Door,
    pub rules: Rules,
    pub verbose: bool,
    pub clients: Vec<Client>,
    /// Clients are let in: the router runs. One that is greeted may rely on ports being open.
    pub is_open: bool,
}

impl Server {
    fn accept(&mut self, desk: &Desk) {
        for _ in 0..ACCEPTED_MAX {
            let visitor = match self.door.accept(desk) {
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
            if !self.make_room(desk) {
                continue;
            }
            let client = Client::new(visitor.connection, visitor.trusted, desk.now);
            self.tell(desk, "opened", &client, &visitor.from);
            self.clients.push(client);
        }
    }

    /// Sends the client away that was idle longest, where there are too many; one that never used a
    /// handler before the others. False where all are busy.
    fn make_room(&mut self, desk: &Desk) -> bool {
        if self.clients.len() < CONNECTIONS_MAX {
            return true;
        }
        let worths = self.clients.iter().enumerate();
        let worths = worths.filter_map(|(at, client)| Some((client.worth()?, at)));
        let Some((_, at)) = worths.min() else { return false };
        self.close(desk, at);
        true
    }

    fn close(&mut self, desk: &Desk, at: usize) {
        let client = self.clients.swap_remove(at);
        self.tell(desk, "closed", &client, "");
    }

    fn tell(&self, desk: &Desk, what: &str, client: &Client, from: &str) {
        if self.verbose {
            let (label, number) = (self.door.label(), client.number());
            desk.remote.chatter(&format!("{label}{what} connection {number}{from}"));
        }
    }

    /// Takes over a predecessor's socket and clients.
    pub(super) fn take(&mut self, left: Server) {
        self.door.take(left.door);
        self.clients = left.clients;
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
        self.door.close()
    }
}

impl Service for Server {
    fn turn(&mut self, desk: &Desk) -> Option<Instant> {
        self.door.retry(desk);
        self.is_open = desk.remote.is_running();
        if self.is_open {
            self.accept(desk);
        }
        let mut at = 0;
        while let Some(client) = self.clients.get_mut(at) {
            match client.serve(desk, &self.door, &self.rules) {
                true => at += 1,
                false => self.close(desk, at),
            }
        }
        let looks = self.clients.iter().filter_map(|client| client.next_look(desk.now));
        let start = (!self.is_open).then(|| desk.now + START_PAUSE);
        looks.chain(self.door.next_look()).chain(start).min()
    }

    fn watch<'a>(&'a self, fds: &mut Vec<(BorrowedFd<'a>, PollFlags)>) {
        if self.is_open {
            self.door.watch(fds);
        }
        self.clients.iter().for_each(|client| client.watch(fds));
    }
}
