//! A stateful firewall: hosts inside may begin, hosts outside may answer; one service is open.

use std::fs;

use super::at;
use super::everyday::{closed, files, flood, path_mtu, pings, questions, requests, route, streams};
use super::lab::{INSIDE, Lab, OUTSIDE, Trial, undergo};
use super::sockets::{ACK, Echo, RST, Raw, SYN, packet, segment, unanswered};
use super::web::{Files, fetch_many, no_way};
use crate::network::Namespace;
use crate::process::{privileged, wait_for};

/// What runs in the middle lets TCP to port 80 of the second host inside in, and answers.
const TRIALS: &[Trial] = &[
    ("pings", pings),
    ("hops are shown", route),
    ("the path's MTU is learnt", path_mtu),
    ("closed ports refuse", closed),
    ("datagrams are answered by whom was asked", plain_questions),
    ("files", |lab| files(lab, INSIDE[0])),
    ("requests", requests),
    ("streams", streams),
    ("nobody outside may begin", locked),
    ("strays stay outside", strays),
    ("the open service", open),
    ("flood", |lab| flood(lab, at(INSIDE[1], 80))),
];

const KERNEL: &str = "
table ip filter {
    chain through {
        type filter hook forward priority filter; policy drop
        ct state invalid drop
        ct state established,related accept
        iifname lan0 accept
        ip daddr 192.168.1.11 tcp dport 80 tcp flags & (fin|syn|rst|ack) == syn accept
    }
}
";

#[test]
fn the_kernel_guards() {
    if !privileged("the_kernel_guards") {
        return;
    }
    let lab = Lab::new();
    lab.route_inside();
    lab.kernel(KERNEL);
    undergo(&lab, TRIALS);
}

fn plain_questions(lab: &Lab) {
    for (asked, address) in questions(lab).iter().zip(INSIDE) {
        asked.iter().for_each(|exchange| assert_eq!(exchange.seen.ip().to_string(), address));
    }
}

fn locked(lab: &Lab) {
    let _web = Files::new().serve(&lab.inside[0], "inside");
    let _echo = Echo::new(&lab.inside[0], 53);
    let (client, server) = (&lab.outside[0], INSIDE[0]);
    no_way(client, &format!("http://{server}/who"));
    no_way(client, &format!("http://{}:81/", INSIDE[1]));
    assert!(unanswered(client, at(server, 53)));
    assert_eq!(client.run(&format!("ping -n -c 2 -i 0.1 -W 0.5 {server}")).code(), 1);
}

/// IPv4 packets that a host got.
fn received(host: &Namespace) -> u64 {
    let text = host.within(|| fs::read_to_string("/proc/thread-self/net/snmp"));
    let text = text.expect("the kernel's counters");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("Ip: ")).collect();
    let column = lines[0].split(' ').position(|name| name == "InReceives");
    let value = lines[1].split(' ').nth(column.expect("a counter of packets"));
    value.and_then(|value| value.parse().ok()).expect("a number")
}

/// Packets that belong to no connection, as they follow when one ended or was invented.
fn strays(lab: &Lab) {
    let sender = Raw::new(&lab.outside[0]);
    let (from, to) = (at(OUTSIDE[0], 80), at(INSIDE[0], 4000));
    let before = received(&lab.inside[0]);
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
        let sum = thruway_wire::checksum::checksum(&error);
        error[2..4].copy_from_slice(&sum.to_be_bytes());
        icmp(&error);
    }
    // An answer to a question that was not asked, and a protocol without ports.
    sender.send(&packet(17, *from.ip(), *to.ip(), &[0, 53, 16, 0, 0, 8, 0, 0]));
    sender.send(&packet(132, *from.ip(), *to.ip(), &[0; 12]));
    // What is let in comes behind all of them.
    let there = received(&lab.inside[1]);
    sender.send(&segment(from, at(INSIDE[1], 80), SYN));
    wait_for("what is let in", || (received(&lab.inside[1]) > there).then_some(()));
    assert_eq!(received(&lab.inside[0]), before);
}

fn open(lab: &Lab) {
    let files = Files::new();
    let web = files.serve(&lab.inside[1], "inside");
    for client in [0, 1] {
        fetch_many(&lab.outside[client], &files, INSIDE[1], 300);
    }
    web.content();
}
