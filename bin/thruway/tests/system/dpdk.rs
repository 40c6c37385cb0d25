//! Ports of DPDK, by its virtual devices: real packets through them, and what is refused.

use std::process::Command;

use crate::control::Client;
use crate::network::Namespace;
use crate::process::{Done, LIMIT, Running, click, need, privileged, root, run, thruway, wait_for};
use crate::traffic::{fetch, iperf_both_directions};

/// Packets that the test's capture has.
const PACKETS: u64 = 10_182;

fn capture() -> String {
    root().join("examples/captures/lan.pcap").display().to_string()
}

/// Runs a configuration to its end.
#[track_caller]
fn play(text: &str) -> Done {
    run(thruway().args(["run", "-q", "-e", text])).expect(0)
}

/// Runs a configuration that is refused, and leaves nothing.
#[track_caller]
fn refused(text: &str) -> Done {
    let before = traces();
    let done = run(thruway().args(["run", "-q", "-e", text])).expect(1);
    assert_eq!(traces(), before);
    done
}

/// Files of DPDK on this host.
fn traces() -> Vec<String> {
    let list = |dir: &str| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path().display().to_string()).collect::<Vec<_>>()
    };
    let mut all = ["/var/run/dpdk", "/var/run/dpdk/rte", "/dev/hugepages"].map(list).concat();
    all.sort();
    all
}

/// A capture's packets, without their times.
fn packets(file: &str) -> String {
    need("tcpdump", "tcpdump");
    let done = run(Command::new("tcpdump").args(["-n", "-t", "-xx", "-r", file]));
    done.expect(0).stdout
}

/// Asserts that two captures have the same packets in the same order.
#[track_caller]
fn same(file: &str, original: &str) {
    assert!(packets(file) == packets(original), "{file} differs from {original}");
}

#[test]
fn captures_pass_unchanged() {
    let dir = tempfile::tempdir().expect("a directory");
    let copy = dir.path().join("copy.pcap").display().to_string();
    let (original, traces_before) = (capture(), traces());
    let done = play(&format!(
        "f :: FromDPDKDevice(\"net_pcap0,rx_pcap={original},tx_pcap={copy}\")
             -> c :: Counter(COUNT_CALL {PACKETS} stop) -> t :: ToDPDKDevice(net_pcap0);
         DriverManager(wait_stop, print f.driver, print f.count, print t.count)"
    ));
    done.prints(&["net_pcap", "10182\n10182\n"]).says(&["f: interface 'net_pcap0", "DPDK 2"]);
    same(&copy, &original);
    assert_eq!(traces(), traces_before);
}

#[test]
fn a_ring_keeps_order_and_content() {
    let dir = tempfile::tempdir().expect("a directory");
    let copy = dir.path().join("copy.pcap").display().to_string();
    let original = capture();
    play(&format!(
        "FromDump({original}) -> ToDPDKDevice(net_ring0);
         FromDPDKDevice(net_ring0) -> Counter(COUNT_CALL {PACKETS} stop)
             -> ToDump({copy}, SNAPLEN 0)"
    ));
    same(&copy, &original);
}

#[test]
fn threads_share_a_port() {
    let done = run(click(&["-j", "2"]).args([
        "-e",
        "a :: FromDPDKDevice(net_null0) -> ta :: ToDPDKDevice(net_null0);
         b :: FromDPDKDevice(net_null0) -> tb :: ToDPDKDevice(net_null0);
         StaticThreadSched(a 0, b 1);
         Script(label again, wait 20ms, goto again $(or $(eq 0 $(a.count)) $(eq 0 $(b.count))),
             print a.queues, print b.queues, stop)",
    ]));
    let done = done.expect(0).prints(&["0\n1\n"]);
    done.says(&["2 queues to receive, spread alike for both directions, 2 to send"]);
}

