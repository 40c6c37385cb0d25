//! `FromDevice(..., OFFLOAD XDP)`: the kernel drops in front of the chain what the chain would
//! drop, and notes the classes of the rest where the chain receives by AF_XDP, as long as the
//! process lives and has this configuration.

use std::fs::write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::{CLASSES, captures, frames, send, software, sorted, sorting};
use crate::network::Namespace;
use crate::process::{Done, Running, need, privileged, run, thruway, wait_for};

/// A client, and the host of a chain.
struct Pair {
    client: Namespace,
    host: Namespace,
    queues: String,
}

impl Pair {
    fn new() -> Pair {
        Pair::with_queues(1)
    }

    fn with_queues(count: u32) -> Pair {
        need("ethtool", "ethtool");
        let [client, host] = ["cli", "host"].map(Namespace::new);
        for space in [&client, &host] {
            // Their kernels send nothing of their own.
            space.set("ipv6/conf/all/disable_ipv6", "1");
            space.set("ipv6/conf/default/disable_ipv6", "1");
        }
        let pair =
            Pair { client, host, queues: format!("numrxqueues {count} numtxqueues {count}") };
        pair.cable();
        pair
    }

    fn cable(&self) {
        self.host.cable("eth0", (&self.client, "eth0"), &self.queues);
        self.client.ip("link set eth0 up");
        // Tags stay in the frames.
        self.client.succeed("ethtool -K eth0 txvlan off tx-vlan-stag-hw-insert off");
        self.host.succeed("ethtool -K eth0 rxvlan off");
    }

    fn has_program(&self) -> bool {
        self.host.succeed("ip link show eth0").contains("xdp")
    }
}

/// A chain that runs.
struct Chain {
    dir: TempDir,
    running: Running,
}

impl Chain {
    /// Starts it, and waits until its program is there.
    fn start(pair: &Pair, text: impl Fn(&TempDir) -> String) -> Chain {
        Chain::start_with(pair, &[], text)
    }

    fn start_with(pair: &Pair, options: &[&str], text: impl Fn(&TempDir) -> String) -> Chain {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("chain.click");
        write(&file, text(&dir)).expect("a file");
        let mut command = pair.host.thruway();
        command
            .arg("run")
            .arg("-q")
            .args(options)
            .arg("--control")
            .arg(dir.path().join("s"))
            .arg(file);
        let mut chain = Chain { dir, running: Running::start(&mut command) };
        wait_for("the program", || {
            assert!(!chain.running.ended(), "{}", chain.running.stderr());
            chain.programs().gt(&0).then_some(())
        });
        wait_for("the socket", || (chain.ctl(&["version"]).code() == 0).then_some(()));
        chain
    }

