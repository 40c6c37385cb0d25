//! Receivers that take only very small segments: what one packet becomes is kept within the bound.

use thruway_packet::Packet;
use thruway_wire::ip_protocol;
use thruway_wire::tcp::flags::{ACK, SYN};

use super::super::{Arrival, DropReason, Mode, Out, Settings, Tcp};
use crate::segment::{Parts, finish};
use crate::testing::segment;

/// What may be kept of all connections.
const TOTAL: u64 = 4 << 20;
const CONNECTIONS: usize = 64;
/// Packets of a batch, and their payload.
const BATCH: u32 = 256;
const LEN: u32 = 1400;

/// A segment with options, as many bytes as four times a whole number.
fn with_options(numbers: (u32, u32, u8), options: &[u8], payload: &[u8]) -> Packet {
    let carried = [options, payload].concat();
    let mut packet = segment(numbers.0, numbers.1, numbers.2, &carried);
    packet.data_mut()[46] = ((20 + options.len() as u8) / 4) << 4;
    let parts = Parts::of_tcp(&packet).expect("a segment");
    assert!(finish(&mut packet, &parts, ip_protocol::TCP));
    packet
}

struct Small {
    tcp: Tcp,
    now: i64,
    out: Out,
}

impl Small {
    /// Packets of a batch, of one connection or many: all arrive, then all depart.
    fn pass(&mut self, batch: Vec<(u32, usize, Packet)>) {
        for (conn, direction, mut packet) in batch {
            packet.set_fcb(conn * 2 + direction as u32 + 1);
            let at = Arrival { conn, direction, port: direction, now: self.now };
            self.tcp.arrive(at, packet, &mut self.out);
        }
        for (port, packet) in std::mem::take(&mut self.out.packets) {
            self.tcp.depart(port, packet, self.now, &mut self.out);
        }
        self.out.packets.clear();
    }

    /// A client that takes segments of this length opens a connection.
    fn open(&mut self, mss: u16) -> u32 {
        let conn = self.tcp.open().expect("room for one more");
        let [a, b] = mss.to_be_bytes();
        self.pass(vec![(conn, 0, with_options((99, 0, SYN), &[2, 4, a, b], b""))]);
        self.pass(vec![(conn, 1, with_options((499, 100, SYN | ACK), &[2, 4, 5, 180], b""))]);
        self.pass(vec![(conn, 0, segment(100, 500, ACK, b""))]);
        conn
    }
}

/// Most that was kept at any time, while servers send whole batches to clients that take so little.
fn most_kept(mss: u16, options: &[u8], spread: bool) -> u64 {
    let settings = Settings { mode: Mode::Map, total: TOTAL, ..Settings::default() };
    let mut small = Small { tcp: Tcp::new(settings), now: 1_000_000_000, out: Out::default() };
    let conns: Vec<u32> = (0..CONNECTIONS).map(|_| small.open(mss)).collect();
    let mut next = vec![500; CONNECTIONS];
    let mut most = 0;
    for _ in 0..20 {
        let batch = (0..BATCH).map(|number| {
            let at = if spread { number as usize % CONNECTIONS } else { 0 };
            let packet = with_options((next[at], 100, ACK), options, &[7; LEN as usize]);
            next[at] += LEN;
            (conns[at], 1, packet)
        });
        let batch = batch.collect();
        small.pass(batch);
        most = most.max(small.tcp.memory_bytes());
        small.now += 20_000_000;
    }
    // One alone may be bounded by its window.
    assert!(!spread || small.out.drops[DropReason::Full as usize] > 0, "they are bounded");
    assert!(small.tcp.counts.split > 0, "they are split");
    most
}

#[test]
fn what_a_packet_becomes_is_kept_within_the_bound() {
    let stamps = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1];
    let padding = [1; 40];
    for (mss, options) in [(48, &[][..]), (1, &stamps[..]), (48, &padding[..]), (536, &[][..])] {
        for spread in [true, false] {
            let most = most_kept(mss, options, spread);
            println!("MSS {mss}, {} bytes of options: {most} of {TOTAL} bytes", options.len());
            assert!(most <= TOTAL, "MSS {mss}, {} bytes of options: {most}", options.len());
        }
    }
}
