use proptest::prelude::*;
use thruway_packet::Packet;
use thruway_wire::tcp::TcpHeader;
use thruway_wire::tcp::flags::{ACK, RST, SYN};
use zerocopy::FromBytes;

use super::*;
use crate::tcp::{Arrival, Settings};
use crate::testing::segment;

/// Numbers that the ends expect: of the client's data, and of the server's.
const EXPECTED: [u32; 2] = [5_001, 9_001];
const FCBS: [u32; 2] = [11, 12];
/// Annotations by which routers behind find the way.
const DESTINATIONS: [[u8; 4]; 2] = [[10, 0, 0, 2], [10, 0, 0, 1]];

fn settings() -> Settings {
    Settings { mode: Mode::Map, pick_up: false, ..Settings::default() }
}

/// A packet goes through; what leaves.
fn arrives(tcp: &mut Tcp, conn: u32, direction: usize, mut packet: Packet) -> Vec<(usize, Packet)> {
    packet.set_fcb(FCBS[direction]);
    packet.set_dst_ip(DESTINATIONS[direction]);
    let mut out = Out::default();
    tcp.arrive(Arrival { conn, direction, port: direction, now: 0 }, packet, &mut out);
    for (port, packet) in std::mem::take(&mut out.packets) {
        tcp.depart(port, packet, 0, &mut out);
    }
    out.packets
}

/// A connection after its handshake.
fn connected() -> (Tcp, u32) {
    let mut tcp = Tcp::new(settings());
    let conn = tcp.open().expect("room");
    let [client, server] = EXPECTED.map(|expected| expected - 1);
    arrives(&mut tcp, conn, 0, segment(client, 0, SYN, b""));
    arrives(&mut tcp, conn, 1, segment(server, client + 1, SYN | ACK, b""));
    arrives(&mut tcp, conn, 0, segment(client + 1, server + 1, ACK, b""));
    (tcp, conn)
}

fn image(tcp: &mut Tcp, conn: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(tcp.export(conn, None, &mut bytes));
    bytes
}

/// Port, flags, number and acknowledgement of a packet.
fn fields((port, packet): &(usize, Packet)) -> (usize, u8, u32, u32) {
    let (header, _) = TcpHeader::ref_from_prefix(packet.transport()).expect("a header");
    (*port, header.flags(), header.seq(), header.ack())
}

/// Ticks until nothing is due before `until`; what leaves.
fn ticks(tcp: &mut Tcp, until: i64) -> Vec<(usize, u8, u32, u32)> {
    let mut out = Out::default();
    while let Some(due) = tcp.due().filter(|due| *due <= until) {
        tcp.tick(due, &mut out);
    }
    for (port, packet) in &out.packets {
        assert_eq!(packet.fcb(), FCBS[*port]);
    }
    out.packets.iter().map(fields).collect()
}

#[test]
fn a_connection_of_another_host_is_reset_at_both_ends() {
    let (mut tcp, conn) = connected();
    let mut backup = Tcp::new(settings());
    let there = backup.import(None, &image(&mut tcp, conn), FCBS, 2).expect("an image");
    assert_eq!(backup.due(), None, "nothing happens before it serves");
    backup.serve(0);
    let sent = ticks(&mut backup, STEP_NS);
    assert_eq!(backup.counts.unreplicated, 1);
    let [client, server] = EXPECTED;
    // Each end gets the number that it expects, and two questions of which one is always old.
    let reset = |to: usize| sent.iter().find(|(port, flags, ..)| *port == to && flags & RST != 0);
    assert_eq!(reset(0), Some(&(0, RST | ACK, client, server)));
    assert_eq!(reset(1), Some(&(1, RST | ACK, server, client)));
    let asked: Vec<_> =
        sent.iter().filter(|(port, flags, ..)| (*port, *flags) == (0, ACK)).collect();
    assert_eq!(asked[0].2, client - 1);
    assert_eq!(asked[1].2, (client - 1).wrapping_add(1 << 31));

    // An end that expects another number says so, and gets a RST with that.
    let answer = segment(server + 700, client + 900, ACK, b"");
    let answered = arrives(&mut backup, there, 1, answer);
    assert_eq!(
        answered.iter().map(fields).map(|it| (it.1, it.2)).collect::<Vec<_>>(),
        [(RST, client + 900)]
    );
    // The other one is asked again, this one is not, and then nobody.
    let again = ticks(&mut backup, i64::MAX / 2);
    assert!(!again.is_empty() && again.iter().all(|(port, ..)| *port == 1), "{again:?}");
    assert_eq!(backup.due(), None);
}

