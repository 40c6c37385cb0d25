//! What may become of an interface while it is used: it goes down, loses its carrier, goes and
//! comes again, gets another MTU; under load, by each kind of port.

use crate::network::{HostConfig, Network};
use crate::process::{Running, need, privileged, wait_for};
use crate::traffic::fetch;

/// Two hosts of one network, for something that passes frames between them.
const LAN: HostConfig = HostConfig { addresses: &["10.3.0.1/24", "fd03::1/64"], routers: &[] };
const WAN: HostConfig = HostConfig { addresses: &["10.3.0.2/24", "fd03::2/64"], routers: &[] };

/// The ways to use an interface, and what is said of each.
const METHODS: [(&str, &str); 2] = [("XDP", "AF_XDP, native mode"), ("LINUX", "AF_PACKET")];

/// Two hosts, a wire between them by METHOD, and packets that go on for the whole test.
struct Loaded {
    network: Network,
    _load: Running,
}

impl Loaded {
    fn new(method: &str) -> Loaded {
        need("ping", "iputils-ping");
        let mut network = Network::new(&LAN, &WAN);
        let text = format!(
            "fl :: FromDevice(lan0, METHOD {method}) -> Queue -> tw :: ToDevice(wan0, METHOD {method});
             fw :: FromDevice(wan0, METHOD {method}) -> Queue -> tl :: ToDevice(lan0, METHOD {method})"
        );
        let mut command = network.middle.thruway();
        network.route(command.args(["run", "-e", &text]), "10.3.0.2");
        let mut load = network.lan.command("ping");
        let load = Running::start(load.args("-n -q -i 0.002 -w 60 10.3.0.2".split(' ')));
        Loaded { network, _load: load }
    }

    fn reaches(&self) -> bool {
        self.network.lan.run("ping -n -c 1 -W 1 10.3.0.2").code() == 0
    }

    /// Waits until the hosts reach each other.
    #[track_caller]
    fn wait_until_reached(&self, what: &str) {
        // A new cable has another Ethernet address.
        self.network.lan.ip("neigh flush dev eth0");
        wait_for(what, || self.reaches().then_some(()));
    }

    /// Waits until something was said so many times; it must not be said more often.
    #[track_caller]
    fn wait_for_line(&self, line: &str, count: usize) {
        let said = || self.network.router_log().lines().filter(|said| *said == line).count();
        wait_for(line, || (said() >= count).then_some(()));
        assert_eq!(said(), count, "{}", self.network.router_log());
    }
}

#[test]
fn an_interface_that_goes_down_is_told_once_and_comes_up_again() {
    if !privileged("an_interface_that_goes_down_is_told_once_and_comes_up_again") {
        return;
    }
    for (method, _) in METHODS {
        let mut loaded = Loaded::new(method);
        for count in 1..=2 {
            loaded.network.middle.ip("link set wan0 down");
            let down = "interface 'wan0' is down; bring it up: ip link set wan0 up";
            loaded.wait_for_line(&format!("fw: {down}"), count);
            loaded.wait_for_line(&format!("tw: {down}"), count);
            assert!(!loaded.reaches());
            loaded.network.middle.ip("link set wan0 up");
            loaded.wait_for_line("fw: interface 'wan0' is up again", count);
            loaded.wait_until_reached("the interface that is up again");
        }
        fetch(&loaded.network.lan, &loaded.network.wan, "10.3.0.2", 5 << 20);
        let done = loaded.network.stop().expect(0);
        assert_eq!(done.stderr.matches("'wan0' is down").count(), 4, "{done:#?}");
        // What could not be sent is counted.
        let done = done.prints(&["interface-failed"]);
        assert!(!done.stderr.contains("'lan0' is"), "{done:#?}");
    }
}

#[test]
fn a_carrier_that_is_lost_comes_again() {
    if !privileged("a_carrier_that_is_lost_comes_again") {
        return;
    }
    for (method, _) in METHODS {
        let mut loaded = Loaded::new(method);
        loaded.network.wan.ip("link set eth0 down");
        assert!(!loaded.reaches());
        loaded.network.wan.ip("link set eth0 up");
        loaded.wait_until_reached("the carrier");
        fetch(&loaded.network.wan, &loaded.network.lan, "10.3.0.1", 5 << 20);
        loaded.network.stop().expect(0);
    }
}

#[test]
fn an_interface_that_comes_again_is_used_again() {
    if !privileged("an_interface_that_comes_again_is_used_again") {
        return;
    }
    for (method, way) in METHODS {
        let mut loaded = Loaded::new(method);
        for count in 1..=2 {
            loaded.network.middle.ip("link del wan0");
            loaded.wait_for_line("tw: interface 'wan0' disappeared", count);
            let gone = "fw: interface 'wan0' disappeared; will reattach when an interface of that name appears";
            loaded.wait_for_line(gone, count);
            assert!(!loaded.reaches(), "its peer went with it");
            loaded.network.cable_wan(&WAN);
            loaded.wait_until_reached("a ping through the new cable");
        }
        fetch(&loaded.network.lan, &loaded.network.wan, "10.3.0.2", 5 << 20);
        let done = loaded.network.stop().expect(0);
        let lines = done.stderr.lines().filter(|line| line.contains("'wan0'"));
        // Both ends at the start and twice again.
        assert_eq!(lines.filter(|line| line.contains(way)).count(), 6, "{done:#?}");
        done.prints(&["interface-failed"]);
    }
}

