//! Connections, one at a time: of a server, or of a client.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use thruway_element::Cx;
use thruway_packet::Batch;
use thruway_port::socket::{Address, Connection, Listener};

use super::guard::Guard;
use super::link::{Link, Received, Sent};
use super::plan::Plan;
use thruway_elements_support::notice::warn;

/// How long a client waits for its server at the start.
const PATIENCE: Duration = Duration::from_secs(10);
/// Packets written by one system call.
const PIECES: usize = 64;

/// See the module's description.
pub(super) struct StreamLink {
    plan: Plan,
    guard: Guard,
    listener: Option<Listener>,
    active: Option<Connection>,
    /// Where the other end is.
    peer: Option<Address>,
}

impl StreamLink {
    pub(super) fn new(plan: Plan, guard: Guard) -> StreamLink {
        StreamLink { plan, guard, listener: None, active: None, peer: None }
    }

    fn report(&self, cx: &mut Cx<'_>, what: &str) {
        if self.plan.verbose {
            warn(cx, what);
        }
    }

    /// Takes the next connection that waits and may.
    fn accept(&mut self, cx: &mut Cx<'_>) {
        let Some(listener) = &self.listener else { return };
        let (connection, peer) = match listener.accept() {
            Ok(Some(accepted)) => accepted,
            Ok(None) => return,
            Err(error) => return self.report(cx, &format!("accept: {error}")),
        };
        let allowed = match peer {
            Some(Address::Inet(address)) => self.guard.allows(cx, *address.ip()),
            _ => true,
        };
        let number = connection.as_fd().as_raw_fd();
        let from = peer.as_ref().map_or(String::new(), |peer| format!(" from {peer}"));
        let done = if allowed { "opened" } else { "denied" };
        self.report(cx, &format!("{done} connection {number}{from}"));
        if !allowed {
            return;
        }
        // One at a time: the others wait, and are no reason to wake up.
        if let Some(listener) = &self.listener {
            cx.unwatch(listener);
        }
        self.connected(cx, connection, peer);
    }

    fn connected(&mut self, cx: &mut Cx<'_>, connection: Connection, peer: Option<Address>) {
        match cx.watch(&connection) {
            Ok(()) => (self.active, self.peer) = (Some(connection), peer),
            Err(error) => {
                warn(cx, &format!("cannot watch a connection: {error}"));
                self.watch_listener(cx);
            }
        }
    }

    fn watch_listener(&mut self, cx: &mut Cx<'_>) {
        if let Some(listener) = &self.listener
            && let Err(error) = cx.watch(listener)
        {
            warn(cx, &format!("cannot watch the socket: {error}"));
        }
    }

    /// The connection is over.
    fn lose(&mut self, cx: &mut Cx<'_>, error: Option<std::io::Error>) {
        let Some(connection) = self.active.take() else { return };
        self.peer = None;
        cx.unwatch(&connection);
        let why = error.map_or(String::new(), |error| format!(": {error}"));
        self.report(cx, &format!("closed connection {}{why}", connection.as_fd().as_raw_fd()));
        self.watch_listener(cx);
    }

    fn open_new(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Plan { remote, local, options, .. } = &self.plan;
        if !self.plan.client {
            let listener = Listener::bind(remote, options).map_err(|error| error.to_string())?;
            self.report(cx, &format!("listening for connections on {}", listener.address()));
            self.listener = Some(listener);
            return Ok(());
        }
        let connection = Connection::connect(remote, local.as_ref(), options, PATIENCE);
        let connection = connection.map_err(|error| error.to_string())?;
        let number = connection.as_fd().as_raw_fd();
        self.report(cx, &format!("opened connection {number} to {remote}"));
        (self.active, self.peer) = (Some(connection), Some(remote.clone()));
        Ok(())
    }
}

