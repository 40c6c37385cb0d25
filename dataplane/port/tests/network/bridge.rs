//! Two hosts that reach each other only through frames that we receive and send.

use crate::hosts::{Host, cable, ip, privileged};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use thruway_port::af_packet::{
    OutFrame, PacketOptions, PacketSender, PacketSocket, PacketStatistics,
};
use thruway_sync::atomic::{AtomicBool, Ordering};

/// Bytes in each direction: enough for frames of 64 kB.
const TRANSFER_LEN: usize = 8 << 20;
const PORT: u16 = 5000;

/// Waits until one of the sockets has frames, or a moment.
pub fn wait(sockets: &[&PacketSocket]) {
    let mut fds: Vec<_> = sockets
        .iter()
        .flat_map(|socket| socket.sockets())
        .map(|socket| PollFd::new(socket, PollFlags::IN))
        .collect();
    let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    poll(&mut fds, Some(&moment)).expect("poll");
}

/// The sum of 16-bit words with end-around carry: all ones over what holds a right checksum.
fn sum(pieces: &[&[u8]]) -> u32 {
    let words = pieces.iter().flat_map(|piece| piece.chunks(2));
    let sum: u32 = words.map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0))).sum();
    let sum = (sum >> 16) + (sum & 0xFFFF);
    (sum >> 16) + (sum & 0xFFFF)
}

/// Frames must fit the wire, or those that they stand for must; TCP in them must have right
/// checksums. True for TCP.
fn assert_fit_for_the_wire(frame: &[u8], segments: u8) -> bool {
    let each = frame.len() / usize::from(segments);
    assert!(each <= 1514, "a frame of {} bytes for {segments}", frame.len());
    let ip = &frame[14..];
    let (addresses, tcp) = match (&frame[12..14], ip) {
        ([0x08, 0x00], [0x45, ..]) if ip[9] == 6 => {
            assert_eq!(sum(&[&ip[..20]]), 0xFFFF, "IP header");
            let len = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
            (&ip[12..20], &ip[20..len])
        }
        ([0x86, 0xDD], _) if ip[6] == 6 => {
            let len = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
            (&ip[8..40], &ip[40..40 + len])
        }
        _ => return false,
    };
    let len = (tcp.len() as u16).to_be_bytes();
    assert_eq!(sum(&[addresses, &[0, 6], &len, tcp]), 0xFFFF, "TCP in {} bytes", frame.len());
    true
}

/// Carries what is there from one socket to the other; returns the TCP frames among it.
fn carry(from: &mut PacketSocket, to: &mut PacketSender) -> usize {
    let mut frames = Vec::new();
    let count = from.receive(64, |frame| frames.push((frame.bytes.to_vec(), frame.segments)));
    assert_eq!(count, frames.len());
    assert!(count <= 64);
    let out = |(bytes, segments): &(Vec<u8>, u8)| assert_fit_for_the_wire(bytes, *segments);
    let tcp_count = frames.iter().filter(|frame| out(frame)).count();
    let of = |(bytes, segments)| OutFrame { bytes, segments };
    let out: Vec<OutFrame<'_>> = frames.iter().map(|(b, n)| of((&b[..], *n))).collect();
    let mut sent = 0;
    while sent < out.len() {
        sent += to.send(&out[sent..]).expect("the interface is up");
    }
    tcp_count
}

/// Carries frames in both directions until asked to stop: the frames of TCP among them, what the
/// sockets did, and the frames that were refused.
fn bridge(options: &PacketOptions, stop: &AtomicBool) -> (usize, [PacketStatistics; 2], u64) {
    let [mut left, mut right] =
        ["left", "right"].map(|end| PacketSocket::open(end, options).expect("it is up"));
    let [mut to_left, mut to_right] =
        ["left", "right"].map(|end| PacketSender::open(end, false).expect("it is up"));
    let mut tcp_count = 0;
    while !stop.load(Ordering::Relaxed) {
        wait(&[&left, &right]);
        tcp_count += carry(&mut left, &mut to_right);
        tcp_count += carry(&mut right, &mut to_left);
    }
    let refused = to_left.counts().1 + to_right.counts().1;
    (tcp_count, [left.statistics(), right.statistics()], refused)
}

