//! Packets that belong to no connection, as they come when one has ended or somebody invents them.

use std::fs;
use std::net::SocketAddrV4;

use thruway_wire::checksum::checksum;

use super::at;
use super::lab::{Lab, OUTSIDE};
use super::sockets::{ACK, RST, Raw, SYN, packet, segment};
use crate::network::Namespace;
use crate::process::wait_for;

/// IPv4 packets that a host got.
fn received(host: &Namespace) -> u64 {
    let text = host.within(|| fs::read_to_string("/proc/thread-self/net/snmp"));
    let text = text.expect("the kernel's counters");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("Ip: ")).collect();
    let column = lines[0].split(' ').position(|name| name == "InReceives");
    let value = lines[1].split(' ').nth(column.expect("a counter of packets"));
    value.and_then(|value| value.parse().ok()).expect("a number")
}

/// Packets from outside to `target` that belong to no connection: none reaches a host inside.
/// What follows them to `open` does, at the second host.
pub fn strays(lab: &Lab, target: &str, open: SocketAddrV4) {
    let sender = Raw::new(&lab.outside[0]);
    let (from, to) = (at(OUTSIDE[0], 80), at(target, 4000));
    let before: Vec<u64> = lab.inside.iter().map(received).collect();
    for flags in [SYN, ACK, SYN | ACK, RST, RST | ACK, 0, SYN | RST | 1] {
        (0..10).for_each(|_| sender.send(&segment(from, to, flags)));
    }
    let icmp = |payload: &[u8]| sender.send(&packet(1, *from.ip(), *to.ip(), payload));
    // An echo's reply and its request (their checksums are right), and "port unreachable" and
    // "fragmentation needed" about something that nobody sent.
    icmp(&[0, 0, 0xFF, 0xFD, 0, 1, 0, 1]);
    icmp(&[8, 0, 0xF7, 0xFD, 0, 1, 0, 1]);
    for code in [3, 4] {
        let mut error = vec![3, code, 0, 0, 0, 0, 2, 0];
        error.extend(segment(to, from, ACK));
        let sum = checksum(&error);
        error[2..4].copy_from_slice(&sum.to_be_bytes());
        icmp(&error);
    }
    // An answer to a question that was not asked, and a protocol without ports.
    sender.send(&packet(17, *from.ip(), *to.ip(), &[0, 53, 16, 0, 0, 8, 0, 0]));
    sender.send(&packet(132, *from.ip(), *to.ip(), &[0; 12]));
    sender.send(&segment(from, open, SYN));
    wait_for("what is let in", || (received(&lab.inside[1]) > before[1]).then_some(()));
    let after: Vec<u64> = lab.inside.iter().map(received).collect();
    // The kernel of the second host may have been told that its answer was not welcome.
    assert!(after[0] == before[0] && after[2] == before[2], "{before:?} {after:?}");
    assert!(after[1] <= before[1] + 2, "{before:?} {after:?}");
}
