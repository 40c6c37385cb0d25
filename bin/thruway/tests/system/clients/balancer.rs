//! A load balancer: clients outside use one address, behind which three servers stand.

use std::collections::BTreeMap;

use super::at;
use super::everyday::{flood, learnt, talk_beside};
use super::lab::{Lab, NARROW, OUTSIDE, PUBLIC, Trial, undergo};
use super::sockets::{Echo, Talk, ask, refused};
use super::web::{Files, Web, fetch_many, get, load};
use crate::process::privileged;

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
        ip daddr 192.0.2.2 tcp dport { 7, 80 } dnat to numgen inc mod 3 map \\
            { 0: 192.168.1.10, 1: 192.168.1.11, 2: 192.168.1.12 }
        ip daddr 192.0.2.2 udp dport { 9, 53 } dnat to numgen inc mod 3 map \\
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
            scope.spawn(move || fetch_many(client, files, PUBLIC, 600));
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