#[test]
fn one_element_reads_in_several_threads() {
    let before = traces();
    let done = run(thruway().args([
        "run",
        "-q",
        "-j",
        "2",
        "-e",
        "f :: FromDPDKDevice(net_null0) -> s :: CPUSwitch;
         s[0] -> c0 :: Counter -> t :: ToDPDKDevice(net_null0); s[1] -> c1 :: Counter -> t;
         Script(label again, wait 20ms, goto again $(or $(eq 0 $(c0.count)) $(eq 0 $(c1.count))),
             write f.active false,
             label settling, wait 20ms, goto settling $(ne $(f.count) $(t.hw_count)),
             print f.queues, print $(eq $(f.count) $(add $(c0.count) $(c1.count))),
             print $(eq $(f.count) $(t.count)), stop)",
    ]));
    let done = done.expect(0).prints(&["0-1\ntrue\ntrue\n"]);
    done.says(&["2 queues to receive, spread alike for both directions, 2 to send"]);
    assert_eq!(traces(), before);
}

#[test]
fn each_thread_keeps_the_order_of_its_queue() {
    let dir = tempfile::tempdir().expect("a directory");
    let copy = |name: &str| dir.path().join(name).display().to_string();
    let (original, first, second) = (capture(), copy("0.pcap"), copy("1.pcap"));
    let text = format!(
        "a :: FromDump({original}) -> t :: ToDPDKDevice(net_ring0);
         b :: FromDump({original}) -> t; StaticThreadSched(a 0, b 1);
         FromDPDKDevice(net_ring0) -> s :: CPUSwitch;
         s[0] -> c0 :: Counter -> ToDump({first}, SNAPLEN 0);
         s[1] -> c1 :: Counter -> ToDump({second}, SNAPLEN 0);
         Script(label again, wait 20ms,
             goto again $(or $(lt $(c0.count) {PACKETS}) $(lt $(c1.count) {PACKETS})), stop)"
    );
    run(thruway().args(["run", "-q", "-j", "2", "-e", &text])).expect(0);
    same(&first, &original);
    same(&second, &original);
}

#[test]
fn two_threads_send_by_one_queue_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (original, copy) = (capture(), file("copy.pcap"));
    // Such a device has one queue to send by. All that waits for it has room.
    let done = run(thruway().args(["run", "-q", "-j", "2", "-e"]).arg(format!(
        "a :: FromDump({original}) -> StoreData(0, \\<0a>)
             -> t :: ToDPDKDevice(\"net_pcap0,tx_pcap={copy}\", IQUEUE 30000);
         b :: FromDump({original}) -> StoreData(0, \\<0b>) -> t; StaticThreadSched(a 0, b 1);
         Script(label again, wait 20ms, goto again $(lt $(t.count) $(mul 2 {PACKETS})),
             print t.count, stop)"
    )));
    let done = done.expect(0).prints(&[&format!("{}\n", 2 * PACKETS)]);
    done.says(&["no queue to send by is left for thread 1: thread 0 sends for it"]);
    for first in ["0a", "0b"] {
        let (own, theirs) = (file("own.pcap"), file("theirs.pcap"));
        play(&format!("FromDump({copy}, STOP true) -> Classifier(0/{first}) -> ToDump({own})"));
        play(&format!(
            "FromDump({original}, STOP true) -> StoreData(0, \\<{first}>) -> ToDump({theirs})"
        ));
        same(&own, &theirs);
    }
    // Each element has a queue of its own.
    let two = format!(
        "Idle -> ToDPDKDevice(\"net_pcap1,tx_pcap={copy}\"); Idle -> ToDPDKDevice(net_pcap1)"
    );
    refused(&two).says(&["'net_pcap1", "at most 1 queues to send by, and 2 are wanted"]);
}

