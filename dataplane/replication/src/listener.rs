//! The end that listens (LISTEN).
//!
//! One thread lets in: whoever connects has a second to show that it has the key. Another serves
//! the stream that was let in last.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use thruway_sync::atomic::Ordering;

use crate::conversation::Conversation;
use crate::frame::{Frame, Kind};
use crate::greeting::{Greeting, keys};
use crate::key::Key;
use crate::link::Link;
use crate::stream::{LOOK, PATIENCE, Stream, about, is_late, prepare};
use crate::term::{Standing, settle};

/// How often somebody is looked for who wants to be let in.
const LISTEN: Duration = Duration::from_millis(20);

/// Characters of a part of a chain that are shown at most.
const SHOWN_MAX: usize = 120;

/// The stream that was let in last, until it is taken.
pub(crate) type Admitted = Arc<Mutex<Option<Stream>>>;

pub(crate) struct Gate {
    pub link: Arc<Link>,
    pub listener: TcpListener,
    pub key: Key,
    pub chain: String,
    pub admitted: Admitted,
}

impl Gate {
    pub fn run(&self) {
        while !self.link.stops() {
            match self.listener.accept() {
                Ok((socket, peer)) => match self.admit(socket, peer) {
                    Ok(stream) => *self.admitted.lock() = Some(stream),
                    Err(error) => {
                        self.link.counts.refused.fetch_add(1, Ordering::Relaxed);
                        self.link.log(about(peer, format_args!("refused: {error}")));
                    }
                },
                Err(_) => self.link.pause(LISTEN),
            }
        }
    }

    /// Has who connected show that it has the key, and the same chain.
    fn admit(&self, socket: TcpStream, peer: SocketAddr) -> Result<Stream, String> {
        let (mut stream, payload) = shown_key(socket, peer, &self.key)?;
        let (theirs, chain) = Standing::parse(&payload).ok_or("it did not say its term")?;
        let standing = self.link.standing();
        if chain != self.chain.as_bytes() {
            self.link.advance(theirs.term);
            self.link.set_foreign();
            let why = difference(&self.chain, &String::from_utf8_lossy(chain));
            stream.send(Kind::Refusal, &[&standing.bytes()[..], why.as_bytes()].concat())?;
            return Err(why);
        }
        stream.send(Kind::Welcome, &standing.bytes())?;
        self.link.advance(settle(theirs, standing));
        stream.hasten(self.link.is_urgent())?;
        Ok(stream)
    }
}

/// In what two chains differ first: that of the host that listens, and that of the other one.
fn difference(listener: &str, caller: &str) -> String {
    let (mut own, mut theirs) = (listener.split("; "), caller.split("; "));
    let (own, theirs) = loop {
        match (own.next(), theirs.next()) {
            (own, theirs) if own == theirs && own.is_some() => {}
            (own, theirs) => break (own.unwrap_or("nothing"), theirs.unwrap_or("nothing")),
        }
    };
    let [own, theirs] = [own, theirs].map(|part| {
        let shown = part.chars().take(SHOWN_MAX).map(|c| if c.is_control() { '?' } else { c });
        shown.collect::<String>()
    });
    format!(
        "the chains differ ({own} at the host with LISTEN, {theirs} at the host with TO); run the \
         same configuration on both hosts, but for TO and LISTEN, with the same programs of \
         functions"
    )
}

/// Has who connected show that it has the key; its stream, and what it says it is about.
pub(crate) fn shown_key(
    mut socket: TcpStream,
    peer: SocketAddr,
    key: &Key,
) -> Result<(Stream, Vec<u8>), String> {
    let broke = |error: std::io::Error| format!("it did not show the key: {error}");
    let end = Instant::now() + PATIENCE;
    socket.set_nonblocking(false).map_err(broke)?;
    prepare(&socket, PATIENCE)?;
    let own = Greeting::new()?;
    socket.write_all(&own.bytes()).map_err(broke)?;
    let mut theirs = [0; Greeting::LEN];
    read_until(&mut socket, &mut theirs, end)?;
    let theirs = Greeting::parse(&theirs)?;
    let mut stream = Stream::new(socket, peer, keys(key, &own, &theirs));
    let frame = stream.receive_until(end)?;
    let Frame { kind, payload } = frame.ok_or("it did not show the key")?;
    if kind != Kind::Hello {
        return Err("it began with sessions".into());
    }
    Ok((stream, payload))
}

/// Reads all of `bytes` before `end`, however slowly it comes.
fn read_until(socket: &mut TcpStream, bytes: &mut [u8], end: Instant) -> Result<(), String> {
    let mut filled = 0;
    while filled < bytes.len() {
        match socket.read(&mut bytes[filled..]) {
            Ok(0) => return Err("it closed the stream before it showed the key".into()),
            Ok(len) => filled += len,
            Err(error) if is_late(&error) => {}
            Err(error) => return Err(format!("it did not show the key: {error}")),
        }
        if Instant::now() > end {
            return Err("it did not show the key in time".into());
        }
    }
    Ok(())
}

/// Serves one stream after the other.
pub(crate) fn serve_streams(link: &Link, admitted: &Admitted) {
    while !link.stops() {
        let Some(stream) = admitted.lock().take() else {
            link.pause(LOOK);
            continue;
        };
        let peer = stream.peer();
        let why = Conversation::run(link, stream, || admitted.lock().is_some());
        if !why.is_empty() {
            link.log(about(peer, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_of_chains_is_named() {
        let text = difference(
            "classes 1; 3 a :: Nf (program f 12)",
            "classes 1; 3 a :: Nf (program f 34)",
        );
        assert!(text.contains("(3 a :: Nf (program f 12) at the host with LISTEN, "), "{text}");
        assert!(text.contains(", 3 a :: Nf (program f 34) at the host with TO)"), "{text}");
        assert!(difference("a; b", "a").contains("(b at the host with LISTEN, nothing at"));
        let hostile = difference("a", &format!("\n{}", "x".repeat(500)));
        assert!(hostile.contains(", ?xxx") && hostile.len() < 400, "{hostile}");
    }
}
