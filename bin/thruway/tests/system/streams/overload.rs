//! Floods and slow ends beside an honest connection: it gets what it gets without them.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use thruway_sync::atomic::{AtomicBool, Ordering};

use super::chains::LONGER;
use super::path::{Path, SERVERS};
use crate::process::{Running, privileged, wait_for};

/// What the honest connection is sent, far below what the machine carries: bytes at a time, and how
/// long it lasts.
const PIECE: usize = 4000;
const PAUSE: Duration = Duration::from_millis(10);
const PIECES: u32 = 600;
/// Slow ends of each sort.
const SLOW: usize = 300;
/// SYNs from random addresses: as many, and a second.
const SYNS: u32 = 60_000;
const SYN_RATE: u32 = 10_000;

/// Serves each connection by its first byte: `d` is sent [`PIECES`], `z` as much as finds room; of
/// others nothing is read.
fn serve(listener: &TcpListener, over: &AtomicBool) {
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

/// Bytes that an honest client gets in its time.
fn download(path: &Path, to: SocketAddr) -> usize {
    path.client().within(|| {
        let mut stream = TcpStream::connect(to).expect("a connection");
        stream.write_all(b"d").expect("a connection");
        let end = Instant::now() + PAUSE * PIECES + Duration::from_millis(400);
        let (mut sum, mut buffer) = (0, vec![0; 1 << 16]);
        while sum < PIECE * PIECES as usize && Instant::now() < end {
            let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => sum += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("the honest connection: {error}"),
            }
        }
        sum
    })
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
fn besiege(to: SocketAddr, over: &AtomicBool, begun: &AtomicBool) {
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

/// The flood of SYNs, from the client's interface.
fn flood(path: &Path) -> Running {
    let text = format!(
        "RatedSource(DATA \\<45000028 00000000 40060000 0a010001 0a000002 \
         03e80051 00000001 00000000 50022000 00000000>, RATE {SYN_RATE}, LIMIT {SYNS}, STOP true) \
         -> MarkIPHeader -> SetRandIPAddress(10.64.0.0/10) -> StoreIPAddress(12) -> SetIPChecksum \
         -> SetTCPChecksum -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:8) -> Queue \
         -> ToDevice(eth0, METHOD LINUX)"
    );
    Running::start(path.client().thruway().args(["click", "-e", &text]))
}

#[test]
fn an_honest_connection_notices_no_flood() {
    if !privileged("an_honest_connection_notices_no_flood") {
        return;
    }
    LONGER.with(|chain| {
        let path = Path::new(chain);
        let bind = || TcpListener::bind((SERVERS[0], 0));
        let listener = path.server().within(bind).expect("a free port");
        rustix::net::listen(&listener, 4096).expect("a listener");
        let to = listener.local_addr().expect("it is bound");
        let [over, begun] = [(); 2].map(|()| AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| serve(&listener, &over));
            let alone = download(&path, to);
            scope.spawn(|| path.client().within(|| besiege(to, &over, &begun)));
            wait_for("the siege", || begun.load(Ordering::SeqCst).then_some(()));
            let flood = flood(&path);
            let among = download(&path, to);
            over.store(true, Ordering::SeqCst);
            drop(flood);
            println!("{alone} bytes alone, {among} among the others");
            assert!(alone * 100 >= PIECE * PIECES as usize * 90, "{alone} bytes alone");
            assert!(among * 100 >= alone * 99, "{among} of {alone} bytes");
        });
        let mut control = path.control();
        assert!(control.number("chain/tcp.opened") > 10_000, "the flood came");
        // In whole frames, with half of a batch beyond.
        let kept = control.number("chain/tcp.memory");
        assert!(kept <= (64 << 20) + (1 << 20), "{kept} bytes are kept");
        path.stop();
    });
}