#[test]
fn threads_are_no_more_than_queues() {
    let dir = tempfile::tempdir().expect("a directory");
    let copy = dir.path().join("copy.pcap").display().to_string();
    let original = capture();
    // Such a device has one queue, and says so in its arguments.
    let done = run(thruway().args(["run", "-q", "-j", "2", "-e"]).arg(format!(
        "f :: FromDPDKDevice(\"net_pcap0,rx_pcap={original}\")
             -> Counter(COUNT_CALL {PACKETS} stop) -> ToDump({copy}, SNAPLEN 0);
         DriverManager(wait_stop, print f.queues)"
    )));
    done.expect(0).prints(&["0\n"]).says(&["1 queue to receive, 0 to send"]);
    same(&copy, &original);
    let many = "FromDPDKDevice(net_null0, N_QUEUES 3, MAXTHREADS 2) -> Discard;
                Script(print FromDPDKDevice@1.queues, stop)";
    let done = run(thruway().args(["run", "-q", "-j", "2", "-e", many]));
    done.expect(0).prints(&["0-2\n"]).says(&["3 queues to receive"]);
    let few = "FromDPDKDevice(net_null0, N_QUEUES 1, THREADS 0-1) -> Discard;
               Script(print FromDPDKDevice@1.queues, stop)";
    let done = run(thruway().args(["run", "-q", "-j", "2", "-e", few]));
    done.expect(0).prints(&["0\n"]);
}

/// Moves an interface of `from` to a host, as its `eth0`.
fn take(host: &Namespace, from: &Namespace, port: &str) {
    host.within(|| {
        let thread = rustix::thread::gettid().as_raw_nonzero();
        from.ip(&format!("link set {port} netns {thread} name eth0"));
    });
}

/// A wire of two TAP devices in `middle`, whose kernel's ends are in `lan` and `wan`, as `eth0`.
fn tapped(lan: &Namespace, middle: &Namespace, wan: &Namespace) -> Running {
    let text =
        "FromDPDKDevice(\"net_tap0,iface=lan0\") -> Queue -> ToDPDKDevice(\"net_tap1,iface=wan0\");
                FromDPDKDevice(net_tap1) -> ToDPDKDevice(net_tap0)";
    let mut running = Running::start(middle.thruway().args(["run", "-q", "-e", text]));
    for (host, port, address) in [(lan, "lan0", "10.3.0.1/24"), (wan, "wan0", "10.3.0.2/24")] {
        wait_for("the TAP devices", || {
            assert!(!running.ended(), "{}", running.stderr());
            (middle.run(&format!("ip link show {port} up")).stdout.contains(port)).then_some(())
        });
        take(host, middle, port);
        host.ip(&format!("address add {address} dev eth0"));
        host.ip("link set eth0 up");
    }
    running
}

#[test]
fn real_traffic_passes_tap_devices() {
    if !privileged("real_traffic_passes_tap_devices") {
        return;
    }
    need("ping", "iputils-ping");
    let (lan, middle, wan) = (Namespace::new("lan"), Namespace::new("wire"), Namespace::new("wan"));
    let running = tapped(&lan, &middle, &wan);
    let pings = lan.succeed("ping -n -c 20 -i 0.02 -W 10 -s 1400 10.3.0.2");
    assert!(pings.contains("20 received"), "{pings}");
    fetch(&lan, &wan, "10.3.0.2", 5 << 20);
    iperf_both_directions(&lan, &wan, "10.3.0.2");
    running.interrupt().expect(0).says(&["net_tap"]);
    // The devices went with the program.
    assert!(!lan.run("ip link").stdout.contains("eth0"));
    assert!(!wan.run("ip link").stdout.contains("eth0"));
}

/// Sends an interface ten IPv4 frames with a wrong header checksum, and ten with a right one.
const SEND: &str = "
import socket, struct, sys
ends = socket.inet_aton('10.3.0.1') + socket.inet_aton('10.3.0.2')
header = lambda sum: struct.pack('!BBHHHBBH', 0x45, 0, 40, 1, 0, 64, 253, sum) + ends
words = sum(struct.unpack('!10H', header(0)))
right = 0xffff - (words % 0xffff)
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((sys.argv[1], 0))
for _ in range(10):
    for value in (right ^ 1, right):
        out.send(bytes(5 * [2] + 5 * [2] + [2, 2]) + bytes([8, 0]) + header(value) + bytes(20))
";

