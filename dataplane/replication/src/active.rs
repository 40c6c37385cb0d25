//! The active host's end: connects to the backup, sends batches, and takes acknowledgements.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thruway_sync::atomic::Ordering;

use crate::frame::{Frame, Kind};
use crate::greeting::{Greeting, keys};
use crate::key::Key;
use crate::link::{Batch, Link};
use crate::stream::{PATIENCE, Stream, about, prepare};

/// Time between two tries to connect.
const RETRY: Duration = Duration::from_millis(200);
/// Longest silence of an active host that lives.
const HEARTBEAT: Duration = Duration::from_millis(20);

/// The thread of the active host.
pub struct Active {
    link: Arc<Link>,
    thread: Option<JoinHandle<()>>,
}

struct Sender {
    link: Arc<Link>,
    backup: SocketAddr,
    key: Key,
    /// What the chain is, as the backup compares it with its own.
    chain: String,
    /// The last line for the user: it is not repeated.
    logged: String,
}

/// A stream that the backup agreed to, and what went over it.
struct Open {
    stream: Stream,
    sent_at: Instant,
    /// Records sent, and acknowledged.
    sent: u64,
    acknowledged: u64,
}

impl Active {
    /// Begins to send what is put into `link` to the backup at this address.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn begin(
        link: &Arc<Link>,
        backup: SocketAddr,
        key: Key,
        chain: String,
    ) -> Result<Active, String> {
        let mut sender =
            Sender { link: Arc::clone(link), backup, key, chain, logged: String::new() };
        let thread = std::thread::Builder::new().name("replicate".into());
        let thread = thread.spawn(move || sender.run()).map_err(|error| error.to_string())?;
        Ok(Active { link: Arc::clone(link), thread: Some(thread) })
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.link.stop();
        // A panic there has been reported.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Sender {
    fn run(&mut self) {
        while !self.link.stops() {
            let error = match self.open() {
                Ok(open) => {
                    self.log("sessions are replicated to it".into());
                    self.link.set_connected(true);
                    let error = self.serve(open);
                    self.link.set_connected(false);
                    error
                }
                Err(error) => error,
            };
            self.log(error);
            self.link.pause(RETRY);
        }
    }

    fn log(&mut self, what: String) {
        if what != self.logged && !self.link.stops() {
            self.link.log(about(self.backup, &what));
            self.logged = what;
        }
    }

    /// Connects, and has the backup agree.
    fn open(&self) -> Result<Open, String> {
        let unreachable = |error| format!("no stream to the backup: {error}");
        let mut socket = TcpStream::connect_timeout(&self.backup, PATIENCE).map_err(unreachable)?;
        prepare(&socket, PATIENCE)?;
        let mut theirs = [0; Greeting::LEN];
        socket.read_exact(&mut theirs).map_err(unreachable)?;
        let (theirs, own) = (Greeting::parse(&theirs)?, Greeting::new()?);
        let [to, from] = keys(&self.key, &theirs, &own);
        let stream = Stream::new(socket, "the backup", [from, to]);
        let mut stream = stream.begin_with(&own.bytes());
        stream.send(Kind::Hello, self.chain.as_bytes())?;
        let end = Instant::now() + PATIENCE;
        loop {
            match stream.receive()? {
                Some(Frame { kind: Kind::Welcome, .. }) => break,
                Some(frame) => return Err(self.refusal(&frame)),
                None if Instant::now() > end => return Err("the backup does not answer".into()),
                None => {}
            }
        }
        stream.hasten(self.link.is_urgent())?;
        Ok(Open { stream, sent_at: Instant::now(), sent: 0, acknowledged: 0 })
    }

    /// What a frame says that ends the stream.
    fn refusal(&self, frame: &Frame) -> String {
        match frame.kind {
            Kind::Refusal => {
                format!("the backup refused: {}", String::from_utf8_lossy(&frame.payload))
            }
            Kind::TakenOver => {
                self.link.set_taken_over();
                "the backup serves the traffic now, so this host no longer does; restart it as the \
                 other's backup (LISTEN)"
                    .into()
            }
            kind => format!("the backup sent a frame that it may not send now: {kind:?}"),
        }
    }

    /// Sends and listens until the stream ends; why it did.
    fn serve(&mut self, mut open: Open) -> String {
        let own = self.link.stream();
        loop {
            if self.link.stops() {
                return String::new();
            }
            let result = self.send_batches(&mut open, own).and_then(|()| {
                let Some(frame) = open.stream.receive()? else { return Ok(()) };
                match frame.kind {
                    Kind::Acknowledged => self.acknowledge(&mut open, &frame.payload),
                    _ => Err(self.refusal(&frame)),
                }
            });
            if let Err(error) = result {
                return error;
            }
        }
    }

    fn send_batches(&self, open: &mut Open, own: Option<u64>) -> Result<(), String> {
        while let Some(Batch { stream: number, records, bytes }) = self.link.take() {
            let sent = if Some(number) == own {
                open.sent += records;
                self.link.counts.sent.fetch_add(records, Ordering::Relaxed);
                open.send(&bytes)
            } else {
                Ok(())
            };
            self.link.recycle(bytes);
            sent?;
        }
        if open.sent_at.elapsed() >= HEARTBEAT {
            open.send(&[])?;
        }
        self.link.counts.lag.store(open.sent - open.acknowledged, Ordering::Relaxed);
        Ok(())
    }

    fn acknowledge(&self, open: &mut Open, payload: &[u8]) -> Result<(), String> {
        let number = payload.try_into().map(u64::from_be_bytes).unwrap_or(u64::MAX);
        if !(open.acknowledged..=open.sent).contains(&number) {
            return Err("the backup acknowledged what was not sent".into());
        }
        let more = number - open.acknowledged;
        self.link.counts.acknowledged.fetch_add(more, Ordering::Relaxed);
        open.acknowledged = number;
        self.link.set_acknowledged(number);
        Ok(())
    }
}

impl Open {
    /// Sends records, or a sign of life.
    fn send(&mut self, records: &[u8]) -> Result<(), String> {
        self.sent_at = Instant::now();
        self.stream.send(Kind::Batch, records)
    }
}
