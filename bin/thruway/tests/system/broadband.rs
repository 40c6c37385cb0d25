//! Switches and tunnels of a provider: over the bundled captures, and between real hosts.

use std::path::Path;

use crate::control::Client;
use crate::frames::read_capture;
use crate::gateway::difference;
use crate::network::{HostConfig, Network};
use crate::process::{need, privileged, root, run, thruway};
use crate::router::hops;
use crate::traffic::{fetch, iperf};

/// The IPv4 packets that begin at this byte of each frame, without what a hop changes.
fn packets(frames: &[Vec<u8>], at: usize) -> Vec<Vec<u8>> {
    let packet = |frame: &Vec<u8>| {
        let len = usize::from(u16::from_be_bytes([frame[at + 2], frame[at + 3]]));
        let mut packet = frame[at..at + len].to_vec();
        (packet[8], packet[10], packet[11]) = (0, 0, 0);
        packet
    };
    frames.iter().map(packet).collect()
}

/// Runs an example over captures in `dir`; a port is its variable, what it reads and writes.
fn example(name: &str, dir: &Path, ports: &[(&str, &str, &str)]) {
    let mut command = thruway();
    command.arg("run").arg(root().join("examples").join(name));
    for (variable, from, to) in ports {
        let (from, to) = (dir.join(from), dir.join(to));
        command.arg(format!("{variable}=pcap:{}>{}", from.display(), to.display()));
    }
    run(&mut command).expect(0).prints(&["Elements"]);
}

fn captures() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = thruway();
    command.arg("run").arg(root().join("examples/tunnels.click"));
    command.arg(format!("DIR={}", dir.path().display()));
    command.arg(format!("CAPTURES={}", root().join("examples/captures").display()));
    run(&mut command).expect(0);
    dir
}

#[test]
fn broadband_over_the_bundled_captures() {
    let dir = captures();
    let ports =
        [("ACCESS", "access.pcap", "to-access.pcap"), ("CORE", "core.pcap", "to-core.pcap")];
    example("bng.click", dir.path(), &ports);
    let read = |name: &str| read_capture(&dir.path().join(name));
    // Behind two tags; behind a label, IP and eight bytes more of GRE than its first four.
    let (tagged, tunnelled) = (14 + 8, 14 + 4 + 20 + 12);
    let up = (packets(&read("access.pcap"), tagged), packets(&read("to-core.pcap"), tunnelled));
    assert_eq!((up.0.len(), difference(&up.0, &up.1)), (9_927, (0, 0)));
    let (core, access) = (read("core.pcap"), read("to-access.pcap"));
    assert_eq!(core.len(), 10_073);
    // Answers to clients that had said nothing yet in this run are dropped.
    let (lost, new) = difference(&packets(&core, tunnelled), &packets(&access, tagged));
    assert!(lost < 400 && new == 0, "{lost} lost, {new} new");
    // Everyone gets his own, on his own line.
    for frame in &access {
        let line = if frame[22 + 19] < 128 { 7 } else { 8 };
        assert_eq!(frame[12..22], [0x88, 0xa8, 0, 100, 0x81, 0, 0, line, 8, 0]);
    }
}

#[test]
fn labels_over_the_bundled_captures() {
    let dir = captures();
    let ports = [("WEST", "labels.pcap", "west.pcap"), ("EAST", "none.pcap", "east.pcap")];
    example("mpls.click", dir.path(), &ports);
    let sent = read_capture(&dir.path().join("labels.pcap"));
    let came = read_capture(&dir.path().join("east.pcap"));
    let label = |frame: &[u8]| u32::from_be_bytes([0, frame[14], frame[15], frame[16]]) >> 4;
    let top = |frame: &[u8]| (frame[12..14] == [0x88, 0x47]).then(|| label(frame));
    // By label, the one that they have then, and where a packet begins behind it.
    for (number, then, at) in [(16, Some(100), 18), (17, Some(200), 22), (18, None, 14)] {
        let went: Vec<Vec<u8>> =
            sent.iter().filter(|frame| top(frame) == Some(number)).cloned().collect();
        let got: Vec<Vec<u8>> = came.iter().filter(|frame| top(frame) == then).cloned().collect();
        let found = difference(&packets(&went, 18), &packets(&got, at));
        assert_eq!((went.len(), found), (2_482, (0, 0)), "label {number}");
    }
    assert_eq!(came.len(), 3 * 2_482, "the others ended there");
}

const SUBSCRIBER: HostConfig = HostConfig { addresses: &["10.0.0.7/24"], routers: &["10.0.0.1"] };
const SERVER: HostConfig =
    HostConfig { addresses: &["198.51.100.2/24"], routers: &["198.51.100.1"] };