impl Link for StreamLink {
    fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.guard.check(cx)?;
        if self.listener.is_none() && self.active.is_none() {
            self.open_new(cx)?;
        }
        match (self.active.take(), self.peer.take()) {
            (Some(connection), peer) => self.connected(cx, connection, peer),
            (None, _) => self.watch_listener(cx),
        }
        Ok(())
    }

    fn receive(&mut self, cx: &mut Cx<'_>, buffer: &mut [u8]) -> Received {
        let Some(connection) = &self.active else {
            self.accept(cx);
            return Received::Nothing;
        };
        match connection.receive(buffer) {
            Ok(None) => return Received::Nothing,
            Ok(Some(0)) => self.lose(cx, None),
            Ok(Some(len)) => return Received::Bytes { len, whole_len: len },
            Err(error) => self.lose(cx, Some(error)),
        }
        Received::Nothing
    }

    fn is_connected(&self) -> bool {
        self.active.is_some()
    }

    fn send(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> Sent {
        let mut sent = Sent::default();
        while let Some(connection) = &self.active {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let count = batch.len().min(PIECES);
            for (piece, packet) in pieces.iter_mut().zip(batch.iter()) {
                *piece = IoSlice::new(packet.data());
            }
            if count == 0 {
                break;
            }
            let written = match connection.send(&pieces[..count]) {
                Ok(Some(written)) => written,
                Ok(None) => break,
                Err(error) => {
                    self.lose(cx, Some(error));
                    break;
                }
            };
            let whole = take_off(batch, written);
            sent.packets += whole;
            if whole == 0 {
                break;
            }
        }
        sent
    }

    fn addresses(&self) -> [Option<String>; 2] {
        let own = match (&self.listener, &self.active) {
            (Some(listener), _) => Some(listener.address().clone()),
            (None, Some(connection)) => connection.address(),
            (None, None) => None,
        };
        [own, self.peer.clone()].map(|address| address.map(|address| address.to_string()))
    }

    fn unwatch(&mut self, cx: &mut Cx<'_>) {
        if let Some(connection) = &self.active {
            cx.unwatch(connection);
        }
        if let Some(listener) = &self.listener {
            cx.unwatch(listener);
        }
    }
}

/// Takes written bytes off the front of a batch; how many packets are written to their end.
fn take_off(batch: &mut Batch, mut written: usize) -> usize {
    let mut whole = 0;
    for packet in batch.iter_mut() {
        let part = packet.len().min(written);
        written -= part;
        if part < packet.len() {
            // It has as many bytes.
            let _ = packet.pull(part);
            break;
        }
        whole += 1;
        // An empty packet behind the last byte has no bytes to wait for, but then there is no
        // need to go on either.
        if written == 0 {
            break;
        }
    }
    batch.drain_front(whole).for_each(drop);
    whole
}

/// No socket any more.
pub(super) struct Gone;

impl Link for Gone {
    fn open(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        Ok(())
    }

    fn receive(&mut self, _cx: &mut Cx<'_>, _buffer: &mut [u8]) -> Received {
        Received::Nothing
    }

    fn is_connected(&self) -> bool {
        false
    }

    fn send(&mut self, _cx: &mut Cx<'_>, _batch: &mut Batch) -> Sent {
        Sent::default()
    }

    fn addresses(&self) -> [Option<String>; 2] {
        [None, None]
    }

    fn unwatch(&mut self, _cx: &mut Cx<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_packet::Packet;

    proptest! {
        /// However the kernel cuts what it takes, the stream is that of the packets' bytes.
        #[test]
        fn streams_are_whole(
            lengths in proptest::collection::vec(0usize..20, 1..20),
            cuts in proptest::collection::vec(1usize..30, 1..20),
        ) {
            let mut batch = Batch::new();
            let mut model = Vec::new();
            for (at, len) in lengths.iter().enumerate() {
                let bytes = vec![at as u8; *len];
                model.extend_from_slice(&bytes);
                batch.push(Packet::new(&bytes).expect("memory"));
            }
            let (mut written, mut whole) = (Vec::new(), 0);
            for cut in cuts.iter().cycle().take(1_000) {
                let data = |packet: &Packet| packet.data().to_vec();
                let there: Vec<u8> = batch.iter().flat_map(data).collect();
                let part = there.len().min(*cut);
                written.extend_from_slice(&there[..part]);
                whole += take_off(&mut batch, part);
                if batch.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(written, model);
            prop_assert_eq!(whole, lengths.len());
        }
    }
}
