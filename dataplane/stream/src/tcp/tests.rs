//! Connections that are only looked at, and those that go on unseen.

mod crowd;
mod long;
mod small;

use thruway_packet::Packet;
use thruway_wire::tcp::flags::{ACK, FIN, RST, SYN};

use super::{Arrival, AtBound, DropReason, Mode, Out, Settings, Tcp};
use crate::content::{Content, HasContent, Layer, flag};
use crate::testing::segment;

/// A packet of a connection goes through the engine, and through functions in between; what leaves
/// in all, by its port. Direction and port are the same.
fn through(
    (tcp, out): (&mut Tcp, &mut Out),
    (conn, direction, now): (u32, usize, i64),
    mut packet: Packet,
    functions: impl Fn(&mut Packet),
) -> Vec<(usize, Packet)> {
    packet.set_fcb(conn * 2 + direction as u32 + 1);
    tcp.arrive(Arrival { conn, direction, port: direction, now }, packet, out);
    for (port, mut packet) in std::mem::take(&mut out.packets) {
        functions(&mut packet);
        tcp.depart(port, packet, now, out);
    }
    std::mem::take(&mut out.packets)
}

/// An engine with one connection; direction and port are the same.
struct Fixture {
    tcp: Tcp,
    conn: u32,
}

impl Fixture {
    fn new(settings: Settings) -> Fixture {
        let mut tcp = Tcp::new(settings);
        let conn = tcp.open().expect("room for one");
        Fixture { tcp, conn }
    }

    /// What goes on of a packet that arrives.
    #[track_caller]
    fn arrives(&mut self, direction: usize, mut packet: Packet) -> Packet {
        packet.set_fcb(direction as u32 + 1);
        let at = Arrival { conn: self.conn, direction, port: direction, now: 0 };
        let mut out = Out::default();
        self.tcp.arrive(at, packet, &mut out);
        only(out, direction)
    }

    /// What goes on of a packet that departs.
    #[track_caller]
    fn departs(&mut self, direction: usize, packet: Packet) -> Packet {
        let mut out = Out::default();
        self.tcp.depart(direction, packet, 0, &mut out);
        only(out, direction)
    }
}

/// The only packet, which leaves by this port.
#[track_caller]
fn only(mut out: Out, port: usize) -> Packet {
    assert_eq!((out.packets.len(), out.drops), (1, Out::default().drops));
    let (by, packet) = out.packets.pop().expect("one");
    assert_eq!(by, port);
    packet
}

fn shown(packet: &Packet) -> Option<&[u8]> {
    (packet.content_mark().layer() == Layer::Tcp).then(|| packet.content())
}

/// A connection that may keep one segment of each direction, has one of direction 0 and one of
/// direction 1 within the context, and passes with the next one.
fn at_bound() -> (Fixture, Packet) {
    let settings = Settings { mode: Mode::Guard, buffer: 1, ..Settings::default() };
    let mut fixture = Fixture::new(Settings { at_bound: AtBound::Pass, ..settings });
    fixture.arrives(0, segment(99, 0, SYN, b""));
    fixture.arrives(1, segment(499, 100, SYN | ACK, b""));
    fixture.arrives(0, segment(100, 500, ACK, b""));
    let first = fixture.arrives(0, segment(100, 500, ACK, b"first"));
    assert_eq!(shown(&first), Some(&b"first"[..]));
    fixture.departs(0, first);
    let inside = fixture.arrives(1, segment(500, 100, ACK, b"answer"));
    assert_eq!(shown(&inside), Some(&b"answer"[..]));
    let unseen = fixture.arrives(0, segment(105, 500, ACK, b"second"));
    assert_eq!(unseen.content_mark(), Content::NONE);
    assert_eq!(fixture.tcp.counts.passed, 1);
    (fixture, inside)
}

