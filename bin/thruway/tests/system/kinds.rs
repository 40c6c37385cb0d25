//! Real traffic through each kind of port: ping, streams and datagrams both ways, files with their
//! hashes, IPv4 and IPv6.

use crate::network::{Namespace, Network, Site};
use crate::process::{Running, need, privileged, wait_for};
use crate::traffic::{fetch, iperf_both_ways};

/// Two hosts of one network, for something that passes frames between them.
const LAN: Site = Site { addresses: &["10.3.0.1/24", "fd03::1/64"], routers: &[] };
const WAN: Site = Site { addresses: &["10.3.0.2/24", "fd03::2/64"], routers: &[] };

/// What hosts do with each other; `near` has the addresses that end with 1.
fn carry(near: &Namespace, far: &Namespace) {
    for address in ["10.3.0.2", "fd03::2"] {
        let pings = near.succeed(&format!("ping -n -c 5 -i 0.05 -w 10 -s 1400 {address}"));
        assert!(pings.contains("5 received"), "{pings}");
        iperf_both_ways(near, far, address);
    }
    fetch(near, far, "10.3.0.2", 20 << 20);
    fetch(far, near, "[fd03::1]", 20 << 20);
}

/// The same by a wire whose ports have these arguments; each must be used by this way.
fn carry_by(arguments: &str, way: &str, prepare: impl Fn(&Network)) {
    need("ping", "iputils-ping");
    let mut network = Network::new(&LAN, &WAN);
    prepare(&network);
    let text = format!(
        "FromDevice(lan0, {arguments}) -> Queue -> ToDevice(wan0);
         FromDevice(wan0, {arguments}) -> Queue -> ToDevice(lan0)"
    );
    let mut command = network.middle.thruway();
    network.route(command.args(["run", "-e", &text]), "10.3.0.2");
    carry(&network.lan, &network.wan);
    let done = network.stop().expect(0);
    assert_eq!(done.stderr.matches(way).count(), 4, "{done:#?}");
    let drops = done.stdout.split_once("Drops").expect("a table of drops").1;
    // A queue may run over on a busy machine; nothing else may be lost.
    for reason in ["too-long", "offload", "refused", "interface-failed", "no-memory"] {
        assert!(!drops.contains(reason), "{drops}");
    }
}

#[test]
fn af_xdp_in_the_driver_carries_traffic() {
    if privileged("af_xdp_in_the_driver_carries_traffic") {
        carry_by("METHOD XDP", "': AF_XDP, native mode", |_| {});
    }
}

#[test]
fn af_xdp_in_the_stack_carries_traffic() {
    if !privileged("af_xdp_in_the_stack_carries_traffic") {
        return;
    }
    need("ethtool", "ethtool");
    carry_by("METHOD XDP, XDP_MODE GENERIC", "': AF_XDP, generic mode", |network| {
        for host in [&network.lan, &network.wan] {
            host.succeed("ethtool -K eth0 tso off gso off");
        }
    });
}

#[test]
fn packet_sockets_carry_traffic() {
    if privileged("packet_sockets_carry_traffic") {
        carry_by("METHOD LINUX", "': AF_PACKET (", |_| {});
    }
}

#[test]
fn a_tap_device_carries_traffic() {
    if !privileged("a_tap_device_carries_traffic") {
        return;
    }
    need("ping", "iputils-ping");
    let network = Network::new(&LAN, &WAN);
    // The kernel between the hosts is the near one here: it meets wan by the device.
    let text = "tap :: KernelTap(10.3.0.1/24, NAME tap0) -> Queue -> ToDevice(wan0);
                FromDevice(wan0) -> tap";
    let mut command = network.middle.thruway();
    let mut running = Running::start(command.args(["run", "-q", "-e", text]));
    wait_for("the device to carry", || {
        assert!(!running.ended(), "{}", running.stderr());
        let ping = network.middle.run("ping -n -c 1 -W 1 10.3.0.2");
        (ping.code() == 0).then_some(())
    });
    network.middle.ip("address add fd03::1/64 dev tap0 nodad");
    carry(&network.middle, &network.wan);
    running.interrupt().expect(0);
    // It went with the process.
    assert_ne!(network.middle.run("ip link show tap0").code(), 0);
}
