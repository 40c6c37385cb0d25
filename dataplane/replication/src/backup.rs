//! The backup host's end: lets the active host in, and takes its batches.
//!
//! One thread lets in: whoever connects has a second to show that it has the key. Another reads the
//! stream that was let in last.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use thruway_sync::atomic::Ordering;

use crate::frame::{Frame, Kind};
use crate::greeting::{Greeting, keys};
use crate::key::Key;
use crate::link::{Batch, Link};
use crate::record::Records;
use crate::stream::{LOOK, PATIENCE, Stream, about, is_late, prepare};

/// How often somebody is looked for who wants to be let in.
const LISTEN: Duration = Duration::from_millis(20);
/// A stream that was silent for so long is no more.
const SILENT: Duration = Duration::from_secs(2);

/// The threads of the backup host.
pub struct Backup {
    link: Arc<Link>,
    threads: Vec<JoinHandle<()>>,
}

/// A stream that showed the key, and of whom it is.
type Shown = (SocketAddr, Stream);

/// The stream that was let in last, until it is taken.
type Admitted = Arc<Mutex<Option<Shown>>>;

struct Gate {
    link: Arc<Link>,
    listener: TcpListener,
    key: Key,
    chain: String,
    admitted: Admitted,
}

impl Backup {
    /// Begins to listen; what comes is put into `link`.
    ///
    /// # Errors
    /// The address cannot be listened at, or the system has no threads for it.
    pub fn begin(
        link: &Arc<Link>,
        at: SocketAddr,
        key: Key,
        chain: String,
    ) -> Result<Backup, String> {
        let failed = |error: std::io::Error| format!("cannot listen at {at}: {error}");
        let listener = TcpListener::bind(at).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let admitted = Admitted::default();
        let link = Arc::clone(link);
        let gate =
            Gate { link: Arc::clone(&link), listener, key, chain, admitted: Arc::clone(&admitted) };
        let reading = Arc::clone(&link);
        let spawn = |work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name("replicate".into()).spawn(work).map_err(failed)
        };
        let mut backup = Backup { link, threads: Vec::new() };
        backup.threads.push(spawn(Box::new(move || gate.run()))?);
        backup.threads.push(spawn(Box::new(move || read_streams(&reading, &admitted)))?);
        Ok(backup)
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        self.link.stop();
        // A panic there has been reported.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Gate {
    fn run(&self) {
        while !self.link.stops() {
            match self.listener.accept() {
                Ok((socket, peer)) => match self.admit(socket) {
                    Ok(stream) => *self.admitted.lock() = Some((peer, stream)),
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
    fn admit(&self, mut socket: TcpStream) -> Result<Stream, String> {
        let broke = |error: std::io::Error| format!("it did not show the key: {error}");
        let end = Instant::now() + PATIENCE;
        socket.set_nonblocking(false).map_err(broke)?;
        prepare(&socket, PATIENCE)?;
        let own = Greeting::new()?;
        socket.write_all(&own.bytes()).map_err(broke)?;
        let mut theirs = [0; Greeting::LEN];
        read_until(&mut socket, &mut theirs, end)?;
        let theirs = Greeting::parse(&theirs)?;
        let keys = keys(&self.key, &own, &theirs);
        let mut stream = Stream::new(socket, "the active host", keys);
        let hello = loop {
            match stream.receive()? {
                Some(frame) => break frame,
                None if Instant::now() > end => return Err("it did not show the key".into()),
                None => {}
            }
        };
        if hello.kind != Kind::Hello {
            return Err("it began with sessions".into());
        }
        if self.link.is_taken_over() {
            stream.send(Kind::TakenOver, &[])?;
            return Err("this host has taken over; restart the other one as its backup".into());
        }
        if hello.payload != self.chain.as_bytes() {
            let why = "the chains differ; run the same configuration on both hosts, but for TO and \
                       LISTEN";
            stream.send(Kind::Refusal, why.as_bytes())?;
            return Err(why.into());
        }
        stream.send(Kind::Welcome, &[])?;
        stream.hasten(self.link.is_urgent())?;
        Ok(stream)
    }
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

/// Reads one stream after the other.
fn read_streams(link: &Link, admitted: &Admitted) {
    while !link.stops() {
        let Some((peer, stream)) = admitted.lock().take() else {
            link.pause(LOOK);
            continue;
        };
        link.log(about(peer, "sessions are replicated from it"));
        link.hear();
        link.set_connected(true);
        let ended = read_stream(link, stream, admitted);
        link.set_connected(false);
        if let Err(error) = ended {
            link.log(about(peer, error));
        }
    }
}

/// Reads a stream to its end.
fn read_stream(link: &Link, mut stream: Stream, admitted: &Admitted) -> Result<(), String> {
    let (own, done_before) = (link.stream().unwrap_or_default(), link.done());
    // Records of an earlier stream may still wait for the element.
    let (mut received, mut acknowledged) = (0, 0);
    let waiting = link.counts.sent.load(Ordering::Relaxed).saturating_sub(done_before);
    loop {
        if link.stops() {
            return Ok(());
        }
        if link.is_taken_over() {
            return stream.send(Kind::TakenOver, &[]);
        }
        if admitted.lock().is_some() {
            return Err("another stream of the active host takes its place".into());
        }
        while let Some(frame) = receive(link, &mut stream)? {
            link.hear();
            if frame.kind != Kind::Batch {
                link.counts.refused.fetch_add(1, Ordering::Relaxed);
                return Err(format!("it may not send {:?} now", frame.kind));
            }
            received += take_batch(link, own, &frame.payload)?;
        }
        let done = (link.done() - done_before).saturating_sub(waiting).min(received);
        if done > acknowledged {
            stream.send(Kind::Acknowledged, &done.to_be_bytes())?;
            acknowledged = done;
        }
        if link.silence() > SILENT {
            return Err("the active host is silent".into());
        }
    }
}

/// Passes the records of a frame on; how many they are.
fn take_batch(link: &Link, stream: u64, payload: &[u8]) -> Result<u64, String> {
    let mut records = 0;
    for record in Records::new(payload) {
        if let Err(error) = record {
            link.counts.refused.fetch_add(1, Ordering::Relaxed);
            return Err(format!("the stream ends: {error}"));
        }
        records += 1;
    }
    if records == 0 {
        return Ok(0);
    }
    let mut buffer = loop {
        if let Some(buffer) = link.buffer() {
            break buffer;
        }
        if link.stops() || link.is_taken_over() {
            return Ok(0);
        }
        link.pause(LOOK);
    };
    buffer.extend_from_slice(payload);
    link.counts.sent.fetch_add(records, Ordering::Relaxed);
    // Who has a buffer has room.
    let _ = link.put(Batch { stream, records, bytes: buffer });
    Ok(records)
}

/// The next frame of a stream that was let in, if one comes in time: a violation is counted.
fn receive(link: &Link, stream: &mut Stream) -> Result<Option<Frame>, String> {
    let received = stream.receive();
    if received.is_err() {
        link.counts.refused.fetch_add(u64::from(stream.is_violated), Ordering::Relaxed);
    }
    received
}
