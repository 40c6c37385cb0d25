//! AF_XDP as a user meets it: which way is taken, what is left behind, what is refused. The router
//! and the gateway, too, run by AF_XDP in their tests.

use std::process::Command;

use crate::control::Client;
use crate::network::{HostConfig, Network};
use crate::process::{Done, LIMIT, Running, need, privileged, run, skip, wait_for};
use crate::traffic::{fetch, listening};

/// Two hosts of one network, for something that passes frames between them.
const LAN: HostConfig = HostConfig { addresses: &["10.3.0.1/24", "fd03::1/64"], routers: &[] };
const WAN: HostConfig = HostConfig { addresses: &["10.3.0.2/24", "fd03::2/64"], routers: &[] };

/// A wire between `lan0` and `wan0`, whose ports have these arguments.
fn wire(input: &str, output: &str) -> String {
    format!(
        "FromDevice(lan0{input}) -> Queue -> ToDevice(wan0{output});
         FromDevice(wan0{input}) -> Queue -> ToDevice(lan0{output})"
    )
}

fn thruway(network: &Network, text: &str) -> Command {
    let mut command = network.middle.thruway();
    command.args(["run", "-q", "-e", text]);
    command
}

/// Runs a configuration that is refused.
#[track_caller]
fn refused(network: &Network, text: &str) -> Done {
    run(&mut thruway(network, text)).expect(1)
}

/// The network, with the wire in it, by which the hosts reach each other.
fn wired(text: &str) -> Network {
    need("ping", "iputils-ping");
    let mut network = Network::new(&LAN, &WAN);
    let mut command = thruway(&network, text);
    network.route(&mut command, "10.3.0.2");
    network
}

/// What `ip` says of an interface of the router.
fn link(network: &Network, name: &str) -> String {
    network.middle.succeed(&format!("ip link show {name}"))
}

#[test]
fn the_best_way_is_taken_and_told() {
    if !privileged("the_best_way_is_taken_and_told") {
        return;
    }
    let network = Network::new(&LAN, &WAN);
    // Nothing stands against packets of up to 64 kB, at first.
    let text =
        "from :: FromDevice(lan0) -> Queue -> to :: ToDevice(lan0); Script(wait 100ms, stop)";
    let words = "AF_PACKET (TCP packets of up to 64 kB pass whole";
    run(&mut thruway(&network, text)).expect(0).says(&["from: interface 'lan0'", words]);
    let network = network.for_af_xdp();
    // The host's stack uses one of the two.
    network.middle.ip("address add 10.4.0.1/24 dev wan0");
    network.middle.ip("tuntap add tap0 mode tap");
    network.middle.ip("link set tap0 up");
    let text =
        "from :: FromDevice(lan0) -> Queue -> to :: ToDevice(lan0); FromDevice(wan0) -> Discard;
         Idle -> ToDevice(wan0); FromDevice(tap0) -> Discard; Script(wait 200ms, print from.method, print to.method, stop)";
    let done = run(&mut thruway(&network, text)).expect(0);
    let done = done.says(&[
        "from: interface 'lan0': AF_XDP, native mode, the kernel copies, 1 queue",
        "to: interface 'lan0': AF_XDP, native mode, the kernel copies, 1 queue, sends by queue 0",
        "interface 'tap0': AF_PACKET (a TAP device",
        "interface 'wan0': AF_PACKET (the host's stack has 10.4.0.1 there, from which AF_XDP would",
    ]);
    done.prints(&["AF_XDP, native mode, the kernel copies, 1 queue\n", "sends by queue 0\n"]);
    assert!(!link(&network, "lan0").contains("xdp"));
}

/// Bytes of a packet that `lan0` receives, on average, while a file goes by, where `work` is behind
/// it, and the method that it says it takes.
fn average_of(input: &str, work: &str) -> (u64, String) {
    let mut network = Network::new(&LAN, &WAN);
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let text = format!(
        "ControlSocket(UNIX, {});
         from :: FromDevice(lan0{input}) {work} -> Queue -> ToDevice(wan0);
         FromDevice(wan0{input}) -> Queue -> ToDevice(lan0)",
        socket.display()
    );
    let mut command = thruway(&network, &text);
    network.route(&mut command, "10.3.0.2");
    fetch(&network.wan, &network.lan, "10.3.0.1", 20 << 20);
    let mut client = Client::unix(&socket);
    let average = client.number("from.byte_count") / client.number("from.count");
    let method = client.read("from.method");
    drop(client);
    network.stop().expect(0);
    (average, method)
}

