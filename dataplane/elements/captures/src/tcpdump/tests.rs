//! Lines, and what becomes of them.

use thruway_element::Names;
use thruway_packet::Packet;

use super::super::text_dump::{Dialect, Line};
use super::Tcpdump;
use proptest::prelude::*;

fn packets(lines: &[&str]) -> Vec<Packet> {
    let mut dump = Tcpdump::new(Names::default(), true);
    let read = |line: &&str| match dump.read(line) {
        Line::Packet(packet, 0) => Some(packet.expect("memory")),
        Line::Nothing => None,
        _ => panic!("'{line}' is not read"),
    };
    lines.iter().filter_map(read).collect()
}

fn word(packet: &Packet, at: usize) -> u16 {
    u16::from_be_bytes([packet.data()[at], packet.data()[at + 1]])
}

#[test]
fn the_old_form_and_the_new_give_the_same_packet() {
    let old = "1.5 10.0.0.1.1000 > 10.0.0.2.80: P 7:10(3) ack 1 win 5 (DF) [tos 0x10]  \
               (ttl 64, id 9, len 43)";
    let one = "1.5 IP (tos 0x10, ttl 64, id 9, offset 0, flags [DF], proto TCP (6), length 43) \
               10.0.0.1.1000 > 10.0.0.2.80: Flags [P.], seq 7:10, ack 1, win 5, length 3";
    let two = [
        "1.5 eth0  In  IP (tos 0x10, ttl 64, id 9, offset 0, flags [DF], proto TCP (6), length 43)",
        "    10.0.0.1.1000 > 10.0.0.2.80: Flags [P.], seq 7:10, ack 1, win 5, length 3",
        "\t0x0000:  4510 002b",
    ];
    let [old, one] = [packets(&[old]), packets(&[one])];
    let two = packets(&[
        "1.5 IP (tos 0x10, ttl 64, id 9, offset 0, flags [DF], proto TCP (6), length 43)",
        two[1],
        two[2],
    ]);
    assert_eq!((old.len(), one.len(), two.len()), (1, 1, 1));
    assert_eq!(old[0].data(), one[0].data());
    assert_eq!(old[0].data(), two[0].data());
    assert_eq!(old[0].timestamp(), 1_500_000_000);
    let packet = &old[0];
    assert_eq!(
        (packet.len(), word(packet, 2), word(packet, 4), word(packet, 6)),
        (43, 43, 9, 0x4000)
    );
    assert_eq!((packet.data()[1], packet.data()[8], packet.data()[33]), (0x10, 64, 0x18));
}

#[test]
fn udp_icmp_and_fragments() {
    let made = packets(&[
        "1.0 1.0.0.1.5 > 2.0.0.2.6:  udp 20 [ttl 1]",
        "1.0 IP 1.0.0.1.5 > 2.0.0.2.53: 7+ A? www.example. (29)",
        "1.0 eth0  Out IP 1.0.0.1 > 2.0.0.2: ICMP echo request, id 3, seq 4, length 64",
        "1.0 1.0.0.1.5 > 2.0.0.2.6:  udp 20 (frag 77:28@8+)",
    ]);
    let lengths: Vec<usize> = made.iter().map(Packet::len).collect();
    assert_eq!(lengths[..3], [48, 57, 84]);
    assert_eq!((made[0].data()[8], made[0].data()[9]), (1, 17));
    assert_eq!((made[2].data()[20], word(&made[2], 24), word(&made[2], 26)), (8, 3, 4));
    assert_eq!((word(&made[3], 4), word(&made[3], 6)), (77, 0x2001));
}

#[test]
fn what_is_no_packet_is_said() {
    let mut dump = Tcpdump::new(Names::default(), false);
    for line in [
        "hello",
        "1.0 arp who-has 1.2.3.4 tell 5.6.7.8",
        "1.0 IP6 ::1.5 > ::1.6: Flags [S], seq 1, win 5, length 0",
        "1.0 host.example.80 > 1.2.3.4.5: S 1:1(0) win 1",
        "1.0 1.2.3.4 > 1.2.3.5: gre",
        "1.0 1.2.3.4.nosuchname > 1.2.3.5.6: udp 5",
        "1.0 IP (tos 0x0",
    ] {
        assert!(matches!(dump.read(line), Line::Malformed(_)), "{line}");
    }
}

proptest! {
    /// Whatever a file has in it, it is read to its end.
    #[test]
    fn nothing_panics(lines in proptest::collection::vec(
        prop_oneof![
            any::<String>(),
            "[0-9:.]{0,12} (IP )?[(]?[0-9.]{0,20} > [0-9.]{0,20}: [SFP.]{0,3} \
             [0-9:()<>{}\\[\\], a-z]{0,40}",
            "1.0 1.2.3.4.5 > 5.6.7.8.9: [SFPRW.]{1,3} [0-9]{1,10}:[0-9]{1,10}[(][0-9]{1,10}[)] \
             ack [0-9]{1,10} win [0-9]{1,6} <(mss [0-9]{1,6}|sack 1 [{]1:2[}]|nop|,){0,9}> \
             [(]len [0-9]{1,8}[)]",
        ],
        0..6,
    )) {
        let mut dump = Tcpdump::new(Names::default(), false);
        for line in &lines {
            let _ = dump.read(line);
        }
    }
}
