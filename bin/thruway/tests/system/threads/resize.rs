//! More or fewer threads while packets flow: no datagram of any flow is lost, comes twice or
//! overtakes another one, sessions go on though no new one may begin, and TCP does not notice.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use thruway_sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{LAN, WAN};
use crate::control::Client;
use crate::network::Network;
use crate::process::{Done, Ending, LIMIT, need, privileged, run, thruway, wait_for};

/// Flows that begin with one thread, and as many that begin with two.
const FLOWS: usize = 12;
/// Datagrams of a flow that are under way at most: the buffers of all sockets have room for them.
const WINDOW: usize = 5;

/// A wire with a firewall, which lets new sessions begin by these rules. What each thread has of
/// the first interface is counted.
fn wire(rules: &str, more: &str) -> String {
    format!(
        "FromDevice(lan0, METHOD LINUX) -> l :: Classifier(12/0806, 12/0800, -);
        FromDevice(wan0, METHOD LINUX) -> w :: Classifier(12/0806, 12/0800, -);
        far :: ToDevice(wan0, METHOD LINUX); near :: ToDevice(lan0, METHOD LINUX);
        l[0] -> far; w[0] -> near; l[2] -> Discard; w[2] -> Discard;
        l[1] -> s :: CPUSwitch; inside :: FlowClassifier; all :: Counter -> inside;
        s[0] -> c0 :: Counter -> all; s[1] -> c1 :: Counter -> all;
        inside ~> fw :: StatefulFirewall({rules}) -> far;
        w[1] -> outside :: FlowClassifier ~> [1] fw; fw[1] -> near; {more}"
    )
}

/// The program between two networks.
struct Wire {
    network: Network,
    dir: TempDir,
}

impl Wire {
    /// One thread, at interfaces with so many queues.
    fn start(text: &str, queues: u32) -> Wire {
        let network = Network::with_queues(&LAN, &WAN, queues);
        let mut wire = Wire { network, dir: tempfile::tempdir().expect("a directory") };
        wire.write(text);
        let mut command = wire.network.middle.thruway();
        let socket = wire.socket();
        command.args(["run", "-j", "1", "--control"]).arg(&socket).arg(wire.file());
        wire.network.route(&mut command, "10.3.0.2");
        wire
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("wire.click")
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("control")
    }

    fn write(&self, text: &str) {
        std::fs::write(self.file(), text).expect("a file");
    }

    fn client(&self) -> Client {
        Client::unix(&self.socket())
    }

    fn reload(&self, threads: usize) -> Done {
        let mut command = thruway();
        command.args(["reload", "--threads", &threads.to_string(), "--control"]);
        run(command.arg(self.socket()))
    }

    /// Has another configuration take over in so many threads.
    #[track_caller]
    fn go_to(&self, threads: usize, rules: &str) {
        let before = self.swaps("taken ");
        self.write(&wire(rules, ""));
        self.reload(threads).expect(0);
        wait_for("the hot swap", || (self.swaps("taken ") > before).then_some(()));
        assert_eq!(self.client().read("threads"), threads.to_string());
    }

    /// A configuration that cannot be initialised leaves all as it was.
    #[track_caller]
    fn cannot_go_to(&self, threads: usize) {
        let (before, refused) = (self.client().read("threads"), self.swaps("refused "));
        self.write(&wire("deny all", "Idle -> ToDump(/nodir/file)"));
        self.reload(threads).expect(0);
        wait_for("the refusal", || (self.swaps("refused ") > refused).then_some(()));
        assert!(self.client().read("swaps").contains("/nodir/file"));
        assert_eq!(self.client().read("threads"), before);
    }

    /// A count of hot swaps.
    fn swaps(&self, name: &str) -> u64 {
        let swaps = self.client().read("swaps");
        let count = swaps.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
        count.expect("a count")
    }

    fn sessions(&self) -> usize {
        let mut command = thruway();
        command.arg("ctl").arg(self.socket());
        let words = ["flows", "proto", "udp", "state", "open"];
        let said = run(command.args(words)).expect(0).stdout;
        said.lines().count()
    }
}

