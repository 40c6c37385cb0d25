//! Real hosts through a router of IPv4 and IPv6: what they send, and the errors they expect.

use std::path::Path;

use crate::network::{HostConfig, Network};
use crate::process::{need, privileged, wait_for};
use crate::traffic::{fetch, iperf};

const LAN: HostConfig =
    HostConfig { addresses: &["10.1.0.2/24", "fd01::2/64"], routers: &["10.1.0.1", "fd01::1"] };
const WAN: HostConfig =
    HostConfig { addresses: &["10.2.0.2/24", "fd02::2/64"], routers: &["10.2.0.1", "fd02::1"] };

/// The router runs by AF_XDP, and host `lan` has reached `far`.
fn routed(far: &str) -> Network {
    routed_with(&[], &[], far)
}

/// The same with these options and variables.
fn routed_with(options: &[&str], variables: &[&str], far: &str) -> Network {
    need("ping", "iputils-ping");
    let mut network = Network::new(&LAN, &WAN);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/system/router.click");
    let mut command = network.middle.thruway();
    command.arg("run").args(options).arg(file).args(variables);
    network.route(&mut command, far);
    network
}

#[test]
fn ping_and_arp() {
    if !privileged("ping_and_arp") {
        return;
    }
    let mut network = routed("10.2.0.2");
    let there = network.lan.succeed("ping -n -c 5 -i 0.05 -W 10 10.2.0.2");
    assert!(there.contains("5 received") && there.contains("ttl=63"), "{there}");
    let back = network.wan.succeed("ping -n -c 5 -i 0.05 -W 10 10.1.0.2");
    assert!(back.contains("5 received"), "{back}");
    let near = network.lan.succeed("ping -n -c 2 -i 0.05 -W 10 10.1.0.1");
    assert!(near.contains("2 received"), "the router answers itself: {near}");
    for (host, router, mac) in [
        (&network.lan, "10.1.0.1", "02:00:00:00:01:01"),
        (&network.wan, "10.2.0.1", "02:00:00:00:02:01"),
    ] {
        let neighbours = host.succeed(&format!("ip neigh show {router}"));
        assert!(neighbours.contains(mac), "{neighbours}");
    }
    let table = network.stop().expect(0).prints(&["Ports", "Elements", "Drops"]).stdout;
    assert!(table.contains("lan/FromDevice"), "{table}");
}

#[test]
fn ttl_expires_at_the_router() {
    if !privileged("ttl_expires_at_the_router") {
        return;
    }
    need("traceroute", "traceroute");
    let network = routed("10.2.0.2");
    let dead = network.lan.run("ping -n -c 1 -W 2 -t 1 10.2.0.2");
    assert_eq!(dead.code(), 1, "{dead:#?}");
    assert!(dead.stdout.contains("From 10.1.0.1") && dead.stdout.contains("Time to live exceeded"));
    // By UDP, which ends at the host's port unreachable, and by ICMP echo.
    for way in ["-U", "-I"] {
        let line = format!("traceroute -n -q 1 -w 2 -m 5 {way} 10.2.0.2");
        assert_eq!(hops(&network.lan.succeed(&line)), ["10.1.0.1", "10.2.0.2"]);
    }
    let back = network.wan.succeed("traceroute -n -q 1 -w 2 -m 5 10.1.0.2");
    assert_eq!(hops(&back), ["10.2.0.1", "10.1.0.2"]);
}

/// The address in each line of a traceroute but the first.
pub fn hops(text: &str) -> Vec<&str> {
    text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect()
}

#[test]
fn errors_reach_the_sender() {
    if !privileged("errors_reach_the_sender") {
        return;
    }
    let network = routed("10.2.0.2");
    let nowhere = network.lan.run("ping -n -c 1 -W 2 192.0.2.9");
    assert!(nowhere.stdout.contains("From 10.1.0.1"), "{nowhere:#?}");
    assert!(nowhere.stdout.contains("Destination Net Unreachable"), "{nowhere:#?}");
    // A closed port of the far host, and of the router: the second write learns of the first.
    for address in ["10.2.0.2", "10.1.0.1"] {
        let script = format!("exec 3<>/dev/udp/{address}/9; echo >&3; sleep 0.5; echo >&3");
        let mut command = network.lan.command("bash");
        let refused = crate::process::run(command.args(["-c", &script]));
        assert!(refused.stderr.contains("Connection refused"), "{address}: {refused:#?}");
    }
}

#[test]
fn long_packets_are_cut_or_refused() {
    if !privileged("long_packets_are_cut_or_refused") {
        return;
    }
    let network = routed("10.2.0.2");
    let whole = network.lan.run("ping -n -c 1 -W 2 -M do -s 1450 10.2.0.2");
    assert!(whole.stdout.contains("From 10.1.0.1"), "{whole:#?}");
    assert!(whole.stdout.contains("needed") && whole.stdout.contains("mtu = 1400"), "{whole:#?}");
    let path = network.lan.succeed("ip route get 10.2.0.2");
    assert!(path.contains("mtu 1400"), "the host learnt the path's MTU: {path}");
    // Fragments on the way there; the answer passes whole.
    let cut = network.lan.succeed("ping -n -c 2 -i 0.1 -W 10 -M dont -s 1450 10.2.0.2");
    assert!(cut.contains("2 received"), "{cut}");
    // Fragments of fragments: the host cuts at 1500, the router at 1400.
    let big = network.wan.succeed("ping -n -c 2 -i 0.1 -W 10 -M dont -s 6000 10.1.0.2");
    assert!(big.contains("2 received"), "{big}");
}