    /// How often a program was put in front.
    fn programs(&self) -> usize {
        self.running.stderr().matches("an XDP program drops packets that nobody wants").count()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn ctl(&self, words: &[&str]) -> Done {
        run(thruway().arg("ctl").arg(self.path("s")).args(words))
    }

    fn number(&self, handler: &str) -> u64 {
        self.ctl(&[handler]).expect(0).stdout.trim().parse().expect("a number")
    }

    fn drops(&self, element: &str, reason: &str) -> u64 {
        let table = self.ctl(&[&format!("{element}.drops")]).expect(0).stdout;
        let line = table.lines().find_map(|line| line.strip_suffix(&format!(" {reason}")));
        line.and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    /// Packets that the kernel dropped in front.
    fn in_front(&self) -> u64 {
        self.drops("from", "unwanted-offloaded")
    }

    /// Packets whose fate is known.
    fn accounted(&self) -> u64 {
        let counted: u64 = (0..CLASSES.len()).map(|at| self.number(&format!("c{at}.count"))).sum();
        counted + self.in_front() + self.drops("fc", "unwanted")
    }

    fn reload(&self, text: &str) -> Done {
        write(self.path("chain.click"), text).expect("a file");
        run(thruway().arg("reload").arg("--control").arg(self.path("s")))
    }
}

fn source(how: &str) -> String {
    format!("from :: FromDevice(eth0, PROMISC true, OFFLOAD XDP, {how})")
}

/// How many packets came with their class.
#[track_caller]
fn passes_as_software(how: &str) -> u64 {
    let frames = frames();
    let (expected, unwanted) = software(&frames);
    let pair = Pair::new();
    let chain = Chain::start(&pair, |dir| sorting(&source(how), "", dir.path()));
    assert!(pair.has_program());
    send(&pair.client, &frames);
    let all = frames.len() as u64;
    wait_for("all packets", || (chain.accounted() >= all).then_some(()));
    assert_eq!(chain.accounted(), all, "each packet has one fate");
    let in_front = chain.in_front();
    assert_eq!(in_front + chain.drops("fc", "unwanted"), unwanted);
    assert!(in_front > 100, "{in_front} of {unwanted} dropped in front");
    let tagged = chain.number("fc.tagged");
    assert!(tagged <= all - unwanted, "{tagged} of {all} came with a class, {unwanted} unwanted");
    let Chain { dir, running } = chain;
    running.interrupt().expect(0);
    assert!(!pair.has_program(), "a program is left");
    for (class, (came, expected)) in sorted(captures(dir.path())).zip(sorted(expected)).enumerate()
    {
        assert_eq!(came.len(), expected.len(), "{}", CLASSES[class]);
        assert!(came == expected, "other bytes in {}", CLASSES[class]);
    }
    tagged
}

#[test]
fn by_packet_sockets_captures_pass_as_in_software() {
    if privileged("by_packet_sockets_captures_pass_as_in_software") {
        assert_eq!(passes_as_software("METHOD LINUX, SNIFFER false"), 0, "no notes there");
    }
}

#[test]
fn by_af_xdp_captures_pass_as_in_software() {
    if !privileged("by_af_xdp_captures_pass_as_in_software") {
        return;
    }
    for mode in ["NATIVE", "GENERIC"] {
        let tagged = passes_as_software(&format!("METHOD XDP, XDP_MODE {mode}"));
        assert!(tagged > 1000, "{mode}: {tagged} came with their class");
    }
}

/// A UDP packet to a port.
fn udp(port: u8) -> Vec<u8> {
    let head = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0];
    let rest = [10, 0, 0, 1, 10, 0, 0, 2, 4, 0, 0, port, 0, 8, 0, 0];
    [&head[..], &rest, &[0; 18]].concat()
}

/// A chain that wants packets to this port only.
fn wanting(how: &str, port: u8) -> String {
    format!(
        "{} -> fc :: FlowClassifier ~> d :: FlowDispatcher(udp dst port {port}) -> c :: Counter \
         -> Discard;",
        source(how)
    )
}

/// Ten packets to each of two ports: how many came more, and how many were dropped in front.
fn ten_each(pair: &Pair, chain: &Chain) -> [u64; 2] {
    let before = [chain.number("c.count"), chain.in_front()];
    send(&pair.client, &[vec![udp(1); 10], vec![udp(2); 10]].concat());
    let more = || [chain.number("c.count") - before[0], chain.in_front() - before[1]];
    wait_for("twenty packets", || (more().iter().sum::<u64>() >= 20).then_some(()));
    more()
}

fn follows_the_configuration(how: &str) {
    let pair = Pair::new();
    let mut chain = Chain::start(&pair, |_| wanting(how, 1));
    assert_eq!(ten_each(&pair, &chain), [10, 10]);
    // From now on the other port is wanted; packets are under way all the time.
    let many: Vec<Vec<u8>> = (0..40_000_u32).map(|at| udp(1 + (at % 2) as u8)).collect();
    let all = chain.number("c.count") + chain.in_front();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(&pair.client, &many));
        for (times, port) in [2, 1, 2].into_iter().enumerate() {
            chain.reload(&wanting(how, port)).expect(0);
            wait_for("another program", || chain.programs().eq(&(times + 2)).then_some(()));
        }
        sender.join().expect("sent");
    });
    let lost = || ["ring-full", "too-long", "offload"].map(|why| chain.drops("from", why));
    let sum = || {
        let dropped = chain.in_front() + chain.drops("fc", "unwanted") + lost().iter().sum::<u64>();
        chain.number("c.count") + dropped
    };
    // A new configuration counts from zero, so only an upper bound is known.
    assert!(sum() <= all + many.len() as u64);
    // The process looks once a second.
    wait_for("counts that stay", || {
        let before = chain.in_front();
        std::thread::sleep(Duration::from_millis(1200));
        (chain.in_front() == before).then_some(())
    });
    assert_eq!(ten_each(&pair, &chain), [10, 10], "of one port each");

    // A configuration that cannot begin leaves all as it is.
    chain.reload(&format!("{} FromDevice(nosuch0) -> Discard;", wanting(how, 1)));
    wait_for("a refusal", || {
        chain.ctl(&["swaps"]).expect(0).stdout.contains("refused 1").then_some(())
    });
    assert!(pair.has_program());
    assert_eq!(ten_each(&pair, &chain), [10, 10]);
    // One that wants everything needs no program.
    let text = format!("{} -> fc :: FlowClassifier -> c :: Counter -> Discard;", source(how));
    chain.reload(&text).expect(0);
    wait_for("the line", || {
        chain.running.stderr().contains("OFFLOAD XDP is not possible").then_some(())
    });
    assert_eq!(ten_each(&pair, &chain), [20, 0]);
    let one = if how.contains("LINUX") { "no program" } else { "the steering program" };
    assert_eq!(pair.has_program(), !how.contains("LINUX"), "{one}");

    chain.reload(&wanting(how, 1)).expect(0);
    wait_for("the program", || chain.programs().eq(&5).then_some(()));
    assert!(!chain.running.ended() && pair.has_program());
    chain.running.signal(Signal::KILL);
    drop(chain);
    wait_for("no program", || (!pair.has_program()).then_some(()));
}