#[test]
fn tcp_packets_of_virtual_links_pass_whole_where_all_behind_takes_them() {
    if !privileged("tcp_packets_of_virtual_links_pass_whole_where_all_behind_takes_them") {
        return;
    }
    need("ping", "iputils-ping");
    let (average, method) = average_of("", "-> Counter");
    assert!(average > 4000 && method.starts_with("AF_PACKET"), "{average} bytes, {method}");
    // An element that takes none, and a user who wants none.
    for (input, work) in [("", "-> Truncate(2000)"), (", METHOD XDP", "")] {
        let (average, method) = average_of(input, work);
        assert!(average <= 1514 && method.starts_with("AF_XDP"), "{average} bytes, {method}");
    }
    let (average, _) = average_of(", LARGE false", "");
    assert!(average <= 1514, "{average} bytes");
}

#[test]
fn what_generic_mode_drops_is_told_once() {
    if !privileged("what_generic_mode_drops_is_told_once") {
        return;
    }
    let mut network = wired(&wire(", XDP_MODE GENERIC", ""));
    assert!(link(&network, "lan0").contains("xdpgeneric"));
    // The host leaves its segments to be cut, and nothing does so on the way.
    let script = "exec 3<>/dev/tcp/10.3.0.2/9000; head -c 300000 /dev/zero >&3";
    let sink = "import socket; s = socket.create_server(('10.3.0.2', 9000)); c = s.accept()[0]
while c.recv(65536): pass";
    let sink = Running::start(network.wan.command("python3").args(["-c", sink]));
    listening(&network.wan, "9000");
    let sender = Running::start(network.lan.command("bash").args(["-c", script]));
    let words =
        "FromDevice@1: interface 'lan0': packets longer than its MTU come, and AF_XDP drops";
    wait_for("a word about it", || network.router_log().contains(words).then_some(()));
    drop((sender, sink));
    let done = network.stop().expect(0).says(&["AF_XDP, generic mode"]);
    assert_eq!(done.stderr.matches("packets longer than its MTU").count(), 1, "{done:#?}");
}

#[test]
fn busy_polling_passes_frames_and_works_or_says_that_it_does_not() {
    if !privileged("busy_polling_passes_frames_and_works_or_says_that_it_does_not") {
        return;
    }
    let mut network = wired(&wire(", METHOD XDP, BUSY_POLL 20", ""));
    // A driver is polled where its own interrupts are put off.
    for (file, value) in [("napi_defer_hard_irqs", "2"), ("gro_flush_timeout", "200000")] {
        let line = format!("echo {value} >/sys/class/net/lan0/{file}");
        run(network.middle.command("sh").args(["-c", &line])).expect(0);
    }
    let pings = network.lan.succeed("ping -n -c 20 -i 0.01 -W 10 10.3.0.2");
    assert!(pings.contains("20 received"), "{pings}");
    fetch(&network.lan, &network.wan, "10.3.0.2", 5 << 20);
    let is_told =
        || network.router_log().contains("FromDevice@1: interface 'lan0': BUSY_POLL has no effect");
    wait_for("packets by busy polling, or that it does not work", || {
        (is_told() || busy_polled(&network) > 0).then_some(())
    });
    assert_ne!(is_told(), busy_polled(&network) > 0, "{}", network.router_log());
    let done = network.stop().expect(0);
    assert!(done.stderr.matches("'lan0': BUSY_POLL").count() < 2, "{done:#?}");
}

/// Packets that the kernel took from drivers in busy polling.
fn busy_polled(network: &Network) -> u64 {
    let table = network.middle.succeed("cat /proc/net/netstat");
    let mut lines = table.lines().filter(|line| line.starts_with("TcpExt:"));
    let mut fields = || lines.next().expect("two lines").split_whitespace();
    let (names, values) = (fields(), fields());
    let found = names.zip(values).find(|(name, _)| *name == "BusyPollRxPackets");
    found.expect("a counter of Linux").1.parse().expect("a number")
}

