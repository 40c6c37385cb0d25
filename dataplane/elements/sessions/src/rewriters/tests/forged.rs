//! Forged segments and the timeouts of mappings.

use thruway_wire::tcp::flags::{ACK, FIN, RST, SYN};

use super::*;

/// Seconds until the only mapping is forgotten.
fn left(rig: &mut Rig) -> i64 {
    let table = rig.read("tcp_table", "").unwrap();
    let (_, left) = table.trim().rsplit_once("exp").unwrap_or_else(|| panic!("{table:?}"));
    left.parse().unwrap()
}

/// What an end sends; its SYN has number 0.
fn sent(is_reply: bool, flags: u8, numbers: (u32, u32), len: usize) -> Vec<u8> {
    let tuple = FiveTuple { src: 1, dst: 2, src_port: 3, dst_port: 4, protocol: 6 };
    let reply = FiveTuple { src: 2, dst: OUTSIDE, src_port: 4, dst_port: 9, protocol: 6 };
    let tuple = if is_reply { reply } else { tuple };
    Plain { numbers, payload: vec![7; len], ..Plain::of(tuple, flags) }.written()
}

const TEXTS: [&str; 5] = [
    "pattern 9.0.0.1 9 - - 0 1",
    "drop",
    "TCP_TIMEOUT 1000",
    "TCP_DONE_TIMEOUT 10",
    "TCP_NODATA_TIMEOUT 500",
];

fn follow(rigs: &mut [Rig; 2], [forward, reply]: [usize; 2]) {
    let steps = [
        (false, SYN, (0, 0), 0),
        (true, SYN | ACK, (0, 1), 0),
        (false, ACK, (1, 1), 100),
        (true, ACK, (1, 101), 200),
        (false, ACK, (101, 201), 0),
    ];
    for (is_reply, flags, numbers, len) in steps {
        let at = if is_reply { reply } else { forward };
        push(&mut rigs[at], usize::from(is_reply), &sent(is_reply, flags, numbers, len)).unwrap();
    }
    for (is_reply, next) in [(false, (101, 201)), (true, (201, 101))] {
        let at = if is_reply { reply } else { forward };
        let mut damaged = sent(is_reply, RST, next, 0);
        damaged[36] ^= 1;
        push(&mut rigs[at], usize::from(is_reply), &damaged).unwrap();
        for flags in [RST, RST | ACK, FIN | ACK] {
            for by in [1u32 << 20, 1 << 31, u32::MAX - (1 << 20)] {
                let numbers = (u32::wrapping_add(next.0, by), by);
                let forged = sent(is_reply, flags, numbers, 0);
                push(&mut rigs[at], usize::from(is_reply), &forged).unwrap();
                assert_eq!(left(&mut rigs[at]), 1000, "{flags} {by}");
            }
        }
    }
    // The server gives up.
    push(&mut rigs[reply], 1, &sent(true, RST, (201, 0), 0)).unwrap();
    assert_eq!(left(&mut rigs[reply]), 10);
    assert_eq!(left(&mut rigs[forward]), 10);
    // Another connection by the same ports, with other numbers.
    push(&mut rigs[forward], 0, &sent(false, SYN, (77, 0), 0)).unwrap();
    push(&mut rigs[reply], 1, &sent(true, SYN | ACK, (99, 78), 0)).unwrap();
    push(&mut rigs[forward], 0, &sent(false, ACK, (78, 100), 0)).unwrap();
    assert_eq!(left(&mut rigs[forward]), 1000);
    push(&mut rigs[forward], 0, &sent(false, FIN | ACK, (78, 100), 0)).unwrap();
    push(&mut rigs[reply], 1, &sent(true, FIN | ACK, (100, 79), 0)).unwrap();
    assert_eq!(left(&mut rigs[forward]), 10);
}

#[test]
fn mappings_end_by_their_own_ends_alone() {
    for entry in [&ip_rewriter::ENTRY, &tcp_rewriter::ENTRY] {
        let mut one = [rig(entry, &TEXTS), rig(entry, &TEXTS)];
        follow(&mut one, [0, 0]);
        follow(&mut two_threads(entry, &TEXTS), [0, 1]);
    }
}
