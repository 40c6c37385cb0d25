//! Unix sockets on which nothing takes longer than the caller allows.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt,
};

use crate::Client;

/// A stream that ends at a moment, however slowly its peer sends.
struct Bounded {
    stream: UnixStream,
    end: Instant,
}

impl Bounded {
    /// What is left of the time.
    fn left(&self) -> Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(no_answer()) } else { Ok(left) }
    }
}

/// The peer took longer than the caller allowed.
fn no_answer() -> Error {
    Error::new(ErrorKind::TimedOut, "it does not answer in time")
}

/// An error of the socket; its own time limit is ours.
fn in_time<T>(result: Result<T>) -> Result<T> {
    result.map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => no_answer(),
        _ => error,
    })
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        in_time(self.stream.read(buffer))
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        in_time(self.stream.write(bytes))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Client {
    /// Connects to process `pid` at a Unix socket. The whole connection, with all that is asked on
    /// it, ends after `limit`.
    ///
    /// # Errors
    /// Nobody listens there, another process does, or it does not answer in time.
    pub fn of_process(path: &Path, pid: u32, limit: Duration) -> anyhow::Result<Client> {
        let end = Instant::now() + limit;
        // Connecting blocks where the peer accepts nobody and its queue is full; so it must not
        // wait.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?).map_err(|errno| match errno {
            Errno::AGAIN => no_answer(),
            other => other.into(),
        })?;
        let peer = sockopt::socket_peercred(&socket)?.pid.as_raw_nonzero().get();
        if i64::from(peer) != i64::from(pid) {
            anyhow::bail!("process {peer} listens there, not process {pid}");
        }
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(false)?;
        Client::greet(Box::new(Bounded { stream, end }), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    const LIMIT: Duration = Duration::from_secs(30);

    fn listener() -> (tempfile::TempDir, std::path::PathBuf, UnixListener) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).expect("a free name");
        (dir, path, listener)
    }

    #[test]
    fn a_peer_that_drips_does_not_hold_up() {
        let (_dir, path, listener) = listener();
        let drips = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            // A byte from time to time, until the client has gone.
            while stream.write_all(b"C").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let begin = Instant::now();
        let limit = Duration::from_millis(200);
        let refused = Client::of_process(&path, std::process::id(), limit).err();
        let refused = refused.expect("no greeting comes").to_string();
        assert!(refused.contains("does not answer"), "{refused}");
        assert!(begin.elapsed() < LIMIT);
        drips.join().expect("it ends");
    }

    #[test]
    fn a_peer_that_accepts_nobody_does_not_hold_up() {
        let (_dir, path, _listener) = listener();
        let limit = Duration::from_millis(1);
        // More than any queue of connections takes (`net.core.somaxconn`).
        let mut held = Vec::new();
        while let Ok(stream) = connected_now(&path) {
            held.push(stream);
            assert!(held.len() < 100_000, "a queue has an end");
        }
        let refused = Client::of_process(&path, std::process::id(), limit).err();
        let refused = refused.expect("nobody accepts").to_string();
        assert!(refused.contains("does not answer"), "{refused}");
    }

    fn connected_now(path: &Path) -> rustix::io::Result<std::os::fd::OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?).map(|()| socket)
    }

    #[test]
    fn another_process_is_not_asked() {
        let (_dir, path, _listener) = listener();
        let refused = Client::of_process(&path, 1, LIMIT).err().expect("it is not init");
        assert!(refused.to_string().contains("not process 1"), "{refused}");
    }
}
