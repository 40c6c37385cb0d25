//! The host of a pair that asks its witness for leases.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::connect::connect;
use crate::frame::Kind;
use crate::key::Key;
use crate::lease::{Claim, Verdict};
use crate::link::Link;
use crate::stream::{Stream, about};
use crate::witness::PURPOSE;

/// Time between two tries to connect.
const RETRY: Duration = Duration::from_millis(50);
/// Looks for something to claim.
const LOOK: Duration = Duration::from_millis(2);
/// Claims in the time of a lease.
const CLAIMS: u32 = 4;

pub(crate) struct Claimant {
    pub link: Arc<Link>,
    pub witness: SocketAddr,
    pub key: Key,
    /// For how long it asks, milliseconds.
    pub lease_ms: u32,
    /// The last line for the user: it is not repeated.
    pub logged: String,
}

impl Claimant {
    pub fn run(&mut self) {
        while !self.link.stops() {
            let why = match self.open() {
                Ok(stream) => {
                    self.logged.clear();
                    self.link.log(about(self.witness, "the witness is reached"));
                    self.claim(stream).err().unwrap_or_default()
                }
                Err(error) => error,
            };
            if why != self.logged && !self.link.stops() {
                self.link.log(about(self.witness, format_args!("no witness: {why}")));
                self.logged = why;
            }
            self.link.pause(RETRY);
        }
    }

    fn open(&self) -> Result<Stream, String> {
        let patience = Duration::from_millis(u64::from(self.lease_ms)).max(RETRY);
        let mut stream = connect(self.witness, &self.key, patience)?;
        stream.send(Kind::Hello, PURPOSE)?;
        match stream.receive_until(Instant::now() + patience)?.map(|frame| frame.kind) {
            Some(Kind::Welcome) => {}
            Some(kind) => return Err(format!("it sent {kind:?}: no Witness is there")),
            None => return Err("it does not answer".into()),
        }
        stream.hasten(false)?;
        Ok(stream)
    }

    /// Claims what the element wants, again and again.
    fn claim(&self, mut stream: Stream) -> Result<(), String> {
        let pause = Duration::from_millis(u64::from(self.lease_ms / CLAIMS));
        let mut number = 0;
        let mut last: Option<(Claim, Instant)> = None;
        let mut answered = Instant::now();
        while !self.link.stops() {
            let wanted = self.link.claimed();
            let is_due =
                last.is_none_or(|(claim, at)| at.elapsed() >= pause || Some(claim.term) != wanted);
            if let Some(term) = wanted.filter(|_| is_due) {
                number += 1;
                let claim = Claim { term, lease_ms: self.lease_ms, number };
                if last.is_none() {
                    answered = Instant::now();
                }
                last = Some((claim, Instant::now()));
                stream.send(Kind::Claim, &claim.bytes())?;
            } else if wanted.is_none() {
                last = None;
                self.link.pause(LOOK);
                continue;
            }
            let Some(frame) = stream.receive()? else {
                if answered.elapsed() > Duration::from_millis(u64::from(self.lease_ms)) + pause {
                    return Err("it does not answer".into());
                }
                continue;
            };
            answered = Instant::now();
            let verdict = Verdict::parse(&frame.payload).filter(|_| frame.kind == Kind::Verdict);
            let (verdict, about) = verdict.ok_or("it sent something else than a verdict")?;
            let Some((claim, at)) = last.filter(|(claim, _)| claim.number == about) else {
                continue;
            };
            match verdict {
                Verdict::Granted => self.link.set_lease(claim.term, at, self.lease_ms),
                Verdict::Held => {}
                Verdict::Over(term) => self.link.advance(term),
            }
        }
        Ok(())
    }
}
