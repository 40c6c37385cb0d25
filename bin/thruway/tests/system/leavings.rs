//! Nothing is left on the machine: after `kill -9`, an ordered end, and a start that was refused.

use std::process::Command;
use std::time::Instant;

use rustix::process::Signal;

use crate::network::{HostConfig, Namespace, Network};
use crate::process::{LIMIT, Running, need, privileged, run, wait_for};

/// Two hosts of one network, for something that passes frames between them.
const LAN: HostConfig = HostConfig { addresses: &["10.3.0.1/24", "fd03::1/64"], routers: &[] };
const WAN: HostConfig = HostConfig { addresses: &["10.3.0.2/24", "fd03::2/64"], routers: &[] };

/// A wire between the hosts, whose ports have these arguments.
fn wire(arguments: &str) -> String {
    format!(
        "FromDevice(lan0, {arguments}) -> Queue -> ToDevice(wan0);
         FromDevice(wan0, {arguments}) -> Queue -> ToDevice(lan0)"
    )
}

fn thruway(network: &Network, text: &str) -> Command {
    let mut command = network.middle.thruway();
    command.args(["run", "-q", "-e", text]);
    command
}

/// All that can be seen of the interfaces of a host: programs, promiscuity, queues, offloads,
/// disciplines, addresses, routes, rules.
fn settings(host: &Namespace) -> Vec<String> {
    let links = host.succeed("ip -br link");
    let names = links.lines().filter_map(|line| line.split([' ', '@']).next());
    let offloads = names.map(|name| host.run(&format!("ethtool -k {name}")).stdout);
    let lines = ["ip -d link", "ip address", "ip route", "ip rule", "tc qdisc show"];
    let rest = lines.map(|line| host.succeed(line));
    rest.into_iter().chain(offloads).flat_map(|text| lines_of(&text)).collect()
}