#[test]
fn two_queues_are_shared_by_two_threads() {
    if !privileged("two_queues_are_shared_by_two_threads") {
        return;
    }
    need("ping", "iputils-ping");
    let mut network = Network::with_queues(&LAN, &WAN, 2);
    let one = |queue: u32| {
        format!(
            "lan{queue} :: FromDevice(lan0, METHOD XDP, QUEUE {queue})
                 -> ToDevice(wan0, METHOD XDP, QUEUE {queue});
             wan{queue} :: FromDevice(wan0, METHOD XDP, QUEUE {queue})
                 -> ToDevice(lan0, METHOD XDP, QUEUE {queue});"
        )
    };
    let threads = "StaticThreadSched(lan0 0, wan0 0, lan1 1, wan1 1);";
    let text = format!("{}{}{threads}", one(0), one(1));
    let mut command = network.middle.thruway();
    network.route(command.args(["run", "-j", "2", "-e", &text]), "10.3.0.2");
    fetch(&network.lan, &network.wan, "[fd03::2]", 20 << 20);
    fetch(&network.wan, &network.lan, "10.3.0.1", 20 << 20);
    // Flows enough for both transmit queues of the host, which pick the receive queue.
    let many = "for port in $(seq 3000 3063); do echo >/dev/udp/10.3.0.2/$port; done";
    run(network.lan.command("bash").args(["-c", many])).expect(0);
    let done = network.stop().expect(0).says(&["AF_XDP, native mode, the kernel copies, 2 queues"]);
    assert!(!done.stderr.contains("AF_PACKET"), "{done:#?}");
    let table = done.stdout;
    let packets = |name: &str| -> u64 {
        let line = table.lines().find(|line| line.trim_start().starts_with(name));
        let line = line.unwrap_or_else(|| panic!("{table}"));
        let number =
            line.split_whitespace().find(|word| word.starts_with(|c| char::is_ascii_digit(&c)));
        number.expect("a count").replace(',', "").parse().expect("a number")
    };
    let (zero, one) = (packets("lan0 "), packets("lan1 "));
    assert!(zero > 0 && one > 0 && zero + one > 1000, "{table}");
}

#[test]
fn an_interface_with_another_program_is_refused_or_used_otherwise() {
    if !privileged("an_interface_with_another_program_is_refused_or_used_otherwise") {
        return;
    }
    let network = wired(&wire(", METHOD XDP", ""));
    let words = ["interface 'lan0'", "another XDP program is attached", "xdp off"];
    refused(&network, "FromDevice(lan0, METHOD XDP) -> Discard").says(&words);
    // The other one goes on, and packet sockets remain.
    let text = "FromDevice(lan0) -> Discard; Script(wait 100ms, stop)";
    let done = run(&mut thruway(&network, text)).expect(0);
    done.says(&["AF_PACKET (no AF_XDP: interface 'lan0': another XDP program"]);
    network.lan.succeed("ping -n -c 2 -i 0.05 -W 10 10.3.0.2");
}

#[test]
fn what_af_xdp_cannot_do_is_said() {
    if !privileged("what_af_xdp_cannot_do_is_said") {
        return;
    }
    need("setpriv", "util-linux");
    let network = Network::new(&LAN, &WAN);
    refused(&network, "FromDevice(lan0, METHOD XDP, QUEUE 1) -> Discard")
        .says(&["'lan0'", "no queue 1; it has 1"]);
    refused(&network, "FromDevice(lan0, QUEUE 0) -> Discard; FromDevice(lan0, QUEUE 0) -> Discard")
        .says(&["'lan0'", "queue 0 has a receiver already"]);
    refused(&network, "FromDevice(lan0, METHOD XDP, SNIFFER true) -> Discard").says(&["SNIFFER"]);
    refused(&network, "FromDevice(lan0, METHOD XDP, OUTBOUND true) -> Discard").says(&["OUTBOUND"]);
    refused(&network, "FromDevice(nosuch0, METHOD XDP) -> Discard").says(&["there are: lo"]);
    // Each is to see every packet, which AF_XDP does not do.
    let text = "FromDevice(lan0) -> Discard; FromDevice(lan0) -> Discard; Script(wait 50ms, stop)";
    run(&mut thruway(&network, text)).expect(0).says(&["AF_PACKET (more than one FromDevice"]);
    // Root, without the rights.
    let mut command = network.middle.command("setpriv");
    command.args(["--bounding-set=-net_admin,-bpf,-sys_admin", "--inh-caps=-all"]);
    command.arg(env!("CARGO_BIN_EXE_thruway"));
    let text = "FromDevice(lan0, METHOD XDP) -> Discard";
    let done = run(command.args(["run", "-q", "-e", text])).expect(1);
    done.says(&["no permission", "'lan0'", "CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF"]);
    assert!(!link(&network, "lan0").contains("xdp"));
}

