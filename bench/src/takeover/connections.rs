//! TCP connections to the server, each of which asks now and then and is answered.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::server::SERVER;
use super::watch::Watch;
use crate::namespace::Namespace;

/// How long a handshake may take.
const CONNECT: Duration = Duration::from_secs(10);
/// A request and its answer: the same bytes.
const REQUEST: [u8; 8] = *b"request.";
/// Between two looks at the sockets.
const TICK: Duration = Duration::from_millis(1);

/// One of them.
struct Connection {
    stream: TcpStream,
    asked: Option<Instant>,
    /// When the request was sent that was answered last.
    answered: Option<Instant>,
    ended: Option<String>,
}

impl Connection {
    /// Whether what it asked at this time or later was answered.
    fn has_answered_since(&self, time: Instant) -> bool {
        self.answered.is_some_and(|answered| answered >= time)
    }
}

/// All of them.
pub struct Connections {
    all: Vec<Connection>,
    watch: Watch,
    /// Which one asks next.
    next: usize,
}

impl Connections {
    /// Opens so many to the server, one after the other.
    pub fn open(client: &Namespace, count: u32) -> anyhow::Result<Connections> {
        let address: SocketAddr = SERVER.parse()?;
        let mut connections = Connections { all: Vec::new(), watch: Watch::new()?, next: 0 };
        let open = || -> anyhow::Result<Vec<TcpStream>> {
            let connect = |_| TcpStream::connect_timeout(&address, CONNECT);
            Ok((0..count).map(connect).collect::<Result<_, _>>()?)
        };
        for stream in client.within(open)?.context("a connection through the pair")? {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            connections.watch.add(&stream, connections.all.len())?;
            let all = &mut connections.all;
            all.push(Connection { stream, asked: None, answered: None, ended: None });
        }
        Ok(connections)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Asks over one after the other for this time.
    pub fn ask_for(&mut self, time: Duration, rate: u32) -> anyhow::Result<()> {
        self.ask(rate, time, |_| false).map(drop)
    }

    /// The same until `done`; when that was.
    pub fn ask_until(
        &mut self,
        rate: u32,
        patience: Duration,
        done: impl Fn() -> bool,
    ) -> anyhow::Result<Instant> {
        if !self.ask(rate, patience, |_| done())? {
            bail!("waited {patience:?} in vain: the backup does not serve");
        }
        Ok(Instant::now())
    }

    /// Asks over each of them from now on, and waits until all were answered, or have ended.
    pub fn ask_all(&mut self, rate: u32, patience: Duration) -> anyhow::Result<()> {
        let since = Instant::now();
        let time = patience + Duration::from_secs_f64(self.len() as f64 / f64::from(rate));
        self.ask(rate, time, |connections| !connections.is_missing_some(since)).map(drop)
    }

    /// Asks over one after the other until `done`, for this time at most; whether it is done.
    fn ask(
        &mut self,
        rate: u32,
        time: Duration,
        done: impl Fn(&Connections) -> bool,
    ) -> anyhow::Result<bool> {
        let begin = Instant::now();
        let mut asked = 0;
        while !done(self) {
            if begin.elapsed() > time {
                return Ok(false);
            }
            let due = (begin.elapsed().as_secs_f64() * f64::from(rate)) as u64;
            while asked < due {
                self.ask_next();
                asked += 1;
            }
            self.take_answers()?;
        }
        Ok(true)
    }

    fn is_missing_some(&self, since: Instant) -> bool {
        let is_missing = |one: &Connection| one.ended.is_none() && !one.has_answered_since(since);
        self.all.iter().any(is_missing)
    }

    /// The next one asks, unless it still waits.
    fn ask_next(&mut self) {
        let at = self.next % self.all.len();
        self.next += 1;
        let one = &mut self.all[at];
        if one.asked.is_some() || one.ended.is_some() {
            return;
        }
        match one.stream.write(&REQUEST) {
            Ok(len) if len == REQUEST.len() => one.asked = Some(Instant::now()),
            Ok(_) => end(&self.watch, one, "it takes no request"),
            Err(error) => end(&self.watch, one, &error.to_string()),
        }
    }

    fn take_answers(&mut self) -> anyhow::Result<()> {
        for number in self.watch.wait(TICK)? {
            let one = &mut self.all[number];
            let mut answer = [0; REQUEST.len()];
            match one.stream.read(&mut answer) {
                Ok(0) => end(&self.watch, one, "the server closed it"),
                Ok(_) if answer == REQUEST => one.answered = one.asked.take().or(one.answered),
                Ok(_) => end(&self.watch, one, "another answer"),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => end(&self.watch, one, &error.to_string()),
            }
        }
        Ok(())
    }

    /// How many have not answered what was asked after this time, and why the first one has not.
    pub fn lost_since(&self, time: Instant) -> (usize, Option<String>) {
        let is_lost = |one: &&Connection| one.ended.is_some() || !one.has_answered_since(time);
        let mut lost = self.all.iter().filter(is_lost);
        let first = lost.next();
        let why = first.map(|one| one.ended.clone().unwrap_or_else(|| "no answer".to_owned()));
        (lost.count() + usize::from(first.is_some()), why)
    }
}

fn end(watch: &Watch, one: &mut Connection, why: &str) {
    one.ended = Some(why.to_owned());
    watch.forget(&one.stream);
}