/// What ends a run with a TAP device that is sent these, when so many packets came. Its driver
/// wants as many queues to send by as to receive.
fn checked(middle: &Namespace, arguments: &str, count: u32) -> Done {
    let text = format!(
        "f :: FromDPDKDevice(\"net_tap0,iface=lan0\", {arguments})
             -> k :: Classifier(12/0800, -) -> c :: Counter -> Discard; k[1] -> Discard;
         Idle -> ToDPDKDevice(net_tap0);
         Script(label again, wait 20ms, goto again $(lt $(c.count) {count}),
             print f.offloads, print c.count, print f.drops, stop)"
    );
    let mut running = Running::start(middle.thruway().args(["run", "-q", "-e", &text]));
    wait_for("the TAP device", || {
        assert!(!running.ended(), "{}", running.stderr());
        middle.run("ip link show lan0 up").stdout.contains("lan0").then_some(())
    });
    run(middle.command("python3").args(["-c", SEND, "lan0"])).expect(0);
    running.wait(LIMIT).expect(0)
}

#[test]
fn a_port_checks_header_checksums() {
    if !privileged("a_port_checks_header_checksums") {
        return;
    }
    need("python3", "python3");
    let middle = Namespace::new("checked");
    let done = checked(&middle, "", 10);
    done.prints(&["IPv4 header checksum: used\n10\n", "\n10 bad-checksum\n"]);
    let done = checked(&middle, "CHECKSUM false", 20);
    done.prints(&["IPv4 header checksum: not used\n20\n", "\n0 bad-checksum\n"]);
    let text = "f :: FromDPDKDevice(net_null0) -> Discard; Script(print f.offloads, stop)";
    play(text).prints(&["none\n"]);
}

#[test]
fn real_traffic_passes_packet_sockets() {
    if !privileged("real_traffic_passes_packet_sockets") {
        return;
    }
    need("ping", "iputils-ping");
    let (lan, middle) = (Namespace::new("lan"), Namespace::new("mirror"));
    middle.cable("lan0", (&lan, "eth0"), "");
    lan.ip("address add 10.3.0.1/24 dev eth0");
    lan.ip("link set eth0 up");
    lan.ip("neigh add 10.3.0.2 lladdr 02:00:00:00:00:02 dev eth0");
    let text = "FromDPDKDevice(\"net_af_packet0,iface=lan0\") -> Classifier(12/0800 23/01)
         -> Strip(14) -> CheckIPHeader -> ICMPPingResponder
         -> EtherEncap(0x0800, 02:00:00:00:00:02, ff:ff:ff:ff:ff:ff)
         -> ToDPDKDevice(net_af_packet0)";
    let running = Running::start(middle.thruway().args(["run", "-q", "-e", text]));
    wait_for("the first ping", || {
        (lan.run("ping -n -c 1 -W 1 10.3.0.2").code() == 0).then_some(())
    });
    let pings = lan.succeed("ping -n -c 20 -i 0.02 -W 10 10.3.0.2");
    assert!(pings.contains("20 received"), "{pings}");
    running.interrupt().expect(0);
}

#[test]
fn a_hot_swap_goes_on_with_the_port() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("socket");
    let text = |more: &str| {
        format!(
            "ControlSocket(UNIX, {}); DPDKInfo(--no-pci);
             f :: FromDPDKDevice(net_null0) -> c :: Counter -> t :: ToDPDKDevice(net_null0); {more}",
            socket.display()
        )
    };
    let running = Running::start(thruway().args(["run", "-q", "-R", "-e", &text("")]));
    let mut client = Client::unix(&socket);
    let flows = |client: &mut Client, what: &str| {
        let before = client.number("f.hw_count");
        wait_for(what, || (client.number("f.hw_count") > before).then_some(()));
    };
    flows(&mut client, "packets");
    let before = client.number("f.hw_count");
    // The port was not closed: it goes on counting.
    assert_eq!(client.write_data("hotconfig", &text("Idle -> a :: Discard")).0, 200);
    wait_for("the swap", || (client.ask("CHECKREAD a.count").0 == 200).then_some(()));
    assert!(client.number("f.hw_count") > before);
    flows(&mut client, "packets after a swap");
    // A configuration that fails leaves it running.
    client.write_data("hotconfig", &text("FromDump(/nofile) -> Discard"));
    wait_for("the refusal", || running.stderr().contains("/nofile").then_some(()));
    flows(&mut client, "packets after a swap that failed");
    // So does one that wants other arguments.
    let other = text("").replace("--no-pci", "--no-pci --vdev=net_null7");
    client.write_data("hotconfig", &other);
    wait_for("the refusal", || {
        running.stderr().contains("count for as long as it lives").then_some(())
    });
    flows(&mut client, "packets after another");
    // With more queues the port is set up anew.
    let more = text("g :: FromDPDKDevice(net_null0) -> Discard");
    assert_eq!(client.write_data("hotconfig", &more).0, 200);
    wait_for("the second queue", || {
        (client.ask("CHECKREAD g.queues").0 == 200 && client.read("g.queues") == "1").then_some(())
    });
    flows(&mut client, "packets by two queues");
    running.interrupt().expect(0);
}

