//! Real traffic through each kind of port: ping, streams and datagrams both ways, files with their
//! hashes, IPv4 and IPv6.

use crate::network::{HostConfig, Namespace, Network};
use crate::process::{LIMIT, Running, need, privileged, run, wait_for};
use crate::traffic::{fetch, iperf_both_directions};

/// Two hosts of one network, for something that passes frames between them.
const LAN: HostConfig = HostConfig { addresses: &["10.3.0.1/24", "fd03::1/64"], routers: &[] };
const WAN: HostConfig = HostConfig { addresses: &["10.3.0.2/24", "fd03::2/64"], routers: &[] };

/// What hosts do with each other; `near` has the addresses that end with 1.
fn carry(near: &Namespace, far: &Namespace) {
    for address in ["10.3.0.2", "fd03::2"] {
        let pings = near.succeed(&format!("ping -n -c 5 -i 0.05 -W 10 -s 1400 {address}"));
        assert!(pings.contains("5 received"), "{pings}");
        iperf_both_directions(near, far, address);
    }
    datagrams_that_are_cut(near, far, "10.3.0.2");
    datagrams_that_are_cut(far, near, "fd03::1");
    fetch(near, far, "10.3.0.2", 20 << 20);
    fetch(far, near, "[fd03::1]", 20 << 20);
}

/// Datagrams whose cutting the sender leaves to the interface: some hundred go down at once.
const SEND: &str = "import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
UDP_SEGMENT = 103
s.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1000)
for i in range(20):
    s.sendto(b''.join(bytes([i, j]) * 500 for j in range(40)) + b'end', (sys.argv[1], 9000))";

/// Receives them; each must be there, in order and whole.
const RECEIVE: &str = "import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
SO_RCVBUFFORCE = 33
s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
s.settimeout(20)
s.bind((sys.argv[1], 9000))
print('bound', flush=True)
for i in range(20):
    for j in range(40):
        assert s.recv(65536) == bytes([i, j]) * 500, (i, j)
    assert s.recv(65536) == b'end'";

fn datagrams_that_are_cut(from: &Namespace, to: &Namespace, address: &str) {
    need("python3", "python3");
    let mut receiving = Running::start(to.command("python3").args(["-c", RECEIVE, address]));
    wait_for("a receiver", || {
        assert!(!receiving.ended(), "{}", receiving.stderr());
        receiving.stdout().contains("bound").then_some(())
    });
    run(from.command("python3").args(["-c", SEND, address])).expect(0);
    receiving.wait(LIMIT).expect(0);
}

/// The same by a wire whose ports have these arguments; each must be used by this way.
fn carry_by(arguments: &str, way: &str, prepare: impl Fn(&Network)) {
    need("ping", "iputils-ping");
    let mut network = Network::new(&LAN, &WAN);
    prepare(&network);
    let text = format!(
        "FromDevice(lan0, {arguments}) -> Queue(4000) -> ToDevice(wan0);
         FromDevice(wan0, {arguments}) -> Queue(4000) -> ToDevice(lan0)"
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
            host.succeed("ethtool -K eth0 tso off gso off tx-udp-segmentation off");
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
    let text = "tap :: KernelTap(10.3.0.1/24, NAME tap0) -> Queue(4000) -> ToDevice(wan0);
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
