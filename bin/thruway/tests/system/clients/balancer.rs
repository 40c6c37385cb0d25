//! A load balancer: clients outside use one address, behind which three servers stand.

use std::collections::{BTreeMap, BTreeSet};

use super::at;
use super::everyday::{flood, learnt, talk_beside};
use super::lab::{INSIDE, Lab, NARROW, OUTSIDE, PUBLIC, Trial};
use super::sockets::{Echo, Talk, ask, refused};
use crate::control::Client;
use crate::process::{privileged, wait_for};
use crate::trials::undergo;
use crate::web::{Files, Web, fetch_many, get, load};

/// What runs in the middle shares TCP ports 7 and 80 and UDP ports 9 and 53 of [`PUBLIC`] among
/// the hosts inside, whose own addresses pass, too.
const TRIALS: &[Trial] = &[
    ("connections are shared", shared),
    ("a connection stays where it is", one_server),
    ("files", files),
    ("requests", requests),
    ("datagrams are answered by whom was asked", questions),
    ("closed ports refuse", closed),
    ("the path's MTU is learnt", path_mtu),
    ("flood", |lab| flood(lab, at(PUBLIC, 80))),
];

const KERNEL: &str = "
table ip nat {
    chain incoming {
        type nat hook prerouting priority dstnat
        ip daddr 203.0.113.2 tcp dport { 7, 80 } dnat to numgen inc mod 3 map \\
            { 0: 192.168.1.10, 1: 192.168.1.11, 2: 192.168.1.12 }
        ip daddr 203.0.113.2 udp dport { 9, 53 } dnat to numgen inc mod 3 map \\
            { 0: 192.168.1.10, 1: 192.168.1.11, 2: 192.168.1.12 }
    }
}
";

#[test]
fn the_kernel_balances() {
    if !privileged("the_kernel_balances") {
        return;
    }
    let lab = Lab::new();
    lab.route_inside();
    lab.kernel(KERNEL);
    undergo(&lab, TRIALS);
}

/// The services of the trials.
const SERVICES: &str =
    "SERVICES=203.0.113.2:7/tcp 203.0.113.2:80/tcp 203.0.113.2:9/udp 203.0.113.2:53/udp";

#[test]
fn thruway_balances() {
    if !privileged("thruway_balances") {
        return;
    }
    let mut lab = Lab::new();
    lab.route_inside();
    lab.example(&["run"], "balancer.click", &[SERVICES]);
    undergo(&lab, TRIALS);
    lab.stop().expect(0).prints(&["balancer"]);
}

#[test]
fn thruway_balances_by_af_xdp() {
    if !privileged("thruway_balances_by_af_xdp") {
        return;
    }
    let mut lab = Lab::new().for_af_xdp();
    lab.route_inside();
    lab.example(&["run"], "balancer.click", &[SERVICES]);
    undergo(&lab, TRIALS);
    lab.stop().expect(0).prints(&["balancer"]);
}

#[test]
fn servers_come_and_go() {
    if !privileged("servers_come_and_go") {
        return;
    }
    let mut lab = Lab::new();
    lab.route_inside();
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let options = ["click", "-u", socket.to_str().expect("plain text")];
    lab.example(&options, "balancer.click", &[SERVICES]);
    let mut control = Client::unix(&socket);
    let _webs = serve(&lab, &Files::new());
    let _echoes: Vec<_> = lab.inside.iter().map(|host| Echo::new(host, 7)).collect();
    let mut talks: Vec<_> = (0..6).map(|_| Talk::new(&lab.outside[0], at(PUBLIC, 7))).collect();
    let url = format!("http://{PUBLIC}/6");
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&lab.outside[1], &url, true));
        for (handler, server, serving) in [
            ("drain", INSIDE[0], &[1, 2][..]),
            ("resume", INSIDE[0], &[0, 1, 2]),
            ("remove", INSIDE[1], &[0, 2]),
            ("add", INSIDE[1], &[0, 1, 2]),
        ] {
            let (code, answer) = control.ask(&format!("WRITE balancer.{handler} {server}"));
            assert_eq!(code, 200, "{handler}: {answer}");
            assert_served_by(&lab, serving);
            talks.iter_mut().for_each(Talk::echo);
        }
        loading.join().expect("no request fails");
    });
    assert_eq!(control.read("balancer.counts").lines().count(), 3);
    lab.stop().expect(0);
}