#[test]
fn a_connection_passed_at_the_bound_is_not_inspected_any_more() {
    let (mut fixture, inside) = at_bound();
    // What was shown before leaves as it is; the bytes of both directions go on unseen.
    let left = fixture.departs(1, inside);
    assert_eq!(left.data(), segment(500, 100, ACK, b"answer").data());
    assert_eq!(fixture.tcp.holding(), 0);
    let later = [
        (0, segment(111, 506, ACK, b"third")),
        (1, segment(506, 111, ACK, b"more")),
        (0, segment(105, 500, ACK, b"again!")),
        (0, segment(7777, 506, ACK, b"far ahead")),
        (0, segment(116, 506, ACK, b"")),
        (0, segment(0, 0, SYN, b"")),
        (1, segment(510, 111, ACK | FIN, b"")),
        (1, segment(3, 0, RST, b"")),
        (0, segment(120, 510, ACK, b"behind")),
    ];
    for (direction, packet) in later {
        let bytes = packet.data().to_vec();
        let went = fixture.arrives(direction, packet);
        assert_eq!((went.data(), went.content_mark()), (&bytes[..], Content::NONE));
        let left = fixture.departs(direction, went);
        assert_eq!(left.data(), bytes);
    }
    assert_eq!((fixture.tcp.counts.passed, fixture.tcp.counts.closed), (1, 0));
    assert_eq!(fixture.tcp.holding(), 0);
}

#[test]
fn what_was_changed_before_has_its_checksum() {
    let (mut fixture, mut inside) = at_bound();
    inside.content_mut().copy_from_slice(b"ANSWER");
    let left = fixture.departs(1, inside);
    assert_eq!(left.data(), segment(500, 100, ACK, b"ANSWER").data());
}

#[test]
fn a_function_may_still_close_a_passed_connection() {
    let (mut fixture, mut inside) = at_bound();
    let mut mark = inside.content_mark();
    mark.flags |= flag::CLOSE;
    inside.set_content_mark(mark);
    fixture.tcp.depart(1, inside, 0, &mut Out::default());
    assert_eq!(fixture.tcp.counts.closed, 1);
}

/// Connections of a time without demand for more (their engine was taken over).
#[test]
fn inspection_without_guard_sees_the_end() {
    let mut fixture = Fixture::new(Settings { mode: Mode::Follow, ..Settings::default() });
    for direction in [0, 1] {
        let seen = fixture.arrives(direction, segment(5, 5, ACK, b"bytes"));
        assert_eq!((shown(&seen), seen.content_mark().flags), (Some(&b"bytes"[..]), 0));
        let last = fixture.arrives(direction, segment(10, 5, ACK | FIN, b"end"));
        assert_eq!((shown(&last), last.content_mark().flags), (Some(&b"end"[..]), flag::LAST));
    }
}

/// No receiver takes a packet with a wrong IP header checksum: functions would see its bytes, and
/// it would be sent again for ever.
#[test]
fn a_segment_in_a_broken_ip_header_is_not_shown() {
    for (verify, dropped) in [(true, 1), (false, 0)] {
        let mut fixture =
            Fixture::new(Settings { mode: Mode::Guard, verify, ..Settings::default() });
        fixture.arrives(0, segment(99, 0, SYN, b""));
        fixture.arrives(1, segment(499, 100, SYN | ACK, b""));
        fixture.arrives(0, segment(100, 500, ACK, b""));
        let mut packet = segment(100, 500, ACK, b"bytes");
        // The time to live, of which TCP's checksum knows nothing.
        packet.data_mut()[22] ^= 1;
        packet.set_fcb(1);
        let mut out = Out::default();
        let at = Arrival { conn: fixture.conn, direction: 0, port: 0, now: 0 };
        fixture.tcp.arrive(at, packet, &mut out);
        let broken = out.drops[DropReason::BadChecksum as usize];
        assert_eq!((broken, out.packets.len()), (dropped, 1 - dropped as usize), "{verify}");
    }
}
