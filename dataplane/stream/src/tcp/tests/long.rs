//! Packets that stand for several segments: they leave as they came, to be cut behind us.

use thruway_wire::tcp::flags::{ACK, FIN, SYN};

use super::super::{Mode, Out, Settings, Tcp};
use super::through;
use crate::content::{HasContent, flag};
use crate::segment::{Parts, tcp};
use crate::testing::segment;
use thruway_packet::Packet;

/// Bytes of a segment, of which a receiver that names none takes 536, and segments of a long
/// packet.
const EACH: usize = 500;
const COUNT: usize = 8;

/// An engine with one connection, of which the server (direction 1) sends.
struct Long {
    tcp: Tcp,
    out: Out,
}

impl Long {
    fn new(settings: Settings) -> Long {
        let mut long = Long { tcp: Tcp::new(settings), out: Out::default() };
        long.tcp.open().expect("room for one");
        for (direction, numbers) in
            [(0, (99, 0, SYN)), (1, (499, 100, SYN | ACK)), (0, (100, 500, ACK))]
        {
            long.pass(direction, segment(numbers.0, numbers.1, numbers.2, &[]), false);
        }
        long
    }

    /// A packet goes through, changed within if that is wanted; what leaves in all.
    fn pass(&mut self, direction: usize, packet: Packet, is_changed: bool) -> Vec<Packet> {
        let change = |packet: &mut Packet| {
            let mut mark = packet.content_mark();
            if is_changed && mark.took > 0 {
                mark.flags |= flag::CHANGED;
                packet.set_content_mark(mark);
            }
        };
        let engine = (&mut self.tcp, &mut self.out);
        let left = through(engine, (0, direction, 1_000_000_000), packet, change);
        left.into_iter().map(|(_, packet)| packet).collect()
    }

    /// The server sends a long packet.
    fn send(&mut self, seq: u32, is_changed: bool) -> Vec<Packet> {
        self.pass(1, long_packet(seq, ACK), is_changed)
    }
}

fn long_packet(seq: u32, flags: u8) -> Packet {
    let payload: Vec<u8> = (0..EACH * COUNT).map(|at| ((at + seq as usize) % 251) as u8).collect();
    let mut packet = segment(seq, 100, flags, &payload);
    assert!(packet.set_segments(COUNT));
    packet
}

/// Number, payload, segments; its checksum is right.
fn read(packet: &Packet) -> (u32, Vec<u8>, usize) {
    let parts = Parts::of_tcp(packet).expect("a segment");
    parts.verify(packet, thruway_wire::ip_protocol::TCP).expect("its checksum");
    let seq = tcp(packet, &parts).expect("a header").seq();
    (seq, packet.data()[parts.payload..parts.end].to_vec(), packet.segments())
}

#[test]
fn a_long_packet_leaves_as_it_came() {
    for mode in [Mode::Guard, Mode::Map] {
        for is_changed in [false, true] {
            let mut long = Long::new(Settings { mode, ..Settings::default() });
            let left = long.send(500, is_changed);
            let counts: Vec<usize> = left.iter().map(Packet::segments).collect();
            assert_eq!(counts, [COUNT], "{mode:?}, changed: {is_changed}");
            assert_eq!(read(&left[0]), read(&long_packet(500, ACK)));
        }
    }
}

/// Where few large frames are left it is cut here, and each part stands for itself: not for as many
/// as the whole.
#[test]
fn parts_of_a_long_packet_stand_for_themselves() {
    let settings = Settings { mode: Mode::Guard, large_max: 2, ..Settings::default() };
    let mut long = Long::new(settings);
    assert_eq!(long.send(500, false).len(), 1);
    let left = long.send(500 + (EACH * COUNT) as u32, false);
    let counts: Vec<usize> = left.iter().map(Packet::segments).collect();
    assert_eq!(counts, [1; COUNT]);
}

/// A sender that sends one segment again gets that one sent, not all that came with it.
#[test]
fn of_a_long_packet_the_missing_segment_is_sent_again() {
    for mode in [Mode::Guard, Mode::Map] {
        let mut long = Long::new(Settings { mode, ..Settings::default() });
        let whole = long.pass(1, long_packet(500, ACK | FIN), false);
        let (_, bytes, _) = read(&whole[0]);
        for at in [0, 3, COUNT - 1] {
            let range = at * EACH..(at + 1) * EACH;
            let begin = 500 + range.start as u32;
            let flags = if at == COUNT - 1 { ACK | FIN } else { ACK };
            let again = long.pass(1, segment(begin, 100, flags, &[0; EACH]), false);
            let counts: Vec<usize> = again.iter().map(Packet::segments).collect();
            assert_eq!(counts, [1], "{mode:?}: segment {at}");
            assert_eq!(read(&again[0]), (begin, bytes[range].to_vec(), 1), "{mode:?}: {at}");
            let parts = Parts::of_tcp(&again[0]).expect("a segment");
            let has_fin = tcp(&again[0], &parts).expect("a header").has_flags(FIN);
            assert_eq!(has_fin, at == COUNT - 1, "{mode:?}: {at}");
        }
    }
}

/// What has room at the receiver does not wait for the rest.
#[test]
fn as_many_segments_leave_as_have_room() {
    let mut long = Long::new(Settings { mode: Mode::Map, ..Settings::default() });
    let mut bytes = 0;
    for round in 0..20 {
        for packet in long.send(500 + round * (EACH * COUNT) as u32, false) {
            let (seq, payload, count) = read(&packet);
            // A question whether there is room now.
            if payload.is_empty() {
                continue;
            }
            assert_eq!(seq, 500 + bytes as u32);
            assert_eq!(payload.len().div_ceil(EACH), count);
            bytes += payload.len();
        }
    }
    // The window of `segment`.
    assert_eq!(bytes, 0xffff);
}
