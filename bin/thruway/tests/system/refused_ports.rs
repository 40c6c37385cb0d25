//! Interfaces that cannot be used: each error word by word, with its remedy; nothing is changed.

use std::process::Command;

use crate::network::{HostConfig, Namespace, Network};
use crate::process::{Done, need, privileged, run};

/// Hosts that nobody connects here.
const SITE: HostConfig = HostConfig { addresses: &[], routers: &[] };

fn thruway(network: &Network, text: &str) -> Command {
    let mut command = network.middle.thruway();
    command.args(["run", "-q", "-e", text]);
    command
}

/// The same without some of root's rights.
fn without(network: &Network, rights: &str, text: &str) -> Command {
    need("setpriv", "util-linux");
    let mut command = network.middle.command("setpriv");
    // The right to everything implies others.
    command.arg(format!("--bounding-set=-sys_admin,{rights}"));
    command.arg(env!("CARGO_BIN_EXE_thruway")).args(["run", "-q", "-e", text]);
    command
}

/// What is set of the interfaces, without their carriers, which come by themselves.
fn links(network: &Network) -> Vec<String> {
    let text = network.middle.succeed("ip -d link");
    let words = text.split_whitespace().filter(|word| !word.starts_with('<'));
    let states = ["UP", "DOWN", "UNKNOWN", "LOWERLAYERDOWN"];
    words.filter(|word| !states.contains(word)).map(str::to_owned).collect()
}

/// Runs what is refused; the first line must be this error. The interfaces must stay as they were.
#[track_caller]
fn refused(network: &Network, command: &mut Command, error: &str) -> Done {
    let before = links(network);
    let done = run(command).expect(1);
    assert_eq!(done.stderr.lines().next(), Some(&*format!("error: {error}")), "{done:#?}");
    assert_eq!(links(network), before);
    done
}

/// Runs for a moment; the first line must be this one.
#[track_caller]
fn expect_line(network: &Network, text: &str, line: &str) {
    let text = format!("{text}; Script(wait 100ms, stop)");
    let done = run(&mut thruway(network, &text)).expect(0);
    assert_eq!(done.stderr.lines().next(), Some(line), "{done:#?}");
}

/// The error of missing rights for AF_XDP at this step.
fn no_right(step: &str) -> String {
    format!(
        "no permission to use interface 'lan0' ({step}): it needs CAP_NET_RAW, CAP_NET_ADMIN and \
         CAP_BPF; run as root, or: setcap cap_net_raw,cap_net_admin,cap_bpf+ep PROGRAM"
    )
}

#[test]
fn interfaces_that_are_not_there_or_down() {
    if !privileged("interfaces_that_are_not_there_or_down") {
        return;
    }
    let network = Network::new(&SITE, &SITE);
    network.middle.ip("link set wan0 down");
    for method in ["", ", METHOD XDP", ", METHOD LINUX"] {
        for (name, error) in [
            ("nosuch0", "no interface 'nosuch0'; there are: lo, lan0, wan0"),
            ("wan0", "interface 'wan0' is down; bring it up: ip link set wan0 up"),
            ("a-name-of-sixteen", "no interface 'a-name-of-sixteen'; there are: lo, lan0, wan0"),
        ] {
            for text in [
                format!("FromDevice({name}{method}) -> Discard"),
                format!("Idle -> Queue -> ToDevice({name}{method})"),
                format!("Idle -> ToDevice({name}{method})"),
            ] {
                refused(&network, &mut thruway(&network, &text), error);
            }
        }
    }
}