fn pattern(seed: usize) -> Vec<u8> {
    (0..TRANSFER_LEN).map(|i| (((i + seed) * 2_654_435_761) >> 13) as u8).collect()
}

/// Sends and receives at the same time; what is received must be the pattern.
fn exchange(stream: TcpStream, send_seed: usize, receive_seed: usize) {
    let timeout = Some(Duration::from_secs(20));
    stream.set_read_timeout(timeout).expect("set");
    stream.set_write_timeout(timeout).expect("set");
    let mut out = stream.try_clone().expect("clone");
    let sender = thread::spawn(move || {
        out.write_all(&pattern(send_seed)).expect("TCP must not stall");
        out.shutdown(std::net::Shutdown::Write).expect("shutdown");
    });
    let mut received = Vec::new();
    (&stream).read_to_end(&mut received).expect("TCP must not stall");
    assert!(received == pattern(receive_seed), "{} bytes, not as sent", received.len());
    sender.join().expect("sent");
}

/// Two hosts with a bridge of ours between them.
fn hosts() -> (Host, Host, Host) {
    let (client, middle, server) = (Host::new(), Host::new(), Host::new());
    let (client_tid, server_tid) = (client.tid, server.tid);
    middle.run(move || {
        cable("left", "eth0", client_tid);
        cable("right", "eth0", server_tid);
    });
    for (host, number) in [(&client, 1), (&server, 2)] {
        host.run(move || {
            ip(&format!("addr add 10.9.0.{number}/24 dev eth0"));
            ip(&format!("addr add fd09::{number}/64 dev eth0 nodad"));
            ip("link set eth0 up");
        });
    }
    (client, middle, server)
}

/// Both hosts send at once; what the sockets did. No frame is refused.
fn transfer(server_address: &str, options: PacketOptions) -> (usize, [PacketStatistics; 2]) {
    let address: IpAddr = server_address.parse().expect("an address");
    let address = SocketAddr::new(address, PORT);
    let (client, middle, server) = hosts();
    let stop = Arc::new(AtomicBool::new(false));
    let stop_bridge = stop.clone();
    let bridged = middle.start(move || bridge(&options, &stop_bridge));
    let listener = server.run(move || TcpListener::bind(address).expect("bind"));
    let served = server.start(move || exchange(listener.accept().expect("accept").0, 1, 2));
    client.run(move || {
        let timeout = Duration::from_secs(10);
        exchange(TcpStream::connect_timeout(&address, timeout).expect("connect"), 2, 1);
    });
    served.recv().expect("the server does not panic");
    stop.store(true, Ordering::Relaxed);
    let (tcp_count, statistics, refused) = bridged.recv().expect("frames were fit for the wire");
    assert_eq!(refused, 0);
    for of_socket in statistics {
        eprintln!("{of_socket:?}");
        assert!(of_socket.checksums_completed > 0, "open checksums: {of_socket:?}");
        assert_eq!(of_socket.dropped_offload, 0);
    }
    (tcp_count, statistics)
}

fn transfer_cut(server_address: &str) {
    let (tcp_count, statistics) = transfer(server_address, PacketOptions::default());
    assert!(tcp_count >= 2 * TRANSFER_LEN / 1460, "{tcp_count} frames of TCP");
    for of_socket in statistics {
        assert!(of_socket.frames_segmented > 0, "the stack sent large frames: {of_socket:?}");
        assert_eq!(of_socket.frames_whole, 0);
    }
}

fn transfer_whole(server_address: &str) {
    let options = PacketOptions { whole: true, ..PacketOptions::default() };
    for of_socket in transfer(server_address, options).1 {
        assert!(of_socket.frames_whole > 0, "the stack sent large frames: {of_socket:?}");
        assert_eq!(of_socket.frames_segmented, 0);
    }
}

#[test]
fn large_frames_go_through_whole() {
    if privileged("large_frames_go_through_whole") {
        transfer_whole("10.9.0.2");
        transfer_whole("fd09::2");
    }
}

#[test]
fn tcp_over_ipv4_with_offloads() {
    if privileged("tcp_over_ipv4_with_offloads") {
        transfer_cut("10.9.0.2");
    }
}

#[test]
fn tcp_over_ipv6_with_offloads() {
    if privileged("tcp_over_ipv6_with_offloads") {
        transfer_cut("fd09::2");
    }
}
