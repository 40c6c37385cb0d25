//! Sockets of the tests' own: echoes by UDP and TCP, and raw packets.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};
use thruway_sync::atomic::{AtomicBool, Ordering};
use thruway_wire::checksum::Sum;

use crate::network::Namespace;
use crate::process::LIMIT;

/// How long a thread waits before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Longest datagram of an [`Echo`], with room.
const LONGEST: usize = 8192;

/// A thread that ends with this value.
struct Worker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// A thread that does `turn` again and again.
    fn new(mut turn: impl FnMut() + Send + 'static) -> Worker {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let turns = move || {
            while !seen.load(Ordering::Relaxed) {
                turn();
            }
        };
        Worker { stop, thread: Some(std::thread::spawn(turns)) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A panic in it was printed; the test fails by what it misses.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A server by UDP and TCP. A datagram comes back behind the address that it came from and a
/// space; what comes by TCP comes back as it is.
pub struct Echo {
    _workers: [Worker; 2],
}

impl Echo {
    /// A server at this port of a host.
    pub fn new(host: &Namespace, port: u16) -> Echo {
        let any = (Ipv4Addr::UNSPECIFIED, port);
        let (udp, tcp) = host.within(|| (UdpSocket::bind(any), TcpListener::bind(any)));
        let (udp, tcp) = (udp.expect("a free port"), tcp.expect("a free port"));
        udp.set_read_timeout(Some(LOOK)).expect("a time limit");
        tcp.set_nonblocking(true).expect("a listener that does not wait");
        let datagrams = Worker::new(move || echo_datagram(&udp));
        let mut streams = Vec::new();
        let streams = Worker::new(move || echo_streams(&tcp, &mut streams));
        Echo { _workers: [datagrams, streams] }
    }
}

fn echo_datagram(socket: &UdpSocket) {
    let mut buffer = [0; LONGEST];
    if let Ok((len, from)) = socket.recv_from(&mut buffer) {
        let mut answer = format!("{from} ").into_bytes();
        answer.extend(&buffer[..len]);
        // The client asks again if the answer is lost.
        let _ = socket.send_to(&answer, from);
    }
}

fn echo_streams(listener: &TcpListener, streams: &mut Vec<TcpStream>) {
    if let Ok((stream, _)) = listener.accept() {
        stream.set_nonblocking(true).expect("a stream that does not wait");
        streams.push(stream);
    }
    let mut buffer = [0; 4096];
    streams.retain_mut(|stream| match stream.read(&mut buffer) {
        Ok(0) => false,
        Ok(len) => stream.write_all(&buffer[..len]).is_ok(),
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    });
    std::thread::sleep(Duration::from_millis(2));
}

/// A connection to an [`Echo`].
pub struct Talk {
    stream: TcpStream,
    sent: u32,
}

impl Talk {
    /// A connection that is there.
    #[track_caller]
    pub fn new(client: &Namespace, server: SocketAddrV4) -> Talk {
        let stream = client.within(|| TcpStream::connect_timeout(&server.into(), LIMIT));
        let stream = stream.unwrap_or_else(|error| panic!("{server}: {error}"));
        stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
        Talk { stream, sent: 0 }
    }

    /// Says something, which must come back.
    #[track_caller]
    pub fn echo(&mut self) {
        self.sent += 1;
        let sent = self.sent.to_be_bytes();
        self.stream.write_all(&sent).expect("the connection is there");
        let mut heard = [0; 4];
        self.stream.read_exact(&mut heard).expect("the connection is there");
        assert_eq!(heard, sent);
    }
}

/// A datagram of one of the clients and what its answer said.
#[derive(Debug)]
pub struct Exchange {
    /// Whom the client asked.
    pub server: SocketAddrV4,
    /// The client's address and port, as the server saw it.
    pub seen: SocketAddr,
}

/// Asks each server from each of `count` ports, counted from 20000; every question is answered,
/// by whom it was asked.
#[track_caller]
pub fn ask(client: &Namespace, servers: &[SocketAddrV4], count: u16) -> Vec<Exchange> {
    ask_at_length(client, servers, count, 0)
}

/// The same, with questions of at least `len` bytes, and answers that are longer.
#[track_caller]
pub fn ask_at_length(
    client: &Namespace,
    servers: &[SocketAddrV4],
    count: u16,
    len: usize,
) -> Vec<Exchange> {
    let bind = |port| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).expect("a free port");
    let sockets: Vec<_> = client.within(|| (20000..20000 + count).map(bind).collect());
    let mut open: BTreeMap<String, (&UdpSocket, SocketAddrV4)> = BTreeMap::new();
    for (number, socket) in sockets.iter().enumerate() {
        socket.set_read_timeout(Some(LOOK)).expect("a time limit");
        let question = |server: &SocketAddrV4| (format!("{number} {server}"), (socket, *server));
        open.extend(servers.iter().map(question));
    }
    let (mut exchanges, begin) = (Vec::new(), Instant::now());
    // A datagram may be lost on a busy machine, whoever forwards.
    while !open.is_empty() {
        assert!(begin.elapsed() < LIMIT, "{} questions without an answer: {open:?}", open.len());
        for (question, (socket, server)) in &open {
            let question = format!("{question:len$}");
            socket.send_to(question.as_bytes(), server).expect("a way");
        }
        let waiting: BTreeSet<_> = open.keys().cloned().collect();
        for question in waiting {
            // An answer to another question may have come first, or an earlier one twice.
            let Some((socket, _)) = open.get(&question) else { continue };
            let mut buffer = [0; LONGEST];
            let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
            let answer = String::from_utf8_lossy(&buffer[..len]);
            let answer = answer.trim_end();
            let (seen, asked) = answer.split_once(' ').expect("an address and a question");
            assert!(asked.ends_with(&format!(" {from}")), "'{asked}' was answered by {from}");
            if let Some((_, server)) = open.remove(asked) {
                exchanges.push(Exchange { server, seen: seen.parse().expect("an address") });
            }
        }
    }
    exchanges
}

