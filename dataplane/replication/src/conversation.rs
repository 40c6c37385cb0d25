//! A stream that both hosts agreed to, until it ends. Whoever serves sends records, the other one
//! acknowledges them; who that is may change while the stream goes on.

use std::time::{Duration, Instant};

use thruway_sync::atomic::Ordering;

use crate::frame::{Frame, Kind};
use crate::link::{Batch, Content, Link};
use crate::packets::Packets;
use crate::record::Records;
use crate::stream::{LOOK, Stream};
use crate::term::Term;

/// Longest silence of a host that lives.
const HEARTBEAT: Duration = Duration::from_millis(20);
/// A stream that was silent for so long is no more.
const SILENT: Duration = Duration::from_secs(2);
/// Frames that are read before other work is looked for.
const FRAMES: usize = 64;

/// See the module.
pub(crate) struct Conversation<'a> {
    link: &'a Link,
    stream: Stream,
    number: u64,
    beaten_at: Option<Instant>,
    /// When the other host sent its last sign of life, as it says.
    theirs_ms: u64,
    /// The last term that the other host knows of.
    announced: Term,
    /// Records that were sent, and that the other host acknowledged.
    sent: u64,
    acknowledged: u64,
    /// Records that were received, and of which the other host knows that they were done.
    received: u64,
    confirmed: u64,
    /// Records done before this stream, and those of an earlier one that still waited then.
    done_before: u64,
    waiting: u64,
}

impl<'a> Conversation<'a> {
    /// Over a stream that was agreed to, to its end; why it ended. `is_replaced`: whether the other
    /// host has begun another stream.
    pub fn run(link: &'a Link, stream: Stream, is_replaced: impl Fn() -> bool) -> String {
        link.hear();
        link.takes_renewal();
        link.set_connected(true);
        let serves = link.term().server() == link.side();
        let direction = if serves { "to" } else { "from" };
        link.log(stream.about(format_args!("sessions are replicated {direction} it")));
        let done_before = link.done();
        let conversation = Conversation {
            link,
            stream,
            number: link.stream().unwrap_or_default(),
            beaten_at: None,
            theirs_ms: 0,
            // Both know what they agreed to.
            announced: link.term(),
            sent: 0,
            acknowledged: 0,
            received: 0,
            confirmed: 0,
            done_before,
            waiting: link.counts.received.load(Ordering::Relaxed).saturating_sub(done_before),
        };
        let ended = conversation.go_on(is_replaced);
        link.set_connected(false);
        ended.err().unwrap_or_default()
    }

    fn go_on(mut self, is_replaced: impl Fn() -> bool) -> Result<(), String> {
        while !self.link.stops() {
            if is_replaced() {
                return Err("another stream of the other host takes its place".into());
            }
            if self.link.takes_renewal() {
                return Err("this host needs all sessions again".into());
            }
            self.announce(self.link.term())?;
            self.send_batches()?;
            self.confirm()?;
            self.beat()?;
            self.read()?;
            if self.link.silence() > SILENT {
                return Err("the other host is silent".into());
            }
        }
        Ok(())
    }

    fn send(&mut self, kind: Kind, payload: &[u8]) -> Result<(), String> {
        self.stream.send(kind, payload)
    }

    /// Sends a sign of life, if it is time.
    fn beat(&mut self) -> Result<(), String> {
        if self.beaten_at.is_some_and(|at| at.elapsed() < HEARTBEAT) {
            return Ok(());
        }
        self.beaten_at = Some(Instant::now());
        let theirs = if self.link.is_echo_stopped() { 0 } else { self.theirs_ms };
        let [own, theirs] = [self.link.now_ms(), theirs].map(u64::to_be_bytes);
        self.send(Kind::Beat, &[own, theirs].concat())
    }

    /// Takes a sign of life.
    fn hear_beat(&mut self, payload: &[u8]) -> Option<()> {
        let (theirs, own) = payload.split_first_chunk()?;
        let own = u64::from_be_bytes(own.try_into().ok()?);
        self.theirs_ms = u64::from_be_bytes(*theirs);
        // It cannot have had what was not sent.
        (own <= self.link.now_ms()).then(|| self.link.note_echo(own))
    }

    /// Announces a term to the other host that it may not know of.
    fn announce(&mut self, term: Term) -> Result<(), String> {
        if term <= self.announced {
            return Ok(());
        }
        self.announced = term;
        self.send(Kind::Term, &term.bytes())
    }

