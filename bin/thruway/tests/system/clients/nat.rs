//! Address translation: many clients behind one address, and a server of theirs seen outside.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::at;
use super::everyday::{
    closed, files, flood, long_questions, path_mtu, pings, questions, requests, route, streams,
    uplink_mtu,
};
use super::lab::{Lab, OUTSIDE, PUBLIC, Trial};
use super::sockets::{Echo, ask};
use super::strays::strays;
use crate::process::{Done, privileged, run, wait_for};
use crate::trials::undergo;
use crate::web::{Files, expect_unreachable, fetch_many, get, put};

/// What runs in the middle forwards TCP port 8080 of [`PUBLIC`] to port 80 of the second host
/// inside, and UDP port 5353 to its port 53, and translates what goes out to [`PUBLIC`].
const TRIALS: &[Trial] = &[
    ("pings with the same identifier", pings),
    ("hops are shown", route),
    ("the path's MTU is learnt", path_mtu),
    ("the uplink's MTU is learnt", uplink_mtu),
    ("closed ports refuse", closed),
    ("datagrams are answered by whom was asked", translated_questions),
    ("long datagrams", long_questions),
    ("files", |lab| files(lab, PUBLIC)),
    ("requests", requests),
    ("streams", streams),
    ("ports forwarded inside", forwarded),
    ("hairpin", hairpin),
    ("strays stay outside", |lab| strays(lab, PUBLIC, at(PUBLIC, 8080))),
    ("flood", |lab| flood(lab, at(PUBLIC, 8080))),
];

const KERNEL: &str = "
table ip nat {
    chain incoming {
        type nat hook prerouting priority dstnat
        ip daddr 203.0.113.2 tcp dport 8080 dnat to 192.168.1.11:80
        ip daddr 203.0.113.2 udp dport 5353 dnat to 192.168.1.11:53
    }
    chain outgoing {
        type nat hook postrouting priority srcnat
        ip saddr 192.168.1.0/24 oifname wan0 masquerade
        ip saddr 192.168.1.0/24 oifname lan0 snat to 203.0.113.2
    }
}
";

#[test]
fn the_kernel_translates() {
    if !privileged("the_kernel_translates") {
        return;
    }
    let lab = Lab::new();
    lab.kernel(KERNEL);
    undergo(&lab, TRIALS);
}

/// Thruway, with these options, undergoes trials.
fn thruway_translates(test: &str, options: &[&str], trials: &[Trial]) {
    if privileged(test) {
        translates(Lab::new(), options, trials).prints(&["nat"]);
    }
}

fn translates(mut lab: Lab, options: &[&str], trials: &[Trial]) -> Done {
    lab.example(options, "nat.click", &[]);
    let outcome = catch_unwind(AssertUnwindSafe(|| undergo(&lab, trials)));
    let told = lab.stop();
    if let Err(failed) = outcome {
        // Where packets went may say why.
        println!("{}", told.stdout);
        resume_unwind(failed);
    }
    told.expect(0)
}

#[test]
fn one_thread_translates() {
    thruway_translates("one_thread_translates", &["run"], TRIALS);
}

/// One thread serves what comes from inside, another what comes from outside.
#[test]
fn two_threads_translate() {
    let trials: &[Trial] = &[
        ("pings with the same identifier", pings),
        ("hops are shown", route),
        ("the path's MTU is learnt", path_mtu),
        ("closed ports refuse", closed),
        ("datagrams are answered by whom was asked", translated_questions),
        ("long datagrams", long_questions),
        ("files", |lab| files(lab, PUBLIC)),
        ("ports are used again", ports_again),
        ("requests", requests),
        ("ports forwarded inside", forwarded),
        ("hairpin", hairpin),
    ];
    thruway_translates("two_threads_translate", &["run", "-j", "2"], trials);
}

/// What two threads may do wrong where each has part of every interface.
const SHARED: &[Trial] = &[
    ("pings with the same identifier", pings),
    ("datagrams are answered by whom was asked", translated_questions),
    ("many files", many_files),
    ("ports are used again", ports_again),
    ("ports forwarded inside", forwarded),
    ("hairpin", hairpin),
];

