//! The active host's end: connects to the backup, sends batches, and takes acknowledgements.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thruway_sync::atomic::Ordering;

use crate::frame::{Frame, FrameReader, FrameWriter, Kind};
use crate::greeting::{Greeting, keys};
use crate::key::Key;
use crate::link::{Batch, Link, about, is_late, prepare};

/// How long a connection, a greeting or a write may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two tries to connect.
const RETRY: Duration = Duration::from_millis(200);
/// How long a read waits: so often batches are looked for.
const LOOK: Duration = Duration::from_millis(2);
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

/// An open stream.
struct Stream {
    socket: TcpStream,
    reader: FrameReader,
    writer: FrameWriter,
    bytes: Vec<u8>,
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
                Ok(stream) => {
                    self.log("sessions are replicated to it".into());
                    self.link.set_connected(true);
                    let error = self.serve(stream);
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
    fn open(&self) -> Result<Stream, String> {
        let unreachable = |error| format!("no stream to the backup: {error}");
        let mut socket = TcpStream::connect_timeout(&self.backup, PATIENCE).map_err(unreachable)?;
        prepare(&socket, PATIENCE)?;
        let mut theirs = [0; Greeting::LEN];
        socket.read_exact(&mut theirs).map_err(unreachable)?;
        let (theirs, own) = (Greeting::parse(&theirs)?, Greeting::new()?);
        let [to, from] = keys(&self.key, &theirs, &own);
        let mut stream = Stream {
            socket,
            reader: FrameReader::new(from),
            writer: FrameWriter::new(to),
            bytes: own.bytes().to_vec(),
            sent_at: Instant::now(),
            sent: 0,
            acknowledged: 0,
        };
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
        prepare(&stream.socket, LOOK)?;
        stream.socket.set_write_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        Ok(stream)
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
    fn serve(&mut self, mut stream: Stream) -> String {
        let own = self.link.stream();
        loop {
            if self.link.stops() {
                return String::new();
            }
            let result = self.send_batches(&mut stream, own).and_then(|()| {
                let Some(frame) = stream.receive()? else { return Ok(()) };
                match frame.kind {
                    Kind::Acknowledged => self.acknowledge(&mut stream, &frame.payload),
                    _ => Err(self.refusal(&frame)),
                }
            });
            if let Err(error) = result {
                return error;
            }
        }
    }

    fn send_batches(&self, stream: &mut Stream, own: Option<u64>) -> Result<(), String> {
        while let Some(Batch { stream: number, records, bytes }) = self.link.take() {
            let sent = if Some(number) == own {
                stream.sent += records;
                self.link.counts.sent.fetch_add(records, Ordering::Relaxed);
                stream.send(Kind::Batch, &bytes)
            } else {
                Ok(())
            };
            self.link.recycle(bytes);
            sent?;
        }
        if stream.sent_at.elapsed() >= HEARTBEAT {
            stream.send(Kind::Batch, &[])?;
        }
        self.link.counts.lag.store(stream.sent - stream.acknowledged, Ordering::Relaxed);
        Ok(())
    }

    fn acknowledge(&self, stream: &mut Stream, payload: &[u8]) -> Result<(), String> {
        let number = payload.try_into().map(u64::from_be_bytes).unwrap_or(u64::MAX);
        if !(stream.acknowledged..=stream.sent).contains(&number) {
            return Err("the backup acknowledged what was not sent".into());
        }
        let more = number - stream.acknowledged;
        self.link.counts.acknowledged.fetch_add(more, Ordering::Relaxed);
        stream.acknowledged = number;
        Ok(())
    }
}

impl Stream {
    /// Sends a frame, and what waits in front of it.
    fn send(&mut self, kind: Kind, payload: &[u8]) -> Result<(), String> {
        self.writer.write(kind, payload, &mut self.bytes);
        let sent = self.socket.write_all(&self.bytes);
        self.bytes.clear();
        self.sent_at = Instant::now();
        sent.map_err(|error| format!("the backup takes nothing: {error}"))
    }

    /// The next frame, if one comes in time.
    fn receive(&mut self) -> Result<Option<Frame>, String> {
        if let Some(frame) = self.reader.read().map_err(|error| error.to_string())? {
            return Ok(Some(frame));
        }
        let mut bytes = [0; 4096];
        match self.socket.read(&mut bytes) {
            Ok(0) => Err("the backup closed the stream".into()),
            Ok(len) => {
                self.reader.add(&bytes[..len]);
                self.reader.read().map_err(|error| error.to_string())
            }
            Err(error) if is_late(&error) => Ok(None),
            Err(error) => Err(format!("the stream to the backup broke: {error}")),
        }
    }
}