#[test]
fn a_packet_that_comes_sooner_is_answered_and_data_is_not_forwarded() {
    let (mut tcp, conn) = connected();
    let mut backup = Tcp::new(settings());
    let there = backup.import(None, &image(&mut tcp, conn), FCBS, 2).expect("an image");
    let data = segment(EXPECTED[0] + 50, EXPECTED[1], ACK, b"attack");
    let sent = arrives(&mut backup, there, 0, data);
    assert!(sent.iter().all(|(_, packet)| packet.transport().len() < 60), "no payload");
    for (port, packet) in &sent {
        assert_eq!(packet.dst_ip(), DESTINATIONS[*port]);
    }
    let exact = sent.iter().map(fields).any(|it| (it.1, it.2) == (RST, EXPECTED[1]));
    assert!(exact, "{:?}", sent.iter().map(fields).collect::<Vec<_>>());
    // A new connection of the same ports begins.
    let syn = arrives(&mut backup, there, 0, segment(70_000, 0, SYN, b""));
    assert_eq!(syn.iter().map(fields).map(|it| it.1).collect::<Vec<_>>(), [SYN]);
}

#[test]
fn a_host_that_retires_keeps_what_it_takes_to_reset() {
    let (mut tcp, conn) = connected();
    arrives(&mut tcp, conn, 0, segment(EXPECTED[0], EXPECTED[1], ACK, b"hello"));
    assert!(tcp.holding() > 0);
    let mut out = Out::default();
    tcp.stand_by(0, &mut out);
    assert_eq!((tcp.holding(), tcp.memory_bytes()), (0, 0));
    assert!(ticks(&mut tcp, i64::MAX / 2).is_empty());
    tcp.serve(0);
    let sent = ticks(&mut tcp, STEP_NS);
    assert!(sent.contains(&(0, RST | ACK, EXPECTED[0] + 5, EXPECTED[1])), "{sent:?}");
}

#[test]
fn what_is_read_is_written_alike() {
    let (mut tcp, conn) = connected();
    let bytes = image(&mut tcp, conn);
    let mut backup = Tcp::new(settings());
    let there = backup.import(None, &bytes, FCBS, 2).expect("an image");
    assert_eq!(image(&mut backup, there), bytes);
    let news = backup.import(Some(there), &bytes, FCBS, 2);
    assert_eq!((news, backup.len()), (Ok(there), 1));
    let mut follow = Tcp::new(Settings { mode: Mode::Follow, ..settings() });
    assert!(follow.import(None, &bytes, FCBS, 2).is_err());
}

proptest! {
    /// Whatever another host writes: no panic, and packets of ours are made or not.
    #[test]
    fn any_bytes_are_read(
        cut in 0usize..200,
        changes in prop::collection::vec((0usize..200, any::<u8>()), 0..6),
    ) {
        let (mut tcp, conn) = connected();
        let mut bytes = image(&mut tcp, conn);
        for (at, to) in changes {
            let at = at % bytes.len();
            bytes[at] = to;
        }
        bytes.truncate(bytes.len().saturating_sub(cut % 8));
        let mut backup = Tcp::new(settings());
        if let Ok(there) = backup.import(None, &bytes, FCBS, 2) {
            prop_assert_eq!(image(&mut backup, there), bytes);
            backup.serve(0);
            ticks(&mut backup, i64::MAX / 2);
        } else {
            prop_assert_eq!(backup.len(), 0);
        }
    }
}