#[test]
fn hosts_of_ip6() {
    if !privileged("hosts_of_ip6") {
        return;
    }
    need("traceroute", "traceroute");
    let network = routed("fd02::2");
    let there = network.lan.succeed("ping -6 -n -c 3 -i 0.05 -W 10 fd02::2");
    assert!(there.contains("3 received") && there.contains("ttl=63"), "{there}");
    for (host, router, mac) in [
        (&network.lan, "fd01::1", "02:00:00:00:01:01"),
        (&network.wan, "fd02::1", "02:00:00:00:02:01"),
    ] {
        let neighbours = host.succeed(&format!("ip -6 neigh show {router}"));
        assert!(neighbours.contains(mac), "{neighbours}");
    }
    let dead = network.lan.run("ping -6 -n -c 1 -W 2 -t 1 fd02::2");
    assert!(dead.stdout.contains("From fd01::1") && dead.stdout.contains("Time exceeded"));
    let line = "traceroute -6 -n -q 1 -w 2 -m 5 fd02::2";
    assert_eq!(hops(&network.lan.succeed(line)), ["fd01::1", "fd02::2"]);
    let nowhere = network.lan.run("ping -6 -n -c 1 -W 2 2001:db8::9");
    assert!(nowhere.stdout.contains("No route"), "{nowhere:#?}");
    let long = network.lan.run("ping -6 -n -c 1 -W 2 -M do -s 1400 fd02::2");
    assert!(long.stdout.contains("Packet too big: mtu=1300"), "{long:#?}");
    let path = network.lan.succeed("ip -6 route get fd02::2");
    assert!(path.contains("mtu 1300"), "the host learnt the path's MTU: {path}");
}

#[test]
fn files_arrive_whole() {
    if !privileged("files_arrive_whole") {
        return;
    }
    let network = routed("10.2.0.2");
    // Towards lan whole packets pass; towards wan the sender must learn the smaller MTU.
    fetch(&network.lan, &network.wan, "10.2.0.2", 30 << 20);
    fetch(&network.wan, &network.lan, "10.1.0.2", 10 << 20);
    fetch(&network.lan, &network.wan, "[fd02::2]", 10 << 20);
    fetch(&network.wan, &network.lan, "[fd01::2]", 10 << 20);
}

#[test]
fn streams_flow() {
    if !privileged("streams_flow") {
        return;
    }
    let network = routed("10.2.0.2");
    for address in ["10.2.0.2", "fd02::2"] {
        iperf(&network.lan, &network.wan, address);
    }
    iperf(&network.wan, &network.lan, "10.1.0.2");
}

#[test]
fn packet_sockets_do_as_well() {
    if !privileged("packet_sockets_do_as_well") {
        return;
    }
    let mut network = routed_with(&[], &["METHOD=LINUX"], "10.2.0.2");
    fetch(&network.lan, &network.wan, "10.2.0.2", 30 << 20);
    fetch(&network.wan, &network.lan, "[fd01::2]", 10 << 20);
    iperf(&network.lan, &network.wan, "10.2.0.2");
    network.stop().expect(0).prints(&["Ports"]).says(&["'lan0': AF_PACKET (as METHOD says)"]);
}

#[test]
fn two_threads_route_as_one() {
    if !privileged("two_threads_route_as_one") {
        return;
    }
    let mut network = routed_with(&["-j", "2"], &[], "10.2.0.2");
    let line = "traceroute -n -q 1 -w 2 -m 5 10.2.0.2";
    assert_eq!(hops(&network.lan.succeed(line)), ["10.1.0.1", "10.2.0.2"]);
    fetch(&network.lan, &network.wan, "10.2.0.2", 10 << 20);
    fetch(&network.wan, &network.lan, "[fd01::2]", 5 << 20);
    network.stop().expect(0).prints(&["Ports"]);
}

#[test]
fn a_link_that_fails_is_survived() {
    if !privileged("a_link_that_fails_is_survived") {
        return;
    }
    let mut network = routed("10.2.0.2");
    // Down, and up again: it goes on.
    network.middle.ip("link set wan0 down");
    assert_eq!(network.lan.run("ping -n -c 3 -i 0.05 -W 1 10.2.0.2").code(), 1);
    network.middle.ip("link set wan0 up");
    wait_for("the link to carry again", || {
        (network.lan.run("ping -n -c 1 -W 1 10.2.0.2").code() == 0).then_some(())
    });
    // Gone: the other one goes on, and the end is a clean one.
    network.middle.ip("link del wan0");
    network.lan.run("ping -n -c 3 -i 0.05 -W 1 10.2.0.2");
    let near = network.lan.succeed("ping -n -c 2 -i 0.05 -W 10 10.1.0.1");
    assert!(near.contains("2 received"), "{near}");
    let done = network.stop();
    assert!(!done.stderr.contains("panicked"), "{done:#?}");
    let done = done.expect(0).says(&["wan0", "AF_XDP"]).prints(&["interface-failed"]);
    assert!(done.stderr.len() < 4096, "it is told, but not for every packet: {}", done.stderr);
}