fn lines_of(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// The same of all hosts.
fn all_settings(network: &Network) -> Vec<String> {
    [&network.lan, &network.middle, &network.wan].map(settings).concat()
}

/// What there is before anything runs, once carriers and addresses are settled.
fn settled(network: &Network) -> Vec<String> {
    wait_for("links that are settled", || {
        let now = all_settings(network);
        let is_open = |line: &String| line.contains("NO-CARRIER") || line.contains("tentative");
        (!now.iter().any(is_open)).then_some(now)
    })
}

/// Waits until all is as it was.
#[track_caller]
fn wait_for_settings(network: &Network, before: &[String]) {
    let begin = Instant::now();
    loop {
        let now = all_settings(network);
        if now == before {
            return;
        }
        if begin.elapsed() > LIMIT / 3 {
            let new: Vec<_> = now.iter().filter(|line| !before.contains(line)).collect();
            let old: Vec<_> = before.iter().filter(|line| !now.contains(line)).collect();
            panic!("these are new: {new:#?}; these went: {old:#?}");
        }
    }
}

/// The ways to use an interface: arguments of its ports, and what `ip -d link` shows meanwhile.
const METHODS: [(&str, &str); 4] = [
    ("METHOD XDP, PROMISC true", "promiscuity 1"),
    ("METHOD XDP, XDP_MODE GENERIC", "xdpgeneric"),
    ("METHOD LINUX, PROMISC true", "promiscuity 1"),
    ("METHOD XDP, BUSY_POLL 20", " xdp "),
];

/// A wire that carries; by it the hosts reach each other.
fn carrying(network: &Network, command: &mut Command) -> Running {
    let mut running = Running::start(command);
    wait_for("a ping through the wire", || {
        assert!(!running.ended(), "{}", running.stderr());
        (network.lan.run("ping -n -c 1 -W 1 10.3.0.2").code() == 0).then_some(())
    });
    running
}

#[test]
fn a_killed_process_leaves_the_machine_as_it_was() {
    if !privileged("a_killed_process_leaves_the_machine_as_it_was") {
        return;
    }
    need("ethtool", "ethtool");
    need("tc", "iproute2");
    let network = Network::new(&LAN, &WAN);
    let before = settled(&network);
    for (arguments, meanwhile) in METHODS {
        let running = carrying(&network, &mut thruway(&network, &wire(arguments)));
        let links = network.middle.succeed("ip -d link show lan0");
        assert!(links.contains(meanwhile), "{arguments}: {links}");
        running.signal(Signal::KILL);
        assert_eq!(running.wait(LIMIT).code(), -1);
        wait_for_settings(&network, &before);
    }
}

#[test]
fn a_process_that_ends_leaves_the_machine_as_it_was() {
    if !privileged("a_process_that_ends_leaves_the_machine_as_it_was") {
        return;
    }
    need("ethtool", "ethtool");
    let network = Network::new(&LAN, &WAN);
    let before = settled(&network);
    for (arguments, _) in METHODS {
        let running = carrying(&network, &mut thruway(&network, &wire(arguments)));
        running.interrupt().expect(0);
        wait_for_settings(&network, &before);
        // The first port is opened, and the second one is refused.
        let text =
            format!("FromDevice(lan0, {arguments}) -> Discard; FromDevice(nosuch0) -> Discard");
        run(&mut thruway(&network, &text)).expect(1).says(&["no interface 'nosuch0'"]);
        wait_for_settings(&network, &before);
    }
}

#[test]
fn a_tap_device_goes_with_its_process() {
    if !privileged("a_tap_device_goes_with_its_process") {
        return;
    }
    need("ethtool", "ethtool");
    let network = Network::new(&LAN, &WAN);
    let before = settled(&network);
    let text = "KernelTap(10.9.0.1/24, 10.9.0.2, NAME tap0) -> Discard;
                FromHost(tap1, 10.8.0.1/24) -> Discard; Idle -> ToHostSniffers(tap1)";
    for signal in [Signal::KILL, Signal::INT] {
        let mut running = Running::start(&mut thruway(&network, text));
        wait_for("the devices", || {
            assert!(!running.ended(), "{}", running.stderr());
            let settings = settings(&network.middle).concat();
            let words = ["tap0", "tap1", "default via 10.9.0.2"];
            words.iter().all(|word| settings.contains(word)).then_some(())
        });
        running.signal(signal);
        running.wait(LIMIT);
        wait_for_settings(&network, &before);
    }
}

#[test]
fn a_process_that_was_killed_is_started_again_at_once() {
    if !privileged("a_process_that_was_killed_is_started_again_at_once") {
        return;
    }
    let network = Network::new(&LAN, &WAN);
    // The queues, and the program's place, may still be the previous owner's for a moment.
    let text = wire("METHOD XDP");
    let command = || thruway(&network, &text);
    for signal in [[Signal::KILL, Signal::INT, Signal::TERM]; 3].concat() {
        let mut running = Running::start(&mut command());
        wait_for("both interfaces", || {
            assert!(!running.ended(), "{}", running.stderr());
            (running.stderr().matches("AF_XDP, native mode").count() == 4).then_some(())
        });
        running.signal(signal);
        running.wait(LIMIT);
    }
    carrying(&network, &mut command());
}

/// Whether the middle's own stack answers the host in the LAN.
fn is_answered(network: &Network) -> bool {
    network.lan.run("ping -n -c 1 -W 1 10.3.0.9").code() == 0
}

#[test]
fn packets_that_are_kept_from_the_stack_reach_it_afterwards() {
    if !privileged("packets_that_are_kept_from_the_stack_reach_it_afterwards") {
        return;
    }
    let network = Network::new(&LAN, &WAN);
    network.middle.ip("address add 10.3.0.9/24 dev lan0");
    wait_for("an answer before", || is_answered(&network).then_some(()));
    let text = "FromDevice(lan0, METHOD LINUX, SNIFFER false) -> c :: Counter -> Discard;
                Script(label again, wait 10ms, print $(c.count), goto again)";
    let count = |process: &Running| -> u64 {
        let counts = process.stdout();
        counts.lines().last().and_then(|line| line.trim().parse().ok()).unwrap_or(0)
    };
    for signal in [Signal::INT, Signal::KILL] {
        let process = Running::start(&mut thruway(&network, text));
        wait_for("silence", || (count(&process) > 0 && !is_answered(&network)).then_some(()));
        let before = count(&process);
        assert!(!is_answered(&network), "the stack answers while its packets are kept from it");
        wait_for("packets", || (count(&process) > before).then_some(()));
        process.signal(signal);
        process.wait(LIMIT);
        wait_for("an answer afterwards", || is_answered(&network).then_some(()));
    }
}
