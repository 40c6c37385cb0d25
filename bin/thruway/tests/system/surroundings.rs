//! examples/gateway.click among what it does not control: strangers outside, addresses that the
//! host left on its interfaces, MTUs that differ from the configuration's, routers that are
//! exchanged.

use std::net::UdpSocket;
use std::time::Duration;

use crate::gateway::gateway;
use crate::process::{privileged, run, thruway, wait_for};

#[test]
fn datagrams_that_nobody_asked_for_stay_outside() {
    if !privileged("datagrams_that_nobody_asked_for_stay_outside") {
        return;
    }
    let network = gateway(&[]);
    for (inside, outside) in [("192.168.1.2", "192.0.2.1"), ("fd00:1::10", "2001:db8:2::1")] {
        let open = |host: &crate::network::Namespace, address: &str| {
            let socket = host.within(|| UdpSocket::bind((address, 5000))).expect("a free port");
            socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a time above zero");
            socket
        };
        let (lan, wan) = (open(&network.lan, inside), open(&network.wan, outside));
        let mut bytes = [0; 16];
        for _ in 0..3 {
            wan.send_to(b"knock", (inside, 5000)).expect("it is sent");
        }
        assert!(lan.recv(&mut bytes).is_err(), "a datagram came in to {inside}");
        // An answer comes in.
        wait_for("a question", || {
            lan.send_to(b"question", (outside, 5000)).expect("it is sent");
            let (len, from) = wan.recv_from(&mut bytes).ok()?;
            assert_eq!((&bytes[..len], from.port()), (&b"question"[..], 5000));
            wan.send_to(b"answer", from).expect("it is sent");
            (lan.recv(&mut bytes).ok()? == 6).then_some(())
        });
        let ping = network.wan.run(&format!("ping -n -c 2 -W 1 {inside}"));
        assert_eq!(ping.code(), 1, "a ping came in: {ping:#?}");
    }
}

#[test]
fn packets_too_big_are_told_by_ip6() {
    if !privileged("packets_too_big_are_told_by_ip6") {
        return;
    }
    let network = gateway(&["WAN_MTU=1400"]);
    let whole = network.lan.run("ping -6 -n -c 1 -W 2 -M do -s 1400 2001:db8:2::1").stdout;
    assert!(whole.contains("mtu") && whole.contains("1400"), "{whole}");
    let fits = network.lan.succeed("ping -6 -n -c 1 -W 5 -M do -s 1300 2001:db8:2::1");
    assert!(fits.contains("1 received"), "{fits}");
}

#[test]
fn an_interface_with_a_smaller_mtu_is_noticed_and_answered_for() {
    if !privileged("an_interface_with_a_smaller_mtu_is_noticed_and_answered_for") {
        return;
    }
    let mut network = gateway(&[]);
    network.middle.ip("link set wan0 mtu 1400");
    wait_for("the ICMP error about a packet of 1428 bytes", || {
        let ping = network.lan.run("ping -n -c 1 -W 1 -M do -s 1400 192.0.2.1");
        ping.stdout.contains("mtu = 1400").then_some(())
    });
    let said = network.router_log();
    for word in ["interface 'wan0' has an MTU of 1400, less than 1500", "ip link set wan0 mtu 1500"]
    {
        assert!(said.contains(word), "no '{word}' in {said}");
    }
    network.stop().expect(0);
    // At the start, too.
    let text = "Idle -> IPFragmenter(70000, PORT lo) -> Discard";
    let done = run(thruway().args(["run", "--duration", "0.1", "-e", text])).expect(0);
    done.says(&["interface 'lo' has an MTU of 65536, less than 70000 as configured"]);
}

#[test]
fn an_address_of_the_host_on_an_interface_is_a_warning() {
    if !privileged("an_address_of_the_host_on_an_interface_is_a_warning") {
        return;
    }
    let network = gateway(&[]);
    assert!(!network.router_log().contains("warning"), "{}", network.router_log());
    let middle = &network.middle;
    middle.ip("link add left type veth peer name right");
    middle.ip("link set left up");
    middle.ip("address add 10.9.8.7/24 dev left");
    let run_text = |text: &str| {
        let mut command = middle.thruway();
        run(command.args(["run", "--duration", "0.2", "-e", text])).expect(0)
    };
    run_text("FromDevice(left) -> Queue -> ToDevice(left)").says(&[
        "interface 'left': warning: the host has the address 10.9.8.7/24 on it",
        "ip address del 10.9.8.7/24 dev left",
    ]);
    // Who only looks on takes nothing from the host.
    let looking = run_text("FromDevice(left) -> Discard");
    assert!(!looking.stderr.contains("warning"), "{looking:#?}");
}

#[test]
fn a_router_that_comes_back_with_another_address_is_found_at_once() {
    if !privileged("a_router_that_comes_back_with_another_address_is_found_at_once") {
        return;
    }
    let network = gateway(&[]);
    let wan = &network.wan;
    assert!(network.lan.run("ping -6 -n -c 1 -W 2 2001:db8:2::1").code() == 0);
    wan.ip("link set eth0 down");
    // Longer than ports take to notice.
    std::thread::sleep(Duration::from_millis(2500));
    wan.ip("link set eth0 address 02:00:00:00:77:77");
    wan.ip("link set eth0 up");
    // IPv6 addresses went with the link.
    wan.ip("address replace 2001:db8:2::1/64 dev eth0 nodad");
    wan.ip("route replace default via 192.0.2.2 dev eth0");
    wan.ip("-6 route replace default via 2001:db8:2::2 dev eth0");
    for far in ["192.0.2.1", "2001:db8:2::1"] {
        wait_for("the router with its new address", || {
            (network.lan.run(&format!("ping -n -c 1 -W 1 {far}")).code() == 0).then_some(())
        });
    }
}