#[test]
fn rights_that_are_missing() {
    if !privileged("rights_that_are_missing") {
        return;
    }
    let network = Network::new(&SITE, &SITE);
    let map = no_right("bpf(BPF_MAP_CREATE) of a socket map");
    let socket = no_right("socket(AF_XDP)");
    let lock = "interface 'lan0': 124 MB of packet memory cannot be locked for AF_XDP; run as root, \
                raise the limit (ulimit -l), or: setcap cap_ipc_lock+ep PROGRAM";
    let packet = "no permission to use interface 'lan0' (socket(AF_PACKET)): it needs CAP_NET_RAW; \
                  run as root, or: setcap cap_net_raw+ep PROGRAM";
    let tap = "no permission to use interface 'tap0' (TUNSETIFF): it needs CAP_NET_ADMIN; run as \
               root, or: setcap cap_net_admin+ep PROGRAM";
    let (xdp_in, xdp_out) =
        ("FromDevice(lan0, METHOD XDP) -> Discard", "Idle -> ToDevice(lan0, METHOD XDP)");
    for (rights, text, error) in [
        ("-bpf", xdp_in, &*map),
        ("-net_admin,-bpf", xdp_in, &map),
        ("-net_raw", xdp_in, &socket),
        ("-net_raw", xdp_out, &socket),
        ("-ipc_lock", xdp_in, lock),
        ("-ipc_lock", xdp_out, lock),
        ("-net_raw", "FromDevice(lan0, METHOD LINUX) -> Discard", packet),
        ("-net_raw", "Idle -> ToDevice(lan0, METHOD LINUX)", packet),
        ("-net_raw", "FromDevice(lan0) -> Discard", packet),
        ("-net_admin", "KernelTap(10.9.0.1/24, NAME tap0) -> Discard", tap),
        ("-net_admin", "FromHost(tap0, 10.9.0.1/24) -> Discard", tap),
    ] {
        refused(&network, &mut without(&network, rights, text), error);
    }
    // Where nothing is asked for, what is allowed is used, and why is said.
    let text = "from :: FromDevice(lan0) -> Discard; Script(wait 100ms, stop)";
    for (rights, error) in [("-bpf", &*map), ("-ipc_lock", lock)] {
        let done = run(&mut without(&network, rights, text)).expect(0);
        let line = format!("from: interface 'lan0': AF_PACKET (no AF_XDP: {error})\n");
        assert_eq!(done.stderr, line);
    }
}

#[test]
fn numbers_of_queues_that_a_driver_refuses() {
    if !privileged("numbers_of_queues_that_a_driver_refuses") {
        return;
    }
    let network = Network::new(&SITE, &SITE);
    network.middle.ip("link del lan0");
    // A veth wants a receive queue for each transmit queue of the other end.
    let peer = Namespace::new("peer");
    network.middle.cable("lan0", (&peer, "eth0"), "numrxqueues 1 numtxqueues 3");
    peer.ip("link set eth0 up");
    let why = "its driver refuses XDP with its number of receive queues, 1; a veth interface needs at \
               least as many as its other end has transmit queues: ethtool -L lan0 rx N, or at the \
               other end: ethtool -L PEER tx 1";
    let text = "FromDevice(lan0, XDP_MODE NATIVE) -> Discard";
    refused(&network, &mut thruway(&network, text), &format!("interface 'lan0': {why}"));
    let line = format!("from: interface 'lan0': AF_PACKET (no AF_XDP: interface 'lan0': {why})");
    expect_line(&network, "from :: FromDevice(lan0) -> Discard", &line);
    let line =
        format!("from: interface 'lan0': AF_XDP, generic mode ({why}), the kernel copies, 1 queue");
    expect_line(&network, "from :: FromDevice(lan0, METHOD XDP) -> Discard", &line);
    // The remedy helps.
    need("ethtool", "ethtool");
    peer.succeed("ethtool -L eth0 tx 1");
    let line = "from: interface 'lan0': AF_XDP, native mode, the kernel copies, 1 queue";
    expect_line(&network, "from :: FromDevice(lan0) -> Discard", line);
}

