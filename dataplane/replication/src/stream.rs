//! A stream between two hosts, as both ends use it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use ring::hmac;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::frame::{Frame, FrameReader, FrameWriter, Kind};

/// How long a connection, a greeting or a write may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// How long a read waits: so often each end looks for other work.
pub(crate) const LOOK: Duration = Duration::from_millis(2);
/// The same where packets wait for the stream.
const URGENT_NS: i64 = 200_000;
/// Most bytes that are read at once.
const READ_MAX: usize = 16384;

/// See the module.
pub(crate) struct Stream {
    socket: TcpStream,
    peer: SocketAddr,
    reader: FrameReader,
    writer: FrameWriter,
    /// What is to be sent in front of the next frame.
    bytes: Vec<u8>,
    is_urgent: bool,
    /// The other end sent what no honest host sends.
    pub is_violated: bool,
}

impl Stream {
    /// Of a connection to `peer`; the keys are those of its frames and of this end's.
    pub fn new(socket: TcpStream, peer: SocketAddr, [from, to]: [hmac::Key; 2]) -> Stream {
        let (reader, writer) = (FrameReader::new(from), FrameWriter::new(to));
        Stream {
            socket,
            peer,
            reader,
            writer,
            bytes: Vec::new(),
            is_urgent: false,
            is_violated: false,
        }
    }

    /// Where the other end is.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// A line about the other end.
    pub fn about(&self, what: impl std::fmt::Display) -> String {
        about(self.peer, what)
    }

    /// Has these bytes sent in front of the first frame.
    pub fn begin_with(mut self, bytes: &[u8]) -> Stream {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// From now on reads return soon, or very soon: each end has agreed, and has other work.
    pub fn hasten(&mut self, is_urgent: bool) -> Result<(), String> {
        self.is_urgent = is_urgent;
        prepare(&self.socket, LOOK)?;
        self.socket.set_write_timeout(Some(PATIENCE)).map_err(|error| error.to_string())
    }

    /// Sends a frame, and what waits in front of it.
    pub fn send(&mut self, kind: Kind, payload: &[u8]) -> Result<(), String> {
        self.writer.write(kind, payload, &mut self.bytes);
        let sent = self.socket.write_all(&self.bytes);
        self.bytes.clear();
        sent.map_err(|error| format!("the other host takes nothing: {error}"))
    }

    /// The next frame, if one comes in time.
    pub fn receive(&mut self) -> Result<Option<Frame>, String> {
        if let Some(frame) = self.next()? {
            return Ok(Some(frame));
        }
        if self.is_urgent && !self.is_readable()? {
            return Ok(None);
        }
        let mut bytes = [0; READ_MAX];
        match self.socket.read(&mut bytes) {
            Ok(0) => Err("the other host closed the stream".into()),
            Ok(len) => {
                self.reader.add(&bytes[..len]);
                self.next()
            }
            Err(error) if is_late(&error) => Ok(None),
            Err(error) => Err(format!("the stream broke: {error}")),
        }
    }

    /// The next frame, if one comes before `end`, or soon after it.
    pub fn receive_until(&mut self, end: Instant) -> Result<Option<Frame>, String> {
        loop {
            let next = self.receive()?;
            if next.is_some() || Instant::now() > end {
                return Ok(next);
            }
        }
    }

    /// Waits for bytes, for less than a read's timeout can be: that counts the kernel's ticks.
    fn is_readable(&self) -> Result<bool, String> {
        let time = Timespec { tv_sec: 0, tv_nsec: URGENT_NS };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&time)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(format!("the stream broke: {errno}")),
        }
    }

    /// The next frame of what has come.
    fn next(&mut self) -> Result<Option<Frame>, String> {
        let next = self.reader.read();
        self.is_violated |= next.is_err();
        next.map_err(|error| error.to_string())
    }
}

/// Sets what all streams want.
pub(crate) fn prepare(stream: &TcpStream, patience: Duration) -> Result<(), String> {
    let set = || {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))
    };
    set().map_err(|error| format!("the stream cannot be used: {error}"))
}

/// Whether an error of a read only says that nothing came in time.
pub(crate) fn is_late(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// A line about a peer.
pub(crate) fn about(peer: SocketAddr, what: impl std::fmt::Display) -> String {
    format!("{peer}: {what}")
}