/// Two hosts inside get files at the same time, over connections enough for both threads.
fn many_files(lab: &Lab) {
    let files = Files::new();
    let web = files.serve(&lab.outside[0], "outside");
    std::thread::scope(|scope| {
        for client in [0, 1] {
            let files = &files;
            scope.spawn(move || fetch_many(&lab.inside[client], files, OUTSIDE[0], 60));
        }
    });
    put(&lab.inside[0], &web, OUTSIDE[0], 5 << 20);
    web.content();
}

/// Each thread has a queue of each interface: replies come by the other one's as often as not.
#[test]
fn two_threads_on_two_queues_translate() {
    if !privileged("two_threads_on_two_queues_translate") {
        return;
    }
    let told = translates(Lab::with_queues(2).for_af_xdp(), &["run", "-j", "2"], SHARED);
    told.says(&["AF_XDP, native mode, the kernel copies, 2 queues, for 2 threads"]);
}

#[test]
fn two_threads_with_packet_sockets_translate() {
    if !privileged("two_threads_with_packet_sockets_translate") {
        return;
    }
    let lab = Lab::new().for_packet_sockets();
    translates(lab, &["run", "-j", "2"], SHARED).says(&["a socket for each of 2 threads"]);
}

/// A client's port serves one connection after the other to the same server: each thread has to
/// notice that the one before is over.
fn ports_again(lab: &Lab) {
    let _web = Files::new().serve(&lab.outside[0], "outside");
    let url = format!("http://{}/who", OUTSIDE[0]);
    let line = format!("curl -sS --fail --max-time 5 --local-port 20000 -H Connection:close {url}");
    // If the client closes first its port would rest for a minute, and it does until the other
    // side has closed, too.
    let none_rest = "echo 0 > /proc/sys/net/ipv4/tcp_max_tw_buckets";
    run(lab.inside[0].command("sh").args(["-c", none_rest])).expect(0);
    for _ in 0..5 {
        let done = wait_for("the client's port", || {
            let done = lab.inside[0].run(&line);
            (done.code() != BIND_FAILED).then_some(done)
        });
        assert_eq!(done.expect(0).stdout, format!("{PUBLIC} outside"));
    }
}

/// curl's code where its local port is taken.
const BIND_FAILED: i32 = 45;

fn translated_questions(lab: &Lab) {
    for exchange in questions(lab).iter().flatten() {
        assert_eq!(exchange.seen.ip().to_string(), PUBLIC);
    }
}

fn forwarded(lab: &Lab) {
    let web = Files::new().serve(&lab.inside[1], "inside");
    let _echo = Echo::new(&lab.inside[1], 53);
    let client = &lab.outside[0];
    let seen = get(client, &format!("http://{PUBLIC}:8080/who"));
    assert_eq!(seen, format!("{} inside", OUTSIDE[0]));
    put(client, &web, &format!("{PUBLIC}:8080"), 1 << 20);
    for exchange in ask(client, &[at(PUBLIC, 5353)], 50) {
        assert_eq!(exchange.seen.ip().to_string(), OUTSIDE[0]);
    }
    // The server inside goes on as a client, too.
    let ping = lab.inside[1].succeed(&format!("ping -n -c 1 -W 2 {}", OUTSIDE[0]));
    assert!(ping.contains("1 received"), "{ping}");
    expect_unreachable(client, &format!("http://{PUBLIC}:8081/"));
}

/// Clients inside use the server by its address outside, and are seen as from there (RFC 4787,
/// requirement 9); the server itself does, too.
fn hairpin(lab: &Lab) {
    let _web = Files::new().serve(&lab.inside[1], "inside");
    let _echo = Echo::new(&lab.inside[1], 53);
    for client in [&lab.inside[0], &lab.inside[1]] {
        let seen = get(client, &format!("http://{PUBLIC}:8080/who"));
        assert_eq!(seen, format!("{PUBLIC} inside"));
        for exchange in ask(client, &[at(PUBLIC, 5353)], 20) {
            assert_eq!(exchange.seen.ip().to_string(), PUBLIC);
        }
    }
}