#[test]
fn an_interface_that_comes_again_as_another_type_is_used_as_it_can_be() {
    if !privileged("an_interface_that_comes_again_as_another_type_is_used_as_it_can_be") {
        return;
    }
    let mut loaded = Loaded::new("XDP");
    loaded.network.middle.ip("link del wan0");
    // A bridge with a cable to the host, at once, so that its index may be the old one.
    loaded.network.middle.ip("link add wan0 type bridge");
    loaded.network.middle.cable("port", (&loaded.network.wan, "eth0"), "");
    loaded.network.wan.ip("address add 10.3.0.2/24 dev eth0");
    loaded.network.wan.ip("link set eth0 up");
    loaded.network.middle.ip("link set port master wan0");
    loaded.network.middle.ip("link set wan0 up");
    let why = "its driver has no native mode of XDP";
    let way =
        format!("fw: interface 'wan0': AF_XDP, generic mode ({why}), the kernel copies, 1 queue");
    loaded.wait_for_line(&way, 1);
    loaded.network.middle.ip("link del wan0");
    loaded.network.middle.ip("link del port");
    loaded.network.cable_wan(&WAN);
    loaded.wait_until_reached("a ping through the cable");
    let way = "fw: interface 'wan0': AF_XDP, native mode, the kernel copies, 1 queue";
    loaded.wait_for_line(way, 2);
    loaded.network.stop().expect(0);
}

#[test]
fn another_mtu_is_followed() {
    if !privileged("another_mtu_is_followed") {
        return;
    }
    for (method, _) in METHODS {
        let mut loaded = Loaded::new(method);
        let (lan, middle, wan) = (&loaded.network.lan, &loaded.network.middle, &loaded.network.wan);
        let ping =
            |len: u32| lan.run(&format!("ping -n -c 1 -W 1 -M do -s {len} 10.3.0.2")).code() == 0;
        let set = |mtu: u32| {
            for (host, port) in [(lan, "eth0"), (middle, "lan0"), (middle, "wan0"), (wan, "eth0")] {
                host.ip(&format!("link set {port} mtu {mtu}"));
            }
        };
        set(1700);
        wait_for("longer packets", || ping(1650).then_some(()));
        set(1300);
        wait_for("shorter packets", || ping(1250).then_some(()));
        // The host still sends long ones, and the interface has become too short for them.
        lan.ip("link set eth0 mtu 1700");
        middle.ip("link set lan0 mtu 1700");
        wan.ip("link set eth0 mtu 1700");
        for _ in 0..3 {
            assert!(!ping(1650), "it is longer than the MTU");
        }
        middle.ip("link set wan0 mtu 1700");
        wait_for("longer packets again", || ping(1650).then_some(()));
        let done = loaded.network.stop().expect(0);
        assert!(!done.stderr.contains(" is down"), "{done:#?}");
        done.prints(&["refused"]);
    }
}

#[test]
fn an_element_in_several_threads_tells_once() {
    if !privileged("an_element_in_several_threads_tells_once") {
        return;
    }
    let mut network = Network::new(&LAN, &WAN);
    // Two threads push to it.
    let text = "fl :: FromDevice(lan0, METHOD LINUX) -> to :: ToDevice(wan0, METHOD LINUX);
                fw :: FromDevice(wan0, METHOD LINUX) -> back :: ToDevice(lan0, METHOD LINUX);
                InfiniteSource(LENGTH 60, LIMIT -1) -> EtherEncap(0x88b5, 2:0:0:0:0:1, 2:0:0:0:0:2)
                    -> Queue -> pace :: RatedUnqueue(1000) -> to;
                StaticThreadSched(fl 0, fw 0, pace 1)";
    let mut command = network.middle.thruway();
    network.route(command.args(["run", "-j", "2", "-e", text]), "10.3.0.2");
    let load = Running::start(
        network.lan.command("ping").args("-n -q -i 0.002 -w 60 10.3.0.2".split(' ')),
    );
    let mut loaded = Loaded { network, _load: load };
    let way = "to: interface 'wan0': AF_PACKET (as METHOD says)";
    for count in 1..=2 {
        loaded.wait_for_line(way, count);
        loaded.network.middle.ip("link del wan0");
        loaded.wait_for_line("to: interface 'wan0' disappeared", count);
        loaded.network.cable_wan(&WAN);
        loaded.wait_until_reached("the new cable");
    }
    let done = loaded.network.stop().expect(0);
    assert_eq!(done.stderr.matches(way).count(), 3, "{done:#?}");
    assert_eq!(done.stderr.matches("to: interface 'wan0' disappeared").count(), 2, "{done:#?}");
}

#[test]
fn a_tap_device_that_is_deleted_costs_nothing() {
    if !privileged("a_tap_device_that_is_deleted_costs_nothing") {
        return;
    }
    let network = Network::new(&LAN, &WAN);
    let text = "tap :: KernelTap(10.9.0.1/24, NAME tap0) -> Discard";
    let mut command = network.middle.thruway();
    let mut running = Running::start(command.args(["run", "-q", "-e", text]));
    wait_for("the device", || {
        assert!(!running.ended(), "{}", running.stderr());
        network.middle.run("ip link show tap0").stdout.contains("UP").then_some(())
    });
    network.middle.ip("link set tap0 down");
    network.middle.ip("link set tap0 up");
    network.middle.ip("link del tap0");
    let line = "tap: interface 'tap0' disappeared\n";
    wait_for("a line about it", || (running.stderr() == line).then_some(()));
    // It sleeps: a thread that turned would use some hundred ticks of 10 ms.
    let before = ticks(running.pid());
    std::thread::sleep(std::time::Duration::from_secs(1));
    let used = ticks(running.pid()) - before;
    assert!(used < 20, "{used} ticks in a second");
    assert_eq!(running.interrupt().expect(0).stderr, line);
}

/// Time that a process used, in ticks of 10 ms.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields = stat.rsplit_once(')').expect("a name").1.split_whitespace();
    // Fields 14 and 15 of proc_pid_stat(5): in user mode and in the kernel.
    fields.skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum()
}