#[test]
fn what_cannot_be_used_is_said() {
    let of = |device: &str| refused(&format!("f :: FromDPDKDevice(\"{device}\") -> Discard"));
    of("ffff:fe:1d.7").says(&["no PCI device ffff:fe:1d.7", "dpdk-devbind.py"]);
    of("7").says(&["no port 7", "--vdev=net_null0"]);
    of("net_nonsense0").says(&["'net_nonsense0'", "failed to parse device"]);
    of("net_pcap0,rx_pcap=/no/file").says(&["net_pcap0", "/no/file"]);
    of("net_af_packet0,iface=nosuch0").says(&["net_af_packet0", "a virtual one"]);
    refused("FromDPDKDevice(net_null0, MTU 9000) -> Discard").says(&[
        "'net_null0'",
        "MTU of 9000",
        "1984 bytes",
        "MTU 1834 or less",
    ]);
    refused("FromDPDKDevice(net_null0, N_QUEUES 5000) -> Discard").says(&[
        "'net_null0'",
        "at most 1024 queues",
        "5000",
    ]);
    refused("FromDPDKDevice(net_null0, QUEUE 0) -> Discard; FromDPDKDevice(net_null0, QUEUE 0) -> Discard")
        .says(&["'net_null0'", "another element receives by queues 0-0"]);
    refused("DPDKInfo(--nonsense)").says(&["--nonsense", "unrecognized option"]);
    refused("DPDKInfo(\"--in-memory -m 4000000\")")
        .says(&["DPDK does not start", "free huge pages for it"]);
}

#[test]
fn a_card_of_the_kernels_is_left_to_it() {
    let devices = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    let drivers = devices.filter_map(|device| {
        let driver = std::fs::read_link(device.path().join("driver")).ok()?;
        let driver = driver.file_name()?.to_string_lossy().into_owned();
        (driver == "virtio-pci")
            .then(|| (device.file_name().to_string_lossy().into_owned(), driver))
    });
    let Some((address, driver)) = drivers.into_iter().next() else {
        crate::process::skip("a_card_of_the_kernels_is_left_to_it", "no PCI device of virtio");
        return;
    };
    refused(&format!("FromDPDKDevice({address}) -> Discard")).says(&[
        &address,
        &driver,
        "dpdk-devbind.py --bind=vfio-pci",
    ]);
}

#[test]
fn a_killed_program_leaves_nothing() {
    let before = traces();
    let text = "f :: FromDPDKDevice(net_null0) -> ToDPDKDevice(net_null0);
                Script(label again, wait 5ms, goto again $(eq 0 $(f.count)), print \"runs\")";
    let mut running = Running::start(thruway().args(["run", "-q", "-e", text]));
    wait_for("packets", || {
        assert!(!running.ended(), "{}", running.stderr());
        running.stdout().contains("runs").then_some(())
    });
    running.signal(rustix::process::Signal::KILL);
    assert_eq!(running.wait(LIMIT).code(), -1);
    assert_eq!(traces(), before);
}