#[test]
fn by_packet_sockets_it_follows_the_configuration_and_ends_with_the_process() {
    if privileged("by_packet_sockets_it_follows_the_configuration_and_ends_with_the_process") {
        follows_the_configuration("METHOD LINUX, SNIFFER false");
    }
}

#[test]
fn by_af_xdp_it_follows_the_configuration_and_ends_with_the_process() {
    if privileged("by_af_xdp_it_follows_the_configuration_and_ends_with_the_process") {
        follows_the_configuration("METHOD XDP");
    }
}

/// A chain in which packets of either port have an output of their own, which sees to it that it
/// gets no others: in this order, since classes are numbered by it.
fn numbered(ports: [u8; 2]) -> String {
    let [first, second] = ports;
    let checked = ports.into_iter().enumerate().map(|(at, port)| {
        // The UDP port of a frame without IP options.
        format!(
            "d[{at}] -> p{port} :: Classifier(36/000{port}, -) -> c{port} :: Counter -> Discard; \
             p{port}[1] -> wrong;\n"
        )
    });
    format!(
        "{} -> fc :: FlowClassifier ~> d :: FlowDispatcher(udp dst port {first}, udp dst port \
         {second}, arp);\nwrong :: Counter -> Discard; d[2] -> Discard;\n{}",
        source("METHOD XDP"),
        checked.collect::<String>()
    )
}

#[test]
fn a_class_of_another_configuration_is_never_read() {
    if !privileged("a_class_of_another_configuration_is_never_read") {
        return;
    }
    let pair = Pair::new();
    let chain = Chain::start(&pair, |_| numbered([1, 2]));
    let swaps = |chain: &Chain, ports, number| {
        chain.reload(&numbered(ports)).expect(0);
        wait_for("another program", || chain.programs().eq(&number).then_some(()));
    };
    let many: Vec<Vec<u8>> = (0..60_000_u32).map(|at| udp(1 + (at % 2) as u8)).collect();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(&pair.client, &many));
        for number in 2..8 {
            swaps(&chain, if number % 2 == 0 { [2, 1] } else { [1, 2] }, number);
        }
        sender.join().expect("sent");
    });
    let counts = || ["c1.count", "c2.count"].map(|name| chain.number(name));
    // Ten packets to one port, twenty to the other; of all of them.
    let more = || {
        let [first, second] = counts();
        send(&pair.client, &[vec![udp(1); 10], vec![udp(2); 20]].concat());
        let news = || [counts()[0] - first, counts()[1] - second];
        wait_for("thirty packets", || news().iter().sum::<u64>().ge(&30).then_some(()));
        news()
    };
    // All that comes now has a class, and the right one.
    for (ports, number) in [([1, 2], 8), ([2, 1], 9)] {
        swaps(&chain, ports, number);
        assert_eq!(more(), [10, 20]);
        assert_eq!(chain.number("fc.tagged"), 30);
    }
    // Without a program nothing is read in front of frames, though notes may be left there.
    chain.reload(&numbered([2, 1]).replace(", OFFLOAD XDP", "")).expect(0);
    wait_for("no program", || {
        chain.ctl(&["swaps"]).expect(0).stdout.contains("taken 9").then_some(())
    });
    assert_eq!(more(), [10, 20]);
    assert_eq!(chain.number("fc.tagged"), 0);
    assert!(counts().iter().sum::<u64>() > 10_000, "packets came meanwhile");
    assert_eq!(chain.number("wrong.count"), 0, "packets have the class of another configuration");
}