/// What goes on beside the changes.
#[derive(Default)]
struct Traffic {
    over: AtomicBool,
    /// Answers in all.
    answered: AtomicU64,
    /// Longest time between two answers, nanoseconds.
    pause_ns: AtomicU64,
}

impl Traffic {
    /// Sends numbered datagrams of some flows and has them come back, each once and in order, until
    /// it is over; how many there were.
    fn ask(&self, network: &Network) -> u64 {
        let sockets: Vec<UdpSocket> = (0..FLOWS)
            .map(|_| {
                let socket = network.lan.within(|| UdpSocket::bind("10.3.0.1:0").expect("a port"));
                socket.connect("10.3.0.2:7").expect("an address");
                socket.set_nonblocking(true).expect("a socket");
                socket
            })
            .collect();
        let mut waiting: Vec<VecDeque<u64>> = vec![VecDeque::new(); FLOWS];
        let mut number = 0u64;
        let (mut last, mut idle) = (Instant::now(), Duration::ZERO);
        loop {
            let is_over = self.over.load(Ordering::Acquire);
            if is_over && waiting.iter().all(VecDeque::is_empty) {
                self.pause_ns.fetch_max(idle.as_nanos() as u64, Ordering::AcqRel);
                return number;
            }
            for (flow, socket) in sockets.iter().enumerate() {
                if !is_over && waiting[flow].len() < WINDOW {
                    socket.send(&number.to_be_bytes()).expect("it is up");
                    waiting[flow].push_back(number);
                    number += 1;
                }
                if self.take(socket, &mut waiting[flow]) {
                    idle = idle.max(last.elapsed());
                    last = Instant::now();
                }
            }
            assert!(last.elapsed() < LIMIT, "lost: {waiting:?}");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Takes what came back; whether there was any.
    fn take(&self, socket: &UdpSocket, waiting: &mut VecDeque<u64>) -> bool {
        let mut bytes = [0; 8];
        let mut came = false;
        loop {
            match socket.recv(&mut bytes) {
                Ok(len) => {
                    assert_eq!(len, bytes.len(), "a datagram was cut");
                    let number = u64::from_be_bytes(bytes);
                    assert_eq!(Some(number), waiting.pop_front(), "the next one of its flow");
                    self.answered.fetch_add(1, Ordering::AcqRel);
                    came = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return came,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Sends back what comes.
    fn reflect(&self, network: &Network, ended: &AtomicBool) {
        let socket = network.wan.within(|| UdpSocket::bind("10.3.0.2:7").expect("a free port"));
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a time above zero");
        let mut bytes = [0; 8];
        while !ended.load(Ordering::Acquire) {
            if let Ok((len, from)) = socket.recv_from(&mut bytes) {
                socket.send_to(&bytes[..len], from).expect("it is up");
            }
        }
    }

    /// Waits until there were some more answers of all flows.
    fn flows_on(&self) {
        let enough = self.answered.load(Ordering::Acquire) + 20 * (FLOWS * WINDOW) as u64;
        wait_for("more traffic", || {
            (self.answered.load(Ordering::Acquire) >= enough).then_some(())
        });
    }
}

/// Another process that is a real client.
fn streams(network: &Network, seconds: &str) -> (std::process::Child, std::process::Child) {
    let mut server = network.wan.command("iperf3");
    let server = server.args(["-s", "-1", "-B", "10.3.0.2"]).stdout(std::process::Stdio::null());
    let server = server.spawn().expect("iperf3");
    let client = wait_for("iperf3 to begin", || {
        let mut client = network.lan.command("iperf3");
        let words = ["-c", "10.3.0.2", "-P", "3", "-t", seconds, "-b", "20M", "--bidir", "-J"];
        let client = client.args(words).stdout(std::process::Stdio::piped());
        let mut client = client.spawn().expect("iperf3");
        std::thread::sleep(Duration::from_millis(300));
        let has_ended = client.try_wait().expect("a child").is_some();
        (!has_ended).then_some(client)
    });
    (server, client)
}

#[test]
fn threads_come_and_go_and_nobody_notices() {
    if !privileged("threads_come_and_go_and_nobody_notices") {
        return;
    }
    need("iperf3", "iperf3");
    let allow = "allow udp, allow tcp, allow icmp";
    let wire = Wire::start(&wire(allow, ""), 1);
    let (first, second) = (Traffic::default(), Traffic::default());
    let ended = AtomicBool::new(false);
    let (asked, late) = std::thread::scope(|scope| {
        let ending = Ending(&[&first.over, &second.over, &ended]);
        scope.spawn(|| first.reflect(&wire.network, &ended));
        let asks = scope.spawn(|| first.ask(&wire.network));
        first.flows_on();
        let (mut server, client) = streams(&wire.network, "6");
        wire.cannot_go_to(2);
        first.flows_on();
        wire.go_to(2, allow);
        first.flows_on();
        wait_for("the second thread", || (wire.client().number("c1.count") > 100).then_some(()));
        let late = scope.spawn(|| second.ask(&wire.network));
        second.flows_on();
        let handed = wire.client().number("inside.handed");
        wire.cannot_go_to(1);
        second.flows_on();
        // From now on nobody new may begin: sessions of both threads go on in one, and in two.
        for (threads, rules) in [(1, "deny all"), (2, "deny all"), (3, "deny all"), (1, "deny all")]
        {
            wire.go_to(threads, rules);
            first.flows_on();
            second.flows_on();
            assert_eq!(wire.sessions(), 2 * FLOWS, "{threads} threads");
        }
        // As fast as changes can follow each other.
        for threads in [2, 1, 3, 2, 1] {
            wire.go_to(threads, "deny all");
        }
        first.flows_on();
        second.flows_on();
        let done = client.wait_with_output().expect("a child");
        let report: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
        assert!(done.status.success(), "{report}");
        let received = &report["end"]["sum_received"]["bytes"];
        println!(
            "iperf3: {received} bytes, {handed} packets handed to the thread of their session"
        );
        assert!(received.as_u64().is_some_and(|bytes| bytes > 1 << 20), "{report}");
        server.wait().expect("a child");
        first.over.store(true, Ordering::Release);
        second.over.store(true, Ordering::Release);
        let counts = (asks.join().expect("in order"), late.join().expect("in order"));
        drop(ending);
        counts
    });
    let pause = first.pause_ns.load(Ordering::Acquire).max(second.pause_ns.load(Ordering::Acquire));
    println!(
        "{asked} and {late} datagrams came back, each once and in order; the longest pause was \
              {:?}",
        Duration::from_nanos(pause)
    );
    assert_eq!(first.answered.load(Ordering::Acquire), asked);
    assert_eq!(second.answered.load(Ordering::Acquire), late);
}

#[test]
fn what_forbids_other_threads_is_said_and_changes_nothing() {
    if !privileged("what_forbids_other_threads_is_said_and_changes_nothing") {
        return;
    }
    let through = |by: &str| {
        format!(
            "FromDevice(lan0, {by}) -> ToDevice(wan0); \
        FromDevice(wan0, {by}) -> d :: Delay(1ms) -> ToDevice(lan0);"
        )
    };
    let wire = Wire::start(&through("METHOD LINUX"), 1);
    let why = "'d' (Delay) keeps state that cannot go from 1 to 2 threads";
    wire.reload(2).expect(1).says(&["nothing changed", why, "restart"]);
    assert_eq!(wire.client().read("threads"), "1");
    drop(wire);
    let plain = "FromDevice(lan0, METHOD XDP) -> ToDevice(wan0); \
        FromDevice(wan0, METHOD XDP) -> ToDevice(lan0);";
    let wire = Wire::start(plain, 2);
    wire.reload(2).expect(0);
    wait_for("the refusal", || {
        wire.client().read("swaps").contains("is read by AF_XDP").then_some(())
    });
    assert_eq!(wire.client().read("threads"), "1");
    crate::process::run(wire.network.lan.command("ping").args(["-c", "2", "-W", "5", "10.3.0.2"]))
        .expect(0);
}
