//! A stateful firewall: hosts inside may begin, hosts outside may answer; one service is open.

use super::at;
use super::everyday::{
    closed, files, flood, long_questions, path_mtu, pings, questions, requests, route, streams,
    uplink_mtu,
};
use super::lab::{INSIDE, Lab, Trial};
use super::sockets::{Echo, unanswered};
use super::strays::strays;
use crate::process::privileged;
use crate::trials::undergo;
use crate::web::{Files, expect_unreachable, fetch_many};

/// What runs in the middle lets TCP to port 80 of the second host inside in, and answers.
const TRIALS: &[Trial] = &[
    ("pings", pings),
    ("hops are shown", route),
    ("the path's MTU is learnt", path_mtu),
    ("the uplink's MTU is learnt", uplink_mtu),
    ("closed ports refuse", closed),
    ("datagrams are answered by whom was asked", plain_questions),
    ("long datagrams", long_questions),
    ("files", |lab| files(lab, INSIDE[0])),
    ("requests", requests),
    ("streams", streams),
    ("nobody outside may begin", locked),
    ("strays stay outside", |lab| strays(lab, INSIDE[0], at(INSIDE[1], 80))),
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

#[test]
fn thruway_guards() {
    if !privileged("thruway_guards") {
        return;
    }
    let mut lab = Lab::new();
    lab.route_inside();
    lab.example(&["run"], "firewall.click", &[]);
    undergo(&lab, TRIALS);
    lab.stop().expect(0).prints(&["firewall", "not-syn", "no-match"]);
}

#[test]
fn two_threads_guard() {
    if !privileged("two_threads_guard") {
        return;
    }
    // The threads have a queue of each interface, or a socket on each.
    for mut lab in [Lab::with_queues(2).for_af_xdp(), Lab::new().for_packet_sockets()] {
        lab.route_inside();
        lab.example(&["run", "-j", "2"], "firewall.click", &[]);
        undergo(&lab, TRIALS);
        let told = lab.stop().expect(0).prints(&["firewall", "not-syn", "no-match"]);
        told.says(&["2 threads"]);
    }
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
    expect_unreachable(client, &format!("http://{server}/who"));
    expect_unreachable(client, &format!("http://{}:81/", INSIDE[1]));
    assert!(unanswered(client, at(server, 53)));
    assert_eq!(client.run(&format!("ping -n -c 2 -i 0.1 -W 0.5 {server}")).code(), 1);
}

fn open(lab: &Lab) {
    let files = Files::new();
    let web = files.serve(&lab.inside[1], "inside");
    for client in [0, 1] {
        fetch_many(&lab.outside[client], &files, INSIDE[1], 300);
    }
    web.content();
}
