//! The two ends of connections: what they send, when, and whether what arrives is right.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::time::{Duration, Instant};

use thruway_random::Random;

use super::content::{Edit, Expected, Source, Stream};

/// A pause: behind which byte, and how long.
pub type Pause = Option<(u64, Duration)>;

/// What one end does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it sends.
    pub len: u64,
    /// Bytes of noise between two words that it sends, on average.
    pub gap: usize,
    /// Bytes that it writes at once.
    pub write: Range<usize>,
    /// Bytes that it reads at once, at most.
    pub read: usize,
    /// When it writes nothing for a while.
    pub pause: Pause,
    /// When it reads nothing for a while.
    pub rest: Pause,
    /// It writes nothing before it has received everything.
    pub answers: bool,
    /// Behind which byte it gives up, without a word of leave (RST).
    pub abort: Option<u64>,
    /// Size of the buffer for what it receives; else the kernel's choice.
    pub buffer: Option<usize>,
}

impl Plan {
    /// To send so many bytes as fast as possible.
    pub const fn of(len: u64) -> Plan {
        Plan {
            len,
            gap: 2000,
            write: 1 << 16..(1 << 16) + 1,
            read: 1 << 16,
            pause: None,
            rest: None,
            answers: false,
            abort: None,
            buffer: None,
        }
    }

    /// What it sends on a connection with this seed; the two ends send different things.
    pub fn stream(&self, seed: u64) -> Stream {
        Stream { seed, len: self.len, gap: self.gap }
    }
}

/// One end of a connection.
pub struct End {
    stream: TcpStream,
    plan: Plan,
    source: Source,
    random: Random,
    expected: Expected,
    /// Bytes written.
    pub sent: u64,
    /// When it goes on writing, and reading.
    pause_until: Option<Instant>,
    rest_until: Option<Instant>,
    has_sent: bool,
    has_received: bool,
    /// The other end gives up.
    is_left: bool,
}

impl End {
    /// One end over a stream that does not wait. It sends `own`, and what the other end sends is
    /// to arrive with these edits.
    pub fn new(stream: TcpStream, plans: (&Plan, &Plan), seeds: (u64, u64), edits: &[Edit]) -> End {
        let (plan, other) = plans;
        // Tiny writes are to leave as tiny segments.
        stream.set_nodelay(true).expect("a connection");
        End {
            stream,
            plan: plan.clone(),
            source: Source::new(plan.stream(seeds.0)),
            random: Random::from_seed(seeds.0),
            expected: Expected::new(other.stream(seeds.1), edits),
            sent: 0,
            pause_until: None,
            rest_until: None,
            has_sent: false,
            has_received: false,
            is_left: other.abort.is_some(),
        }
    }

    /// Its socket.
    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether it has nothing more to do.
    pub fn is_done(&self) -> bool {
        self.has_sent && self.has_received
    }

    /// Whether it would write, or read, at this time.
    pub fn wants(&self, now: Instant) -> (bool, bool) {
        let awake = |until: Option<Instant>| until.is_none_or(|until| until <= now);
        let may_send = !self.plan.answers || self.has_received;
        (
            !self.has_sent && may_send && awake(self.pause_until),
            !self.has_received && awake(self.rest_until),
        )
    }

    /// When it wakes from a pause or a rest.
    pub fn wakes(&self, now: Instant) -> Option<Instant> {
        [self.pause_until, self.rest_until].into_iter().flatten().filter(|at| *at > now).min()
    }

    /// How far it is.
    pub fn progress(&self) -> String {
        let has = |yes: bool| if yes { "all" } else { "not all" };
        let (sent, received) = (has(self.has_sent), has(self.has_received));
        format!(
            "sent {} of {} ({sent}), received {} ({received})",
            self.sent, self.plan.len, self.expected.matched
        )
    }

    /// Writes a piece, or ends this direction if nothing is left. Whether anything came of it.
    pub fn write(&mut self, now: Instant) -> Result<bool, String> {
        if self.plan.abort.is_some_and(|at| self.sent >= at) {
            return self.abort();
        }
        let Range { start, end } = self.plan.write;
        let most = start + self.random.index(end - start);
        let until = self.plan.pause.map_or(u64::MAX, |(at, _)| at.saturating_sub(self.sent));
        let piece = self.source.peek();
        if piece.is_empty() {
            self.has_sent = true;
            return match self.stream.shutdown(Shutdown::Write) {
                Err(error) if !self.is_left => Err(format!("shutdown: {error}")),
                _ => Ok(true),
            };
        }
        let len = piece.len().min(most).min(usize::try_from(until).unwrap_or(usize::MAX));
        let result = (&self.stream).write(&piece[..len]);
        let Some(len) = self.outcome("write", result)? else { return Ok(false) };
        self.source.advance(len);
        self.sent += len as u64;
        self.pause_until = take_pause(&mut self.plan.pause, self.sent, now).or(self.pause_until);
        Ok(true)
    }

    /// Reads a piece and looks whether it is right. Whether anything came of it.
    pub fn read(&mut self, now: Instant, buffer: &mut [u8]) -> Result<bool, String> {
        let most = self.plan.read.min(buffer.len());
        let result = (&self.stream).read(&mut buffer[..most]);
        let Some(len) = self.outcome("read", result)? else { return Ok(self.has_received) };
        if len == 0 {
            return self.end();
        }
        self.expected.check(&buffer[..len])?;
        let received = self.expected.matched;
        self.rest_until = take_pause(&mut self.plan.rest, received, now).or(self.rest_until);
        Ok(true)
    }

    /// The stream's other end has sent all.
    fn end(&mut self) -> Result<bool, String> {
        self.has_received = true;
        match self.is_left || self.expected.is_complete() {
            true => Ok(true),
            false => Err(format!("the stream ends too early, after {}", self.expected.matched)),
        }
    }

    /// Leaves, so that the kernel sends a reset.
    fn abort(&mut self) -> Result<bool, String> {
        let linger = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&self.stream, linger).expect("a socket");
        (self.has_sent, self.has_received) = (true, true);
        Ok(true)
    }

    /// What came of a call: a length, or nothing yet. A reset is the end if it was to come.
    fn outcome(
        &mut self,
        what: &str,
        result: std::io::Result<usize>,
    ) -> Result<Option<usize>, String> {
        match result {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error)
                if self.is_left
                    && matches!(
                        error.kind(),
                        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                    ) =>
            {
                (self.has_sent, self.has_received) = (true, true);
                Ok(None)
            }
            Err(error) => Err(format!("{what}: {error}")),
        }
    }
}

/// When a pause that begins at this byte ends.
fn take_pause(pause: &mut Pause, at: u64, now: Instant) -> Option<Instant> {
    let (_, time) = pause.take_if(|(from, _)| at >= *from)?;
    Some(now + time)
}