#[test]
fn jumbo_frames_go_by_packet_sockets() {
    if !privileged("jumbo_frames_go_by_packet_sockets") {
        return;
    }
    let mut network = Network::new(&LAN, &WAN).for_af_xdp();
    for (host, port) in [(&network.lan, "lan0"), (&network.wan, "wan0")] {
        network.middle.ip(&format!("link set {port} mtu 9000"));
        host.ip("link set eth0 mtu 9000");
    }
    refused(&network, "FromDevice(lan0, METHOD XDP) -> Discard").says(&[
        "'lan0'",
        "MTU of 9000",
        "1728 bytes",
        "ip link set lan0 mtu 1706",
    ]);
    let mut command = thruway(&network, &wire("", ""));
    network.route(&mut command, "10.3.0.2");
    let pings = network.lan.succeed("ping -n -c 3 -i 0.05 -W 10 -M do -s 8972 10.3.0.2");
    assert!(pings.contains("3 received"), "{pings}");
    fetch(&network.lan, &network.wan, "10.3.0.2", 20 << 20);
    network.stop().expect(0).says(&["AF_PACKET (no AF_XDP: interface 'lan0': its MTU of 9000"]);
}

/// Huge pages that the machine has for a time.
struct HugePages {
    before: String,
}

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

impl HugePages {
    /// So many more; `None` where the machine has no room for them.
    fn more(count: u64) -> Option<HugePages> {
        let number = || std::fs::read_to_string(HUGE_PAGES).expect("Linux").trim().to_owned();
        let before = number();
        let wanted = before.parse::<u64>().expect("a number") + count;
        std::fs::write(HUGE_PAGES, wanted.to_string()).expect("root may");
        let pages = HugePages { before };
        (number() == wanted.to_string()).then_some(pages)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        std::fs::write(HUGE_PAGES, &self.before).expect("root may");
    }
}

#[test]
fn zero_copy_is_tried_in_huge_pages_and_copies_do_where_there_is_none() {
    let test = "zero_copy_is_tried_in_huge_pages_and_copies_do_where_there_is_none";
    if !privileged(test) {
        return;
    }
    need("ping", "iputils-ping");
    need("strace", "strace");
    let network = Network::new(&LAN, &WAN);
    let Some(_pages) = HugePages::more(64) else {
        return skip(test, "no room for 64 huge pages");
    };
    // What is asked of the kernel is seen from outside: the driver here has no zero copy. The
    // process ends by itself, also where its observer ends before it.
    let mut command = network.middle.command("strace");
    command.args(["-f", "-e", "trace=bind", env!("CARGO_BIN_EXE_thruway"), "run", "-q"]);
    let text = wire(", METHOD XDP", "");
    let mut running =
        Running::start(command.args(["--huge-pages", "--duration", "8", "-e", &text]));
    wait_for("a ping through the wire", || {
        assert!(!running.ended(), "{}", running.stderr());
        (network.lan.run("ping -n -c 1 -W 1 10.3.0.2").code() == 0).then_some(())
    });
    fetch(&network.lan, &network.wan, "10.3.0.2", 1 << 20);
    let said = running.wait(LIMIT).expect(0).stderr;
    assert_eq!(said.matches("AF_XDP, native mode, the kernel copies").count(), 4, "{said}");
    for (flags, result) in [("XDP_ZEROCOPY", "-1 EOPNOTSUPP"), ("XDP_COPY", "0")] {
        let is = |line: &&str| {
            line.contains(&format!("sxdp_flags={flags}|XDP_USE_NEED_WAKEUP"))
                && line.contains(&format!(" = {result}"))
        };
        assert_eq!(said.lines().filter(is).count(), 2, "{flags}: {said}");
    }
}

#[test]
fn huge_pages_that_are_not_there_are_told() {
    let free = std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    if free.is_ok_and(|free| free.trim() != "0") {
        return skip("huge_pages_that_are_not_there_are_told", "there are some");
    }
    let args = ["run", "-q", "--huge-pages", "-e", "Idle -> Discard"];
    let done = run(crate::process::thruway().args(args)).expect(1);
    done.says(&["free huge pages of 2 MB are needed and 0 are free", "/proc/sys/vm/nr_hugepages"]);
}
