//! examples/gateway.click between two real networks.

use std::collections::HashMap;

use crate::control::Client;
use crate::frames::read_capture;
use crate::network::{HostConfig, Network};
use crate::process::{need, privileged, root, run, thruway};
use crate::router::hops;
use crate::traffic::{fetch, iperf};

const LAN: HostConfig = HostConfig {
    addresses: &["192.168.1.2/24", "fd00:1::10/64"],
    routers: &["192.168.1.1", "fd00:1::1"],
};
/// The provider's router, which is a server too.
const WAN: HostConfig = HostConfig {
    addresses: &["192.0.2.1/24", "2001:db8:2::1/64"],
    routers: &["192.0.2.2", "2001:db8:2::2"],
};

/// The example runs with these variables besides its ports.
pub fn gateway(variables: &[&str]) -> Network {
    need("ping", "iputils-ping");
    let mut network = Network::new(&LAN, &WAN);
    let mut command = network.middle.thruway();
    command.arg("run").arg(root().join("examples/gateway.click"));
    network.route(command.args(["LAN=lan0", "WAN=wan0"]).args(variables), "192.0.2.1");
    network
}

/// The IPv4 packets of some frames, without what a hop changes: hop count and checksum.
fn packets(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let ip4 = frames.iter().filter(|frame| frame[12..14] == [8, 0]);
    let packet = |frame: &Vec<u8>| {
        let len = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let mut packet = frame[14..14 + len].to_vec();
        (packet[8], packet[10], packet[11]) = (0, 0, 0);
        packet
    };
    ip4.map(packet).collect()
}

/// Those of `sent` that did not come out, and those that came out and were not sent.
pub fn difference(sent: &[Vec<u8>], came: &[Vec<u8>]) -> (usize, usize) {
    let mut count: HashMap<&[u8], i64> = HashMap::new();
    sent.iter().for_each(|packet| *count.entry(packet).or_default() += 1);
    came.iter().for_each(|packet| *count.entry(packet).or_default() -= 1);
    let of = |sign: i64| count.values().map(|n| (n * sign).max(0) as usize).sum();
    (of(1), of(-1))
}

#[test]
fn gateway_over_the_bundled_captures() {
    let dir = tempfile::tempdir().expect("a directory");
    let captures = root().join("examples/captures");
    let mut sides = Vec::new();
    let mut command = thruway();
    command.arg("run").arg(root().join("examples/gateway.click"));
    command.args(["LAN_IP=16.0.1.1", "LAN_NET=16.0.0.0/16"]);
    for name in ["LAN", "WAN"] {
        let file = format!("{}.pcap", name.to_lowercase());
        let (from, to) = (captures.join(&file), dir.path().join(&file));
        command.arg(format!("{name}=pcap:{}>{}", from.display(), to.display()));
        sides.push((from, to));
    }
    run(&mut command).expect(0).prints(&["20,256 packets in"]);
    let of = |at: usize| (read_capture(&sides[at].0), read_capture(&sides[at].1));
    let ((lan_in, lan_out), (wan_in, wan_out)) = (of(0), of(1));
    assert_eq!(lan_in.len() + wan_in.len(), 20_256);
    // 305 are denied, 306 are refused: each refusal is told to who sent it, in the LAN.
    let out = (packets(&lan_in), packets(&wan_out));
    assert_eq!(difference(&out.0, &out.1), (305 + 306, 0));
    // Servers answered 153 of the connections that are refused here: nobody asked for that.
    assert_eq!(difference(&packets(&wan_in), &packets(&lan_out)), (153, 306));
}

#[test]
fn gateway_routes_and_tells() {
    if !privileged("gateway_routes_and_tells") {
        return;
    }
    need("traceroute", "traceroute");
    let mut network = gateway(&["WAN_MTU=1400"]);
    let lan = &network.lan;
    let there = lan.succeed("ping -n -c 5 -i 0.05 -W 10 192.0.2.1");
    assert!(there.contains("5 received") && there.contains("ttl=63"), "{there}");
    assert!(lan.succeed("ping -n -c 1 192.168.1.1").contains("1 received"));
    let route = lan.succeed("traceroute -n -q 1 -w 2 -m 4 192.0.2.1");
    assert_eq!(hops(&route), ["192.168.1.1", "192.0.2.1"]);
    let neighbours = lan.succeed("ip neigh show 192.168.1.1");
    assert!(neighbours.contains("02:00:00:00:00:02"), "{neighbours}");
    let whole = lan.run("ping -n -c 1 -W 2 -M do -s 1450 192.0.2.1").stdout;
    assert!(whole.contains("mtu = 1400"), "{whole}");
    let cut = lan.succeed("ping -n -c 1 -W 2 -M dont -s 1450 192.0.2.1");
    assert!(cut.contains("1 received"), "{cut}");
    let done = network.stop().expect(0).prints(&["Ports", "Elements", "Drops", "packets/s"]);
    for row in ["lan/in (lan0)", "wan/out (wan0)", "expired", "dont-fragment"] {
        assert!(done.stdout.contains(row), "no '{row}' in {}", done.stdout);
    }
}