/// Whether a datagram to a closed port is refused, as by a message of ICMP.
pub fn refused(client: &Namespace, server: SocketAddrV4) -> bool {
    let socket = client.within(|| UdpSocket::bind("0.0.0.0:0")).expect("a socket");
    socket.connect(server).expect("a way");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a time limit");
    (0..5).any(|_| {
        let failure = socket.send(b"?").err();
        let error = failure.or_else(|| socket.recv(&mut [0; 64]).err());
        error.is_some_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    })
}

/// Whether some datagrams get no answer, of whatever kind, for half a second.
pub fn unanswered(client: &Namespace, server: SocketAddrV4) -> bool {
    let socket = client.within(|| UdpSocket::bind("0.0.0.0:0")).expect("a socket");
    socket.connect(server).expect("a way");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a time limit");
    (0..3).for_each(|_| assert!(socket.send(b"?").is_ok(), "a way"));
    let error = socket.recv(&mut [0; 64]).err();
    error.is_some_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// A sender of packets with any source address.
pub struct Raw {
    socket: OwnedFd,
}

impl Raw {
    /// One in this host.
    pub fn new(host: &Namespace) -> Raw {
        let made = host.within(|| socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW)));
        Raw { socket: made.expect("root may") }
    }

    /// Sends an IPv4 packet, towards the destination in it.
    pub fn send(&self, packet: &[u8]) {
        let to = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
        let to = SocketAddrV4::new(to, 0);
        sendto(&self.socket, packet, SendFlags::empty(), &to).expect("a way");
    }
}

/// Flags of TCP (RFC 9293, section 3.1).
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// An IPv4 packet of a TCP segment without data.
pub fn segment(from: SocketAddrV4, to: SocketAddrV4, flags: u8) -> Vec<u8> {
    let mut tcp = [0; 20];
    tcp[..2].copy_from_slice(&from.port().to_be_bytes());
    tcp[2..4].copy_from_slice(&to.port().to_be_bytes());
    tcp[4..8].copy_from_slice(&from.ip().to_bits().to_be_bytes());
    (tcp[12], tcp[13], tcp[14]) = (5 << 4, flags, 64);
    let (source, destination) = (from.ip().to_bits(), to.ip().to_bits());
    let sum = Sum::pseudo_v4(source, destination, 6, tcp.len()).with(&tcp).checksum();
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    packet(6, *from.ip(), *to.ip(), &tcp)
}

/// An IPv4 packet of this protocol; its checksum is the kernel's business where [`Raw`] sends it.
pub fn packet(protocol: u8, from: Ipv4Addr, to: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0];
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(payload);
    let len = u16::try_from(packet.len()).expect("a short packet");
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet
}
