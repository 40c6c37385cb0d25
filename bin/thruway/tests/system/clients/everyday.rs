//! What hosts do every day, whatever is in the middle: pings, routes, files, streams, and what the
//! network tells them by ICMP. And what they see of a flood.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use super::at;
use super::lab::{GATEWAY, Lab, NARROW, NARROW_MTU, OUTSIDE, PROVIDER};
use super::sockets::{Echo, Exchange, Raw, SYN, Talk, ask, ask_at_length, refused, segment};
use crate::network::Namespace;
use crate::process::{LIMIT, Running, need, wait_for};
use crate::router::hops;
use crate::traffic::iperf_both_directions;
use crate::web::{Files, Web, fetch_many, get, load, put};

/// All hosts inside ping one outside, with the same identifier.
pub fn pings(lab: &Lab) {
    let line = format!("-n -e 77 -c 5 -i 0.1 -W 25 {}", OUTSIDE[0]);
    let ping =
        |host: &Namespace| Running::start(host.command("ping").args(line.split_whitespace()));
    let pings: Vec<_> = lab.inside.iter().map(ping).collect();
    for ping in pings {
        ping.wait(LIMIT).expect(0).prints(&["5 received", "ttl=62"]);
    }
}

/// Routers on the way say so, to those who look for them.
pub fn route(lab: &Lab) {
    need("traceroute", "traceroute");
    let all = [GATEWAY, PROVIDER, OUTSIDE[0]];
    // By UDP, which ends at the host's port unreachable, by ICMP echo, and by TCP.
    for kind in ["-U", "-I", "-T -p 9"] {
        // One probe at a time: how long traceroute waits depends on the answers to others.
        let line = format!("traceroute -n -q 1 -N 1 -w 2 -m 6 {kind} {}", OUTSIDE[0]);
        let before = backlog_drops();
        let printed = lab.inside[0].succeed(&line);
        if hops(&printed) != all {
            println!("the kernel's backlog dropped {} packets", backlog_drops() - before);
            for place in [&lab.middle, &lab.provider, &lab.outside[0]] {
                println!("{}", place.succeed("ip -s link"));
            }
            panic!("{kind}: {printed}");
        }
    }
}

/// How many packets the queues between virtual links dropped, which all namespaces share: the
/// second column of /proc/net/softnet_stat, of all processors.
fn backlog_drops() -> u64 {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").expect("the kernel counts them");
    let columns = text.lines().filter_map(|line| line.split_whitespace().nth(1));
    columns.filter_map(|drops| u64::from_str_radix(drops, 16).ok()).sum()
}

/// An MTU of the middle's interface outside, in bytes.
const UPLINK_MTU: u32 = 1400;

/// Hosts inside learn the MTU of the narrow way.
pub fn path_mtu(lab: &Lab) {
    let (client, server) = (&lab.inside[0], OUTSIDE[NARROW]);
    let whole = client.run(&format!("ping -n -c 1 -W 2 -M do -s 1400 {server}")).stdout;
    assert!(whole.contains(&format!("From {PROVIDER}")), "{whole}");
    assert!(whole.contains(&format!("mtu = {NARROW_MTU}")), "{whole}");
    learnt(client, server);
    // Another client learns it by its own segments; the first may send fragments.
    let web = Files::new().serve(&lab.outside[NARROW], "narrow");
    put(&lab.inside[1], &web, server, 1 << 20);
    learnt(&lab.inside[1], server);
    let cut = client.succeed(&format!("ping -n -c 2 -i 0.1 -W 10 -M dont -s 4000 {server}"));
    assert!(cut.contains("2 received"), "{cut}");
}

/// Hosts inside learn a smaller MTU of the middle's own interface outside.
pub fn uplink_mtu(lab: &Lab) {
    let (client, server) = (&lab.inside[0], OUTSIDE[0]);
    let ping = |length: u32| format!("ping -n -c 1 -W 2 -M do -s {length} {server}");
    lab.middle.ip(&format!("link set wan0 mtu {UPLINK_MTU}"));
    wait_for("the error about a packet that is longer than the uplink's MTU", || {
        let printed = client.run(&ping(1450)).stdout;
        printed.contains(&format!("mtu = {UPLINK_MTU}")).then_some(())
    });
    client.succeed(&ping(UPLINK_MTU - 28));
    lab.middle.ip("link set wan0 mtu 1500");
    wait_for("a long packet", || {
        // It remembers what it learns of the path for ten minutes.
        client.succeed("ip route flush cache");
        (client.run(&ping(1450)).code() == 0).then_some(())
    });
}