#[test]
fn gateway_filters() {
    if !privileged("gateway_filters") {
        return;
    }
    need("curl", "curl");
    let mut network = gateway(&[]);
    let (lan, wan) = (&network.lan, &network.wan);
    // From outside: the gateway answers; hosts inside are out of reach.
    assert!(wan.succeed("ping -n -c 1 192.0.2.2").contains("1 received"));
    assert_eq!(wan.run("ping -n -c 1 -W 1 192.168.1.2").code(), 1);
    let knock = wan.run("curl -sS --connect-timeout 1 http://192.168.1.2:80/");
    assert_eq!(knock.code(), 28, "no answer at all: {knock:#?}");
    // What is refused politely is told so at once.
    for (host, url) in [(wan, "http://192.168.1.2:113/"), (lan, "http://192.0.2.1:25/")] {
        let refused = host.run(&format!("curl -sS --connect-timeout 5 {url}"));
        assert_eq!(refused.code(), 7, "{refused:#?}");
        assert!(refused.elapsed.as_secs() < 4, "{refused:#?}");
    }
    // A closed port of the gateway itself.
    let script = "exec 3<>/dev/udp/192.168.1.1/9; echo >&3; sleep 0.5; echo >&3";
    let closed = run(lan.command("bash").args(["-c", script]));
    assert!(closed.stderr.contains("Connection refused"), "{closed:#?}");
    let table = network.stop().expect(0).stdout;
    assert!(table.contains("inbound"), "{table}");
}

#[test]
fn gateway_carries_files() {
    if !privileged("gateway_carries_files") {
        return;
    }
    let network = gateway(&[]);
    fetch(&network.lan, &network.wan, "192.0.2.1", 30 << 20);
    fetch(&network.lan, &network.wan, "[2001:db8:2::1]", 10 << 20);
}

#[test]
fn gateway_carries_streams() {
    if !privileged("gateway_carries_streams") {
        return;
    }
    let network = gateway(&[]);
    iperf(&network.lan, &network.wan, "192.0.2.1");
    iperf(&network.lan, &network.wan, "2001:db8:2::1");
}

#[test]
fn gateway_speaks_ip6() {
    if !privileged("gateway_speaks_ip6") {
        return;
    }
    need("traceroute", "traceroute");
    let network = gateway(&[]);
    let (lan, wan) = (&network.lan, &network.wan);
    let there = lan.succeed("ping -6 -n -c 3 -i 0.05 -W 10 2001:db8:2::1");
    assert!(there.contains("3 received") && there.contains("ttl=63"), "{there}");
    let route = lan.succeed("traceroute -6 -n -q 1 -w 2 -m 4 2001:db8:2::1");
    assert_eq!(hops(&route), ["fd00:1::1", "2001:db8:2::1"]);
    for (host, router, mac) in
        [(lan, "fd00:1::1", "02:00:00:00:00:02"), (wan, "2001:db8:2::2", "02:00:00:00:00:01")]
    {
        let neighbours = host.succeed(&format!("ip -6 neigh show {router}"));
        assert!(neighbours.contains(mac), "{neighbours}");
    }
    // The gateway answers pings from both sides.
    for (host, router) in [(lan, "fd00:1::1"), (wan, "2001:db8:2::2")] {
        let ping = host.succeed(&format!("ping -6 -n -c 1 -W 5 {router}"));
        assert!(ping.contains("1 received"), "{ping}");
    }
    // A connection from outside is not let in.
    let knock = wan.run("curl -sS -g --connect-timeout 1 http://[fd00:1::10]:80/");
    assert_eq!(knock.code(), 28, "{knock:#?}");
}

#[test]
fn a_swapped_gateway_keeps_its_connections() {
    if !privileged("a_swapped_gateway_keeps_its_connections") {
        return;
    }
    let mut network = Network::new(&LAN, &WAN);
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let file = root().join("examples/gateway.click");
    let mut command = network.middle.thruway();
    command.args(["click", "-R", "-u"]).arg(&socket).arg(&file);
    network.route(command.args(["LAN=lan0", "WAN=wan0"]), "192.0.2.1");
    let text = std::fs::read_to_string(&file).expect("the example");
    let mut client = Client::unix(&socket);
    let counted = client.number("wan_packets.count");
    assert!(counted > 0);
    let fetching = std::thread::scope(|scope| {
        let (lan, wan) = (&network.lan, &network.wan);
        let fetching = scope.spawn(|| fetch(lan, wan, "192.0.2.1", 30 << 20));
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(400));
            assert_eq!(client.write_data("hotconfig", &text).0, 200);
        }
        fetching.join()
    });
    assert!(fetching.is_ok(), "the file arrives whole across three swaps");
    assert!(client.number("wan_packets.count") > counted, "counters go on");
    network.stop().expect(0);
}
