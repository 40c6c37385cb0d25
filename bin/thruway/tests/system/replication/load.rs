//! Connections and a download that go on while hosts between their ends are lost.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use thruway_sync::atomic::{AtomicBool, Ordering};

use crate::network::Namespace;
use crate::process::Ending;

/// Connections that go on across the loss of a host.
pub const CONNECTIONS: usize = 200;
/// Bytes of the download that goes on, too.
const DOWNLOAD: usize = 24 << 20;
/// Longest gap that a connection may see: retransmission timers of the ends double.
const GAP_MAX: Duration = Duration::from_secs(5);

/// How long an end waits for the other: SYNs are repeated after 1, 3 and 7 s.
const PATIENCE: Duration = Duration::from_secs(15);

/// Where a client meets its server.
pub struct Ends<'a> {
    pub client: &'a Namespace,
    pub server: &'a Namespace,
    /// Of the server.
    pub address: SocketAddr,
}

/// Hosts with middleboxes between a client and a server.
pub trait Between {
    fn ends(&self) -> Ends<'_>;
}

/// Byte `at` of the download.
fn byte(at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 13) as u8
}

/// Answers what comes with the same bytes; to whoever begins with `D`, sends the download.
pub fn serve(listener: &TcpListener, stop: &AtomicBool) {
    listener.set_nonblocking(true).expect("a socket");
    std::thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            let Ok((stream, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            scope.spawn(move || answer(stream));
        }
    });
}

fn answer(mut stream: TcpStream) {
    stream.set_nonblocking(false).expect("a socket");
    // A test that fails ends all the same.
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut bytes = [0; 8];
    while stream.read_exact(&mut bytes).is_ok() {
        if bytes[0] == b'D' {
            let all: Vec<u8> = (0..DOWNLOAD).map(byte).collect();
            // Paced, so that the loss of the host comes in its middle.
            for piece in all.chunks(64 << 10) {
                if stream.write_all(piece).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(15));
            }
            let _ = stream.shutdown(Shutdown::Write);
        } else if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

pub fn connect(ends: &Ends<'_>) -> TcpStream {
    let connect = || TcpStream::connect_timeout(&ends.address, PATIENCE);
    let stream = ends.client.within(connect).expect("a connection through the middlebox");
    stream.set_nodelay(true).expect("a socket");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    stream
}

/// Asks again and again until `stop`; the longest time without an answer, or how it failed.
fn talk(mut stream: TcpStream, number: usize, stop: &AtomicBool) -> Result<Duration, String> {
    let (mut gap, mut round) = (Duration::ZERO, 0u32);
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let question = [b"Q".as_slice(), &[number as u8, 0, 0], &round.to_be_bytes()].concat();
        let mut answer = [0; 8];
        stream.write_all(&question).map_err(|error| format!("{number}: {error}"))?;
        stream.read_exact(&mut answer).map_err(|error| format!("{number}: {error}"))?;
        if answer[..] != question[..] {
            return Err(format!("{number}: {answer:?} for {question:?}"));
        }
        gap = gap.max(asked.elapsed());
        round += 1;
        std::thread::sleep(Duration::from_millis(40));
    }
    Ok(gap)
}

/// The download: whether its bytes are right.
fn download(mut stream: TcpStream) -> Result<Duration, String> {
    stream.write_all(b"Download").map_err(|error| error.to_string())?;
    let (mut bytes, mut at, mut gap) = (vec![0; 64 << 10], 0, Duration::ZERO);
    loop {
        let asked = Instant::now();
        let len = stream.read(&mut bytes).map_err(|error| format!("at byte {at}: {error}"))?;
        gap = gap.max(asked.elapsed());
        if let Some(wrong) = (0..len).find(|offset| bytes[*offset] != byte(at + offset)) {
            return Err(format!("byte {} is wrong", at + wrong));
        }
        at += len;
        if len == 0 {
            return (at == DOWNLOAD).then_some(gap).ok_or(format!("{at} bytes came"));
        }
    }
}

/// Runs connections and a download through the middlebox while `meanwhile` runs.
pub fn under_load<B: Between>(between: &mut B, meanwhile: impl FnOnce(&mut B)) {
    let ends = between.ends();
    let listener = ends.server.within(|| TcpListener::bind(ends.address)).expect("a listener");
    let (stop, stop_server) = (AtomicBool::new(false), AtomicBool::new(false));
    let (talks, downloaded) = std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &stop_server));
        let ends = between.ends();
        let streams: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect(&ends)).collect();
        let loading = connect(&ends);
        let loading = scope.spawn(|| download(loading));
        let stop = &stop;
        let talks: Vec<_> = streams
            .into_iter()
            .enumerate()
            .map(|(number, stream)| scope.spawn(move || talk(stream, number, stop)))
            .collect();
        let ending = (Ending(&[stop]), Ending(&[&stop_server]));
        std::thread::sleep(Duration::from_millis(500));
        meanwhile(between);
        std::thread::sleep(Duration::from_secs(3));
        drop(ending.0);
        let talks: Vec<_> = talks.into_iter().map(|talk| talk.join().expect("no panic")).collect();
        let downloaded = loading.join().expect("no panic");
        (talks, downloaded)
    });
    judge(&talks, downloaded);
}

fn judge(talks: &[Result<Duration, String>], downloaded: Result<Duration, String>) {
    let failed: Vec<&String> = talks.iter().filter_map(|talk| talk.as_ref().err()).collect();
    let mut gaps: Vec<Duration> = talks.iter().flatten().copied().collect();
    gaps.sort();
    let (half, longest) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    println!(
        "{} of {} sessions went on; gap p50 {half:.0?}, longest {longest:.0?}; download: \
         {downloaded:.0?}",
        gaps.len(),
        talks.len()
    );
    assert!(gaps.len() * 1000 >= talks.len() * 999, "{failed:?}");
    assert!(longest < GAP_MAX, "a gap of {longest:?}");
    downloaded.expect("the download goes on");
}