/// Asserts that a host knows the MTU of its way to a host behind the narrow one.
#[track_caller]
pub fn learnt(host: &Namespace, far: &str) {
    let route = host.succeed(&format!("ip route get {far}"));
    assert!(route.contains(&format!("mtu {NARROW_MTU}")), "{route}");
}

/// A closed port is told, by ICMP or by a reset.
pub fn closed(lab: &Lab) {
    assert!(refused(&lab.inside[0], at(OUTSIDE[0], 9)), "by UDP");
    let tcp = lab.inside[0].run(&format!("curl -sS --connect-timeout 5 http://{}:9/", OUTSIDE[0]));
    assert_eq!(tcp.code(), 7, "{tcp:#?}");
}

/// Each host inside asks two servers outside from the same 200 ports. Who asked, as the servers
/// saw it, is another one for each question to a server.
pub fn questions(lab: &Lab) -> Vec<Vec<Exchange>> {
    let servers = [at(OUTSIDE[0], 53), at(OUTSIDE[1], 53)];
    let _echoes = [0, 1].map(|host| Echo::new(&lab.outside[host], 53));
    let asked: Vec<_> = lab.inside.iter().map(|client| ask(client, &servers, 200)).collect();
    let all: Vec<_> = asked.iter().flatten().map(|one| (one.server, one.seen)).collect();
    assert_eq!(all.len(), lab.inside.len() * servers.len() * 200);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "shared by two: {all:?}");
    asked
}

/// Datagrams longer than any link's MTU, which travel in fragments.
pub fn long_questions(lab: &Lab) {
    let server = at(OUTSIDE[NARROW], 53);
    let _echo = Echo::new(&lab.outside[NARROW], 53);
    lab.inside.iter().for_each(|client| drop(ask_at_length(client, &[server], 10, 4000)));
}

/// Each host inside gets hundreds of files and sends one. The first is seen outside as `seen`.
pub fn files(lab: &Lab, seen: &str) {
    let files = Files::new();
    let webs = [0, 1].map(|host| files.serve(&lab.outside[host], "outside"));
    let who = get(&lab.inside[0], &format!("http://{}/who", OUTSIDE[0]));
    assert_eq!(who, format!("{seen} outside"));
    std::thread::scope(|scope| {
        for (client, server) in [(0, 0), (1, 0), (2, 1)] {
            let files = &files;
            scope.spawn(move || fetch_many(&lab.inside[client], files, OUTSIDE[server], 400));
        }
    });
    put(&lab.inside[0], &webs[0], OUTSIDE[0], 10 << 20);
    webs.iter().for_each(Web::content);
}

/// A connection goes on while thousands of others come and go.
pub fn requests(lab: &Lab) {
    let web = Files::new().serve(&lab.outside[0], "outside");
    let _echo = Echo::new(&lab.outside[0], 7);
    let talk = Talk::new(&lab.inside[0], at(OUTSIDE[0], 7));
    let url = format!("http://{}/6", OUTSIDE[0]);
    talk_beside(talk, || {
        load(&lab.inside[1], &url, true);
        load(&lab.inside[1], &url, false);
    });
    web.content();
}

/// A connection is used before, during and after some work.
pub fn talk_beside(mut talk: Talk, work: impl FnOnce() + Send) {
    talk.echo();
    std::thread::scope(|scope| {
        let working = scope.spawn(work);
        while !working.is_finished() {
            talk.echo();
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    talk.echo();
}

/// TCP and UDP at full speed, each way.
pub fn streams(lab: &Lab) {
    iperf_both_directions(&lab.inside[0], &lab.outside[0], OUTSIDE[0]);
}

/// Connections that are asked for in the flood.
const FLOOD: u32 = 20_000;

/// Somebody outside asks for thousands of connections under invented addresses. Connections that
/// were there before go on, and new ones are made after.
pub fn flood(lab: &Lab, target: SocketAddrV4) {
    let _echo = Echo::new(&lab.outside[0], 7);
    let talk = Talk::new(&lab.inside[0], at(OUTSIDE[0], 7));
    let sender = Raw::new(&lab.outside[1]);
    talk_beside(talk, || {
        for number in 0..FLOOD {
            // In 192.0.2.0/24, where nobody is.
            let from = Ipv4Addr::from_bits(0xC000_0200 | number >> 8 & 0xFF);
            let port = 1024 + (number & 0xFF) as u16;
            sender.send(&segment(SocketAddrV4::new(from, port), target, SYN));
            if number % 50 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    Talk::new(&lab.inside[1], at(OUTSIDE[0], 7)).echo();
}