#[test]
fn a_subscriber_reaches_a_server() {
    if !privileged("a_subscriber_reaches_a_server") {
        return;
    }
    need("ping", "iputils-ping");
    need("traceroute", "traceroute");
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let mut network = Network::new(&SUBSCRIBER, &SERVER);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/system/broadband.click");
    let mut command = network.middle.thruway();
    command.args(["click", "-R", "-u"]).arg(&socket).arg(file);
    network.route(&mut command, "198.51.100.2");
    let mut client = Client::unix(&socket);
    let lan = &network.lan;
    let there = lan.succeed("ping -n -c 5 -i 0.05 -W 10 198.51.100.2");
    assert!(there.contains("5 received") && there.contains("ttl=63"), "{there}");
    assert!(lan.succeed("ping -n -c 1 10.0.0.1").contains("1 received"));
    let route = lan.succeed("traceroute -n -q 1 -w 2 -m 4 198.51.100.2");
    assert_eq!(hops(&route), ["10.0.0.1", "198.51.100.2"]);
    let neighbours = lan.succeed("ip neigh show 10.0.0.1");
    assert!(neighbours.contains("02:00:00:00:01:00"), "{neighbours}");
    fetch(lan, &network.wan, "198.51.100.2", 5 << 20);
    iperf(lan, &network.wan, "198.51.100.2");
    let places = client.read("gateway.places");
    assert!(places.starts_with("100 7 42 10.0.0.7 "), "{places}");
    assert!(client.read("access.table").contains("7 02-00-00-00-01-00 1"));

    // Nobody speaks for another.
    lan.ip("address add 10.0.0.8/24 dev eth0");
    let spoofed = lan.run("ping -n -c 2 -i 0.1 -W 1 -I 10.0.0.8 198.51.100.2");
    assert_eq!(spoofed.code(), 1, "{spoofed:#?}");
    let drops = client.read("gateway.drops");
    assert!(!drops.contains("\n0 spoofed-source"), "{drops}");
    // Who is taken off the line hears nothing any more, until he is back.
    let ping = "ping -n -c 1 -W 1 -I 10.0.0.7 198.51.100.2";
    assert_eq!(client.write_data("gateway.remove", "SUBSCRIBER 100 7").0, 200);
    assert_eq!(lan.run(ping).code(), 1);
    assert_eq!(client.write_data("gateway.add", "SUBSCRIBER 100 7 42 10.0.0.7").0, 200);
    assert_eq!(lan.run(ping).code(), 0);
    // A path of the router in between, taken away and put back.
    assert_eq!(client.write_data("lsr.remove", "17").0, 200);
    assert_eq!(lan.run(ping).code(), 1);
    let path = "17 swap 1000 1 02-00-00-00-02-00";
    assert_eq!(client.write_data("lsr.add", path).0, 200);
    assert_eq!(lan.run(ping).code(), 0);
    network.stop().expect(0);
}

const ONE: HostConfig = HostConfig { addresses: &["10.9.0.1/24"], routers: &[] };
const OTHER: HostConfig = HostConfig { addresses: &["10.9.0.2/24"], routers: &[] };

/// Two hosts at a switch with two threads; a third port has another VLAN.
#[test]
fn hosts_meet_at_a_switch() {
    if !privileged("hosts_meet_at_a_switch") {
        return;
    }
    need("ping", "iputils-ping");
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let mut network = Network::new(&ONE, &OTHER);
    let text = "s :: EtherSwitch(PORT 0 ACCESS 5, PORT 1 ACCESS 5, PORT 2 ACCESS 6);
        FromDevice(lan0, PROMISC true) -> s -> Queue -> t :: ToDevice(lan0);
        f :: FromDevice(wan0, PROMISC true) -> [1] s [1] -> Queue -> u :: ToDevice(wan0);
        Idle -> [2] s [2] -> c :: Counter -> Discard;
        StaticThreadSched(f 1, u 1)";
    let mut command = network.middle.thruway();
    command.args(["click", "-j", "2", "-u"]).arg(&socket).args(["-e", text]);
    network.route(&mut command, "10.9.0.2");
    fetch(&network.lan, &network.wan, "10.9.0.2", 5 << 20);
    iperf(&network.lan, &network.wan, "10.9.0.2");
    let mut client = Client::unix(&socket);
    let table = client.read("s.table");
    let ports: Vec<&str> = table.lines().map(|line| &line[line.len() - 1..]).collect();
    assert!(ports.len() == 2 && ports.contains(&"0") && ports.contains(&"1"), "{table}");
    assert!(table.lines().all(|line| line.starts_with("5 ")), "{table}");
    assert_eq!(client.number("c.count"), 0);
    network.stop().expect(0);
}