    fn send_batches(&mut self) -> Result<(), String> {
        while let Some(batch) = self.link.outgoing.take() {
            let Batch { stream, term, content, count, bytes } = batch;
            let sent = if stream == self.number {
                // In the term of its records the other host takes them.
                self.announce(term).and_then(|()| self.send_batch(content, count, &bytes))
            } else {
                Ok(())
            };
            self.link.outgoing.recycle(bytes);
            sent?;
        }
        self.link.counts.lag.store(self.sent - self.acknowledged, Ordering::Relaxed);
        Ok(())
    }

    fn send_batch(&mut self, content: Content, count: u64, bytes: &[u8]) -> Result<(), String> {
        match content {
            Content::Records => {
                self.sent += count;
                self.link.counts.sent.fetch_add(count, Ordering::Relaxed);
                self.send(Kind::Batch, bytes)
            }
            Content::Packets => {
                self.link.counts.passed_on.fetch_add(count, Ordering::Relaxed);
                self.send(Kind::Packets, bytes)
            }
        }
    }

    /// Says which records are done.
    fn confirm(&mut self) -> Result<(), String> {
        let done = (self.link.done() - self.done_before).saturating_sub(self.waiting);
        let done = done.min(self.received);
        if done > self.confirmed {
            self.confirmed = done;
            self.send(Kind::Acknowledged, &done.to_be_bytes())?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), String> {
        for _ in 0..FRAMES {
            let received = self.stream.receive();
            if received.is_err() && self.stream.is_violated {
                self.link.counts.refused.fetch_add(1, Ordering::Relaxed);
            }
            let Some(frame) = received? else { return Ok(()) };
            self.link.hear();
            self.take(&frame).inspect_err(|_| {
                self.link.counts.refused.fetch_add(1, Ordering::Relaxed);
            })?;
        }
        Ok(())
    }

    fn take(&mut self, Frame { kind, payload }: &Frame) -> Result<(), String> {
        match kind {
            Kind::Beat => {
                self.hear_beat(payload).ok_or("the stream ends: a sign of life that is none".into())
            }
            Kind::Batch => {
                let count = count_records(payload)?;
                self.received += count;
                self.link.counts.received.fetch_add(count, Ordering::Relaxed);
                self.pass_on(Content::Records, count, payload);
                Ok(())
            }
            Kind::Packets => {
                let why = "the stream ends: packets that are cut short";
                let count = Packets::count_valid(payload).ok_or(why)?;
                self.pass_on(Content::Packets, count, payload);
                Ok(())
            }
            Kind::Term => {
                let term = Term::parse(payload).ok_or("the stream ends: a term that is none")?;
                self.link.advance(term);
                self.announced = self.announced.max(term);
                Ok(())
            }
            Kind::Acknowledged => self.acknowledge(payload),
            kind => Err(format!("it may not send {kind:?} now")),
        }
    }

    fn acknowledge(&mut self, payload: &[u8]) -> Result<(), String> {
        let number = payload.try_into().map(u64::from_be_bytes).unwrap_or(u64::MAX);
        if !(self.acknowledged..=self.sent).contains(&number) {
            return Err("it acknowledged what was not sent".into());
        }
        let more = number - self.acknowledged;
        self.link.counts.acknowledged.fetch_add(more, Ordering::Relaxed);
        self.acknowledged = number;
        self.link.set_acknowledged(number);
        Ok(())
    }

    /// Passes what came on to the element.
    fn pass_on(&self, content: Content, count: u64, payload: &[u8]) {
        let (stream, term) = (self.number, self.link.term());
        let mut bytes = loop {
            if let Some(buffer) = self.link.incoming.buffer() {
                break buffer;
            }
            if self.link.stops() {
                return;
            }
            self.link.pause(LOOK);
        };
        bytes.extend_from_slice(payload);
        // Whoever has a buffer has room.
        let _ = self.link.incoming.put(Batch { stream, term, content, count, bytes });
    }
}

/// How many records a payload has.
fn count_records(payload: &[u8]) -> Result<u64, String> {
    let mut count = 0;
    for record in Records::new(payload) {
        record.map_err(|error| format!("the stream ends: {error}"))?;
        count += 1;
    }
    Ok(count)
}