#[test]
fn interfaces_without_a_driver_for_it() {
    if !privileged("interfaces_without_a_driver_for_it") {
        return;
    }
    let network = Network::new(&SITE, &SITE);
    network.middle.ip("link add ifb9 type ifb");
    network.middle.ip("link set ifb9 up");
    network.middle.ip("tuntap add tun0 mode tun");
    network.middle.ip("link set tun0 up");
    let error = "interface 'ifb9': its driver has no native mode of XDP";
    let text = "FromDevice(ifb9, XDP_MODE NATIVE) -> Discard";
    refused(&network, &mut thruway(&network, text), error);
    let error = "interface 'tun0': AF_XDP needs an Ethernet interface";
    let text = "FromDevice(tun0, METHOD XDP) -> Discard";
    refused(&network, &mut thruway(&network, text), error);
    expect_line(
        &network,
        "from :: FromDevice(ifb9, METHOD XDP) -> Discard",
        "from: interface 'ifb9': AF_XDP, generic mode (its driver has no native mode of XDP), the \
         kernel copies, 1 queue",
    );
    expect_line(
        &network,
        "from :: FromDevice(ifb9) -> Discard",
        "from: interface 'ifb9': AF_PACKET (no AF_XDP: interface 'ifb9': its driver has no native mode \
         of XDP)",
    );
}

#[test]
fn mtus_that_are_longer_than_a_frame() {
    if !privileged("mtus_that_are_longer_than_a_frame") {
        return;
    }
    let network = Network::new(&SITE, &SITE);
    network.middle.ip("link set lan0 mtu 1707");
    let why = "its MTU of 1707 makes frames longer than the 1728 bytes of AF_XDP frames; ip link set \
               lan0 mtu 1706, or use packet sockets (METHOD LINUX)";
    let text = "FromDevice(lan0, METHOD XDP) -> Discard";
    refused(&network, &mut thruway(&network, text), &format!("interface 'lan0': {why}"));
    let line = format!("from: interface 'lan0': AF_PACKET (no AF_XDP: interface 'lan0': {why})");
    expect_line(&network, "from :: FromDevice(lan0) -> Discard", &line);
    // The remedy helps.
    network.middle.ip("link set lan0 mtu 1706");
    network.lan.ip("link set eth0 up");
    let line = "from: interface 'lan0': AF_XDP, native mode, the kernel copies, 1 queue";
    expect_line(&network, "from :: FromDevice(lan0) -> Discard", line);
}

#[test]
fn devices_that_cannot_be_made() {
    if !privileged("devices_that_cannot_be_made") {
        return;
    }
    let network = Network::new(&SITE, &SITE);
    network.middle.ip("tuntap add tun0 mode tun");
    let there = "there is an interface of that name, or it is no name; give another (NAME)";
    for (text, error) in [
        ("KernelTap(10.9.0.1/24, NAME lan0)", format!("interface 'lan0': {there}")),
        ("KernelTap(10.9.0.1/24, NAME tun0)", format!("interface 'tun0': {there}")),
        ("KernelTap(10.9.0.1/24, NAME a/b)", format!("interface 'a/b': {there}")),
        (
            "KernelTap(10.9.0.1/24, NAME tap0, MTU 67)",
            "interface 'tap0': an MTU of 67 is out of range; give one from 68 on".to_owned(),
        ),
        (
            "KernelTap(10.9.0.1/24, NAME tap0, ETHER 03:00:00:00:00:01)",
            "ETHER: a group's address; the first byte must be even".to_owned(),
        ),
        (
            "KernelTap(10.9.0.1/24, NAME a-name-of-sixteen)",
            "interface 'a-name-of-sixteen': an interface name has at most 15 bytes".to_owned(),
        ),
        (
            "KernelTap(10.9.0.1/24, NAME tap0) -> Discard; KernelTap(10.9.0.1/24, NAME tap0)",
            "interface 'tap0': another program or element has it; give this one another name (NAME)"
                .to_owned(),
        ),
    ] {
        refused(&network, &mut thruway(&network, &format!("{text} -> Discard")), &error);
    }
}
