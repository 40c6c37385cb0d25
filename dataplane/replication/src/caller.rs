//! The end that connects (TO): again and again, until the other host agrees to a stream.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::connect::connect;
use crate::conversation::Conversation;
use crate::frame::{Frame, Kind};
use crate::key::Key;
use crate::link::Link;
use crate::stream::{PATIENCE, Stream, about};
use crate::term::{Standing, settle};

/// Time between two tries to connect.
const RETRY: Duration = Duration::from_millis(200);

pub(crate) struct Caller {
    pub link: Arc<Link>,
    pub to: SocketAddr,
    pub key: Key,
    /// What the chain is, as the other host compares it with its own.
    pub chain: String,
    /// The last line for the user: it is not repeated.
    pub logged: String,
}

impl Caller {
    pub fn run(&mut self) {
        while !self.link.stops() {
            let why = match self.open() {
                Ok(stream) => {
                    self.logged.clear();
                    Conversation::run(&self.link, stream, || false)
                }
                Err(error) => error,
            };
            self.log(why);
            self.link.pause(RETRY);
        }
    }

    fn log(&mut self, what: String) {
        if what != self.logged && !self.link.stops() {
            self.link.log(about(self.to, &what));
            self.logged = what;
        }
    }

    /// Connects, and has the other host agree.
    fn open(&self) -> Result<Stream, String> {
        let mut stream = connect(self.to, &self.key, PATIENCE)
            .map_err(|why| format!("no stream to the other host: {why}"))?;
        let standing = self.link.standing();
        stream.send(Kind::Hello, &[&standing.bytes()[..], self.chain.as_bytes()].concat())?;
        let theirs = self.answer(&mut stream)?;
        self.link.advance(settle(standing, theirs));
        stream.hasten(self.link.is_urgent())?;
        Ok(stream)
    }

    /// What the other host says of itself, if it agrees.
    fn answer(&self, stream: &mut Stream) -> Result<Standing, String> {
        let frame = stream.receive_until(Instant::now() + PATIENCE)?;
        let Frame { kind, payload } = frame.ok_or("the other host does not answer")?;
        match (kind, Standing::parse(&payload)) {
            (Kind::Welcome, Some((standing, []))) => Ok(standing),
            (Kind::Refusal, Some((standing, why))) => {
                // It may serve all the same.
                self.link.advance(standing.term);
                self.link.set_foreign();
                Err(format!("the other host refused: {}", String::from_utf8_lossy(why)))
            }
            _ => Err(format!("the other host sent a frame that it may not send now: {kind:?}")),
        }
    }
}
