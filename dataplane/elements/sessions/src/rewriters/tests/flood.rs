//! A flood of unanswered flows takes all values, or all room: established flows stay, and new ones
//! get through.

use thruway_wire::tcp::flags::{ACK, SYN};

use super::*;

/// Four ports, hours until a mapping times out.
const PORTS: &str = "pattern 9.0.0.1 2000-2003 - - 0 1";
const LONG: [&str; 2] = ["TCP_NODATA_TIMEOUT 10h", "UDP_TIMEOUT 10h"];

fn tuple(src: u32, src_port: u16, protocol: u8) -> Tuple {
    FiveTuple { src, dst: 2, src_port, dst_port: 80, protocol }
}

/// A packet from inside; the port that it leaves with.
fn send(rig: &mut Rig, tuple: Tuple, flags: u8, numbers: (u32, u32)) -> Option<u16> {
    let bytes = Plain { numbers, payload: Vec::new(), ..Plain::of(tuple, flags) }.written();
    let (_, sent) = push(rig, 0, &bytes)?;
    Some(u16::from_be_bytes([sent[20], sent[21]]))
}

/// Sends a packet back to an outside port; returns whether an inside host gets it.
fn answer(rig: &mut Rig, port: u16, flags: u8, protocol: u8, numbers: (u32, u32)) -> bool {
    let tuple = FiveTuple { src: 2, dst: OUTSIDE, src_port: 80, dst_port: port, protocol };
    push(rig, 1, &Plain { numbers, payload: Vec::new(), ..Plain::of(tuple, flags) }.written())
        .is_some()
}

/// Opens a connection; the port that it has outside.
fn establish(rig: &mut Rig, src: u32) -> Option<u16> {
    let tuple = tuple(src, 5000, 6);
    let port = send(rig, tuple, SYN, (9, 0))?;
    assert!(answer(rig, port, SYN | ACK, 6, (70, 10)));
    send(rig, tuple, ACK, (10, 71)).filter(|now| *now == port)
}

#[test]
fn a_flood_of_syns_keeps_none_out_and_ends_no_connection() {
    for entry in [&ip_rewriter::ENTRY, &tcp_rewriter::ENTRY] {
        let mut rig = rig(entry, &[PORTS, "drop", LONG[0]]);
        let first = establish(&mut rig, 100).unwrap();
        let second = establish(&mut rig, 101).unwrap();
        for number in 0..3000 {
            assert!(send(&mut rig, tuple(66, 3000 + number, 6), SYN, (1, 0)).is_some());
        }
        let third = establish(&mut rig, 102).expect("a flood keeps no flow out");
        for port in [first, second, third] {
            assert!(answer(&mut rig, port, ACK, 6, (71, 10)), "{port}");
        }
        let fourth = establish(&mut rig, 103).unwrap();
        // Now all are established, and none is evictable.
        assert_eq!(establish(&mut rig, 104), None);
        assert_eq!(rig.read("mapping_failures", "").unwrap(), "1");
        assert!(answer(&mut rig, fourth, ACK, 6, (71, 10)));
    }
}

#[test]
fn answered_udp_stays() {
    for entry in [&ip_rewriter::ENTRY, &udp_rewriter::ENTRY] {
        let mut rig = rig(entry, &[PORTS, "drop", LONG[1]]);
        let honest = [100, 101].map(|src| {
            let port = send(&mut rig, tuple(src, 5000, 17), 0, (0, 0)).unwrap();
            assert!(answer(&mut rig, port, 0, 17, (0, 0)));
            port
        });
        for number in 0..3000 {
            assert!(send(&mut rig, tuple(66, 3000 + number, 17), 0, (0, 0)).is_some());
        }
        assert!(honest.iter().all(|port| answer(&mut rig, *port, 0, 17, (0, 0))));
    }
}

#[test]
fn a_full_table_makes_room_unless_a_guarantee_was_asked_for() {
    let keep = "keep 0 1";
    for (guarantee, fits) in [("TCP_NODATA_TIMEOUT 10h", true), ("GUARANTEE 5", false)] {
        let mut rig = rig(&ip_rewriter::ENTRY, &[keep, "drop", "MAPPING_CAPACITY 4", guarantee]);
        for number in 0..4 {
            assert!(send(&mut rig, tuple(66, 3000 + number, 6), SYN, (1, 0)).is_some());
        }
        let sent = send(&mut rig, tuple(100, 5000, 6), SYN, (9, 0));
        assert_eq!(sent.is_some(), fits, "{guarantee}");
        assert_eq!(rig.read("size", "").unwrap(), "4");
    }
}