#[test]
fn several_threads_read_the_notes_of_their_queues() {
    if !privileged("several_threads_read_the_notes_of_their_queues") {
        return;
    }
    let pair = Pair::with_queues(2);
    let chain = Chain::start_with(&pair, &["-j", "2"], |_| numbered([1, 2]));
    let line = chain.running.stderr();
    assert!(line.contains("for 2 threads"), "{line}");
    let many: Vec<Vec<u8>> = (0..600_u32).map(|at| udp(1 + (at % 2) as u8)).collect();
    send(&pair.client, &many);
    let counts = || ["c1.count", "c2.count"].map(|name| chain.number(name));
    wait_for("all packets", || counts().iter().sum::<u64>().ge(&600).then_some(()));
    assert_eq!(counts(), [300; 2]);
    assert_eq!([chain.number("fc.tagged"), chain.number("wrong.count")], [600, 0]);
}

#[test]
fn an_interface_that_comes_again_gets_the_program_again() {
    if !privileged("an_interface_that_comes_again_gets_the_program_again") {
        return;
    }
    let pair = Pair::new();
    let chain = Chain::start(&pair, |_| wanting("METHOD XDP", 1));
    assert_eq!(ten_each(&pair, &chain), [10, 10]);
    pair.host.ip("link delete eth0");
    pair.cable();
    wait_for("the program again", || chain.programs().eq(&2).then_some(()));
    assert_eq!(ten_each(&pair, &chain), [10, 10]);
    let stderr = chain.running.stderr();
    assert!(!stderr.contains("OFFLOAD XDP is not possible"), "{stderr}");
}

#[test]
fn where_it_cannot_be_the_chain_goes_on_in_software() {
    if !privileged("where_it_cannot_be_the_chain_goes_on_in_software") {
        return;
    }
    let pair = Pair::new();
    let short = |text: &str| -> Command {
        let mut command = pair.host.thruway();
        command.args(["run", "-q", "-e", &format!("{text}; Script(wait 300ms, stop)")]);
        command
    };
    let rest = "FlowClassifier ~> FlowDispatcher(udp) -> Discard";
    let alone = "METHOD LINUX, SNIFFER false";
    for (text, why) in [
        (format!("{} -> {rest}", source("METHOD LINUX")), "give SNIFFER false"),
        (format!("{} -> Counter -> {rest}", source(alone)), "straight to a FlowClassifier"),
        (
            format!(
                "{} -> FlowClassifier(INPUT ip) ~> FlowDispatcher(udp) -> Discard",
                source(alone)
            ),
            "straight to a FlowClassifier of frames",
        ),
        (
            format!("{} -> FlowClassifier ~> FlowDispatcher(-) -> Discard", source(alone)),
            "drops no class of packets",
        ),
    ] {
        let line = format!("OFFLOAD XDP is not possible, so all is classified here: {why}");
        let done = run(&mut short(&text)).expect(0);
        let told = done.stderr.lines().filter(|line| line.contains("OFFLOAD XDP")).count();
        assert_eq!(told, 1, "{done:#?}");
        assert!(done.stderr.contains(why), "{line}: {done:#?}");
    }
    run(&mut short(&format!("FromDevice(eth0, OFFLOAD XDP, SNAPLEN 60) -> {rest}")))
        .expect(1)
        .says(&["SNAPLEN", "leave it out"]);
    run(&mut short(&format!("FromDevice(pcap:x, OFFLOAD XDP) -> {rest}")))
        .expect(1)
        .says(&["a capture has no XDP program"]);

    // Another process has its program there.
    let first = Chain::start(&pair, |_| wanting(alone, 1));
    let text = format!("{} -> {rest}", source(alone));
    run(&mut short(&text)).expect(0).says(&["another XDP program is attached"]);
    assert!(pair.has_program());
    first.running.interrupt().expect(0);
    // Frames whose tags may be beside them.
    pair.host.succeed("ethtool -K eth0 rxvlan on");
    run(&mut short(&text)).expect(0).says(&["XDP cannot see VLAN tags", "txvlan off"]);
    assert!(!pair.has_program());
}