/// Asserts that new connections go to these servers: to all of them, if not at once (others
/// take their turns, too), and to no other.
fn assert_served_by(lab: &Lab, serving: &[usize]) {
    let urls = vec![format!("http://{PUBLIC}/who"); 12].join(" -w \\n ");
    let mut seen = BTreeSet::new();
    wait_for("every server's turn", || {
        let answers = get(&lab.outside[0], &format!("-H Connection:close -w \\n {urls}"));
        seen.extend(servers(&answers, OUTSIDE[0]));
        assert!(seen.iter().all(|server| serving.contains(server)), "{seen:?} of {serving:?}");
        (seen.len() == serving.len()).then_some(())
    });
}

/// The servers, named by their number.
fn serve(lab: &Lab, files: &Files) -> Vec<Web> {
    let numbered = lab.inside.iter().enumerate();
    numbered.map(|(number, host)| files.serve(host, &number.to_string())).collect()
}

/// Who answers each of these requests.
fn servers(answers: &str, client: &str) -> Vec<usize> {
    let answers: Vec<&str> = answers.split_whitespace().collect();
    let answer = |pair: &[&str]| {
        assert_eq!(pair[0], client, "the server sees its client");
        pair[1].parse().expect("a server's number")
    };
    answers.chunks(2).map(answer).collect()
}

fn shared(lab: &Lab) {
    let _webs = serve(lab, &Files::new());
    let mut count = BTreeMap::new();
    let urls = vec![format!("http://{PUBLIC}/who"); 20].join(" -w \\n ");
    for (client, address) in lab.outside.iter().zip(OUTSIDE) {
        let answers = get(client, &format!("-H Connection:close -w \\n {urls}"));
        let servers = servers(&answers, address);
        assert_eq!(servers.len(), 20, "{answers}");
        servers.iter().for_each(|server| *count.entry(*server).or_insert(0) += 1);
    }
    assert!(count.len() == 3 && count.values().all(|count| *count >= 8), "{count:?}");
}

fn one_server(lab: &Lab) {
    let _webs = serve(lab, &Files::new());
    let urls = vec![format!("http://{PUBLIC}/who"); 20].join(" ");
    let answers = get(&lab.outside[0], &format!("-w \\n {urls}"));
    let servers = servers(&answers, OUTSIDE[0]);
    assert!(servers.len() == 20 && servers.iter().all(|one| *one == servers[0]), "{answers}");
}

fn files(lab: &Lab) {
    let files = Files::new();
    let webs = serve(lab, &files);
    std::thread::scope(|scope| {
        for client in &lab.outside {
            let files = &files;
            scope.spawn(move || fetch_many(client, files, PUBLIC, 400));
        }
    });
    webs.iter().for_each(Web::content);
}

fn requests(lab: &Lab) {
    let webs = serve(lab, &Files::new());
    let _echoes: Vec<_> = lab.inside.iter().map(|host| Echo::new(host, 7)).collect();
    let talk = Talk::new(&lab.outside[0], at(PUBLIC, 7));
    let url = format!("http://{PUBLIC}/6");
    talk_beside(talk, || {
        load(&lab.outside[1], &url, true);
        load(&lab.outside[1], &url, false);
    });
    webs.iter().for_each(Web::content);
}

fn questions(lab: &Lab) {
    let _echoes: Vec<_> = lab.inside.iter().map(|host| Echo::new(host, 53)).collect();
    for (client, address) in lab.outside.iter().zip(OUTSIDE) {
        for exchange in ask(client, &[at(PUBLIC, 53)], 100) {
            assert_eq!(exchange.seen.ip().to_string(), address);
        }
    }
}

fn closed(lab: &Lab) {
    assert!(refused(&lab.outside[0], at(PUBLIC, 9)), "by UDP");
    // No server listens at port 80 now.
    let tcp = lab.outside[0].run(&format!("curl -sS --connect-timeout 5 http://{PUBLIC}/"));
    assert_eq!(tcp.code(), 7, "{tcp:#?}");
}

/// A server is told, by an error that quotes the address which clients know, that its segments
/// are too long.
fn path_mtu(lab: &Lab) {
    let files = Files::new();
    let _webs = serve(lab, &files);
    fetch_many(&lab.outside[NARROW], &files, PUBLIC, 60);
    lab.inside.iter().for_each(|server| learnt(server, OUTSIDE[NARROW]));
}
