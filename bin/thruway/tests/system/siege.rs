//! An honest client among others that take all that they can get.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use thruway_sync::atomic::{AtomicBool, Ordering};

use crate::network::Namespace;
use crate::process::LIMIT;

/// What the honest client is sent, far below what the machine carries: bytes at a time, and how
/// long it lasts.
const PIECE: usize = 4000;
const PAUSE: Duration = Duration::from_millis(10);
const PIECES: u32 = 600;
/// All of it.
pub const DOWNLOAD: usize = PIECE * PIECES as usize;
/// What a short request is answered with.
const ANSWER: usize = 20_000;
/// Slow ends of each sort.
const SLOW: usize = 300;

/// Serves each connection by its first byte, until asked to stop: `d` is sent [`DOWNLOAD`] by the
/// clock, `r` an answer, `z` as much as finds room; of others nothing is read.
pub fn serve(listener: &TcpListener, over: &AtomicBool) {
    let (mut idle, chunk) = (Vec::new(), [b'.'; PIECE]);
    listener.set_nonblocking(true).expect("a listener");
    std::thread::scope(|scope| {
        while !over.load(Ordering::SeqCst) {
            let Ok((mut stream, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            let mut first = [0];
            let _ = stream.set_nonblocking(false);
            let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
            match stream.read(&mut first) {
                Ok(1) if first == *b"d" => {
                    scope.spawn(move || send_pieces(&mut stream));
                }
                Ok(1) if first == *b"r" => {
                    let _ = stream.write_all(&[b'.'; ANSWER]);
                }
                Ok(1) if first == *b"z" => {
                    let _ = stream.set_nonblocking(true);
                    while stream.write(&chunk).is_ok() {}
                    idle.push(stream);
                }
                Ok(1) => idle.push(stream),
                _ => {}
            }
        }
    });
}

/// By the clock: what was late is made up for.
fn send_pieces(stream: &mut TcpStream) {
    let begin = Instant::now();
    for piece in 1..=PIECES {
        if stream.write_all(&[b'.'; PIECE]).is_err() {
            return;
        }
        std::thread::sleep((PAUSE * piece).saturating_sub(begin.elapsed()));
    }
}

/// A download that has begun.
pub struct Download(TcpStream);

impl Download {
    /// Its connection.
    pub fn begin(client: &Namespace, to: SocketAddr) -> Download {
        let mut stream = client.within(|| TcpStream::connect(to)).expect("a connection");
        stream.write_all(b"d").expect("a connection");
        let mut first = [0];
        stream.set_read_timeout(Some(LIMIT)).expect("a time above zero");
        stream.read_exact(&mut first).expect("it begins");
        Download(stream)
    }

    /// Bytes that come in its time.
    pub fn finish(mut self) -> usize {
        let end = Instant::now() + PAUSE * PIECES + Duration::from_millis(400);
        let (mut sum, mut buffer) = (1, vec![0; 1 << 16]);
        while sum < DOWNLOAD && Instant::now() < end {
            let _ = self.0.set_read_timeout(Some(Duration::from_millis(50)));
            match self.0.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => sum += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("the honest connection: {error}"),
            }
        }
        sum
    }
}

/// Short requests one after the other, each on a connection of its own, until asked to stop: how
/// many were made, and were answered in full.
pub fn requests(to: SocketAddr, over: &AtomicBool) -> (usize, usize) {
    let request = || -> std::io::Result<usize> {
        let mut stream = TcpStream::connect_timeout(&to, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(b"r")?;
        stream.read_to_end(&mut Vec::new())
    };
    let (mut made, mut answered) = (0, 0);
    while !over.load(Ordering::SeqCst) {
        made += 1;
        answered += usize::from(request().is_ok_and(|len| len == ANSWER));
        std::thread::sleep(Duration::from_millis(20));
    }
    (made, answered)
}

/// Connections that say this first, as many as come about.
fn connect(to: SocketAddr, count: usize, first: &[u8]) -> Vec<TcpStream> {
    let one = |_| {
        let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(2)).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.write_all(first).ok()?;
        Some(stream)
    };
    (0..count).filter_map(one).collect()
}

/// Readers that do not read, writers that stop within a word, and byte by byte, and connections
/// that come and go, until it is over.
pub fn besiege(to: SocketAddr, over: &AtomicBool, begun: &AtomicBool) {
    let mute = connect(to, SLOW, b"z");
    let held = connect(to, SLOW, b"x(NANANA");
    let mut bytes = connect(to, 20, b"x");
    begun.store(true, Ordering::SeqCst);
    assert!(mute.len() + held.len() > SLOW, "they get in");
    while !over.load(Ordering::SeqCst) {
        bytes.iter_mut().for_each(|stream| drop(stream.write(b".")));
        drop(connect(to, 2, b"c"));
        std::thread::sleep(Duration::from_millis(1));
    }
}
