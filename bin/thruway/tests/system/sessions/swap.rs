//! A hot swap under traffic: no packet lost, no session forgotten.

use std::net::UdpSocket;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use thruway_sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::ctl;
use crate::network::{HostConfig, Network};
use crate::process::{Done, Ending, LIMIT, privileged, wait_for};

const LAN: HostConfig = HostConfig { addresses: &["10.0.0.1/24"], routers: &[] };
const WAN: HostConfig = HostConfig { addresses: &["10.0.0.2/24"], routers: &[] };
const ECHO: &str = "10.0.0.2:7";

/// Flows under way.
const FLOWS: usize = 20;
/// Datagrams under way at most: no more than the smallest buffer on their path takes, the server's
/// socket with some 270, however long a host waits for a processor.
const WINDOW: u64 = 200;
/// Number of rounds while they are still sent.
const SENDING: u64 = u64::MAX;

/// Where the program is asked, and how it uses interfaces.
#[derive(Clone, Copy)]
struct Router<'a> {
    socket: &'a str,
    method: &'a str,
}

/// A firewall as a cable: ARP passes, hosts outside only answer. `first` stands in front of it,
/// with a link behind; the firewall's rules; more elements.
fn cable(router: Router<'_>, first: &str, rules: &str, more: &str) -> String {
    let Router { socket, method } = router;
    format!(
        "ControlSocket(UNIX, {socket});
        lan :: FromDevice(lan0, METHOD {method}) -> l :: Classifier(12/0806, 12/0800, -);
        wan :: FromDevice(wan0, METHOD {method}) -> w :: Classifier(12/0806, 12/0800, -);
        far :: ToDevice(wan0, METHOD {method}); near :: ToDevice(lan0, METHOD {method});
        l[0] -> far; w[0] -> near; l[2] -> Discard; w[2] -> Discard;
        l[1] -> inside :: FlowClassifier {first} ~> fw :: StatefulFirewall({rules}) -> far;
        w[1] -> outside :: FlowClassifier ~> [1] fw; fw[1] -> near;
        {more}"
    )
}

/// A socket of the host outside, which is there before anything is sent to it.
fn server(network: &Network) -> UdpSocket {
    let socket = network.wan.within(|| UdpSocket::bind("0.0.0.0:7")).expect("a free port");
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a time above zero");
    socket
}

/// Answers each datagram with the same until asked to stop.
fn echo(socket: &UdpSocket, stop: &AtomicBool) {
    let mut bytes = [0; 64];
    while !stop.load(Ordering::Acquire) {
        if let Ok((len, from)) = socket.recv_from(&mut bytes) {
            socket.send_to(&bytes[..len], from).expect("the way back");
        }
    }
}

/// A socket of the host inside.
fn client(network: &Network) -> UdpSocket {
    let socket = network.lan.within(|| UdpSocket::bind("10.0.0.1:0")).expect("a free port");
    socket.connect(ECHO).expect("an address");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a time above zero");
    socket
}

/// Whether a new flow gets an answer.
fn is_answered(network: &Network) -> bool {
    let socket = client(network);
    socket.send(b"new").expect("it is up");
    socket.recv(&mut [0; 64]).is_ok()
}

/// The datagrams of all flows.
struct Traffic {
    stop: AtomicBool,
    /// Datagrams that came back, of all flows.
    received: AtomicU64,
    /// Rounds that were sent, one datagram of each flow; [`SENDING`] until the last.
    rounds: AtomicU64,
}

impl Traffic {
    fn new() -> Traffic {
        let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
        Traffic { stop, received, rounds: AtomicU64::new(SENDING) }
    }

    /// Sends numbered datagrams of all flows, some thousand a second and at most [`WINDOW`] ahead
    /// of the answers, until asked to stop. The answers are read by other threads.
    fn send(&self, sockets: &[UdpSocket]) {
        let (mut number, mut sent) = (0u64, 0);
        while !self.stop.load(Ordering::Acquire) {
            for socket in sockets {
                while sent >= self.received.load(Ordering::Acquire) + WINDOW
                    && !self.stop.load(Ordering::Acquire)
                {
                    std::thread::sleep(Duration::from_micros(100));
                }
                socket.send(&number.to_be_bytes()).expect("it is up");
                sent += 1;
                // Evenly, so that some come at any moment of a swap.
                std::thread::sleep(Duration::from_micros(100));
            }
            number += 1;
        }
        self.rounds.store(number, Ordering::Release);
    }

    /// The numbers that one flow got back: all, or those that came in time.
    fn receive(&self, socket: &UdpSocket) -> Vec<u64> {
        let mut numbers = Vec::new();
        let mut bytes = [0; 8];
        let mut stopped: Option<Instant> = None;
        loop {
            if let Ok(len) = socket.recv(&mut bytes) {
                assert_eq!(len, bytes.len(), "a datagram was cut");
                numbers.push(u64::from_be_bytes(bytes));
                self.received.fetch_add(1, Ordering::AcqRel);
            }
            let rounds = self.rounds.load(Ordering::Acquire);
            if rounds != SENDING {
                let late = stopped.get_or_insert_with(Instant::now).elapsed() > LIMIT;
                if late || numbers.len() as u64 >= rounds {
                    return numbers;
                }
            }
        }
    }

    /// Waits until each flow had some more answers.
    fn flow_on(&self) {
        let enough = self.received.load(Ordering::Acquire) + 2 * FLOWS as u64;
        wait_for("more traffic", || {
            (self.received.load(Ordering::Acquire) >= enough).then_some(())
        });
    }
}

/// What is done to the running configuration; each step is given some traffic before the next.
struct Operator<'a> {
    router: Router<'a>,
    network: &'a Network,
    traffic: &'a Traffic,
}

impl Operator<'_> {
    fn ctl(&self, words: &[&str]) -> Done {
        ctl(self.router.socket.as_ref(), words)
    }

    fn write(&self, text: &str) -> Done {
        self.ctl(&["write", "hotconfig", text])
    }

    /// Replaces the configuration, and waits until it has been replaced and packets flow.
    fn swap(&self, number: usize, first: &str, rules: &str) {
        let name = format!("swap{number}");
        let text = cable(self.router, first, rules, &format!("{name} :: Script(TYPE PASSIVE)"));
        self.write(&text).expect(0);
        self.wait(&format!("{name}.class"), |class| class == "Script");
        self.traffic.flow_on();
    }

    /// Waits until a handler gives something that `good` likes.
    fn wait(&self, handler: &str, good: impl Fn(&str) -> bool) {
        wait_for(handler, || {
            let done = self.ctl(&["read", handler]);
            (done.code() == 0 && good(done.stdout.trim())).then_some(())
        });
    }

    /// Flows that the table has, of those under way.
    fn flows(&self) -> usize {
        let said = self.ctl(&["flows", "proto", "udp", "state", "open"]).expect(0).stdout;
        said.lines().count()
    }

    fn go_through_all(&self) {
        wait_for("all flows", || (self.flows() == FLOWS).then_some(()));
        // A function is added in front: scratch moves.
        let stats = "~> stats :: SessionStats(-)";
        self.swap(0, stats, "allow udp");
        self.wait("stats.packets", |_| true);
        assert_eq!(self.flows(), FLOWS);
        for round in 0..5 {
            self.swap(2 * round + 1, "", "allow udp");
            self.swap(2 * round + 2, stats, "allow udp");
        }

        // What cannot be consolidated, or not be initialised, changes nothing.
        let two = cable(self.router, "", "allow udp", "Idle -> FlowClassifier(UDP 5) -> Discard");
        self.write(&two).expect(1).says(&["other bounds or timeouts"]);
        self.write(&cable(self.router, "", "alow udp", "")).expect(1).says(&["allow"]);
        self.write(&cable(self.router, "", "deny all", "Idle -> ToDump(/nodir/file)")).expect(0);
        wait_for("the refusal", || self.network.router_log().contains("/nodir/file").then_some(()));
        self.wait("stats.packets", |_| true);
        wait_for("an answer by the old rules", || is_answered(self.network).then_some(()));
        let before = self.flows();
        assert!(before > FLOWS);

        // Who was allowed before goes on, others cannot begin.
        self.swap(11, "", "deny all");
        let refused = client(self.network);
        refused.send(b"new").expect("it is up");
        self.wait("fw.drops", |drops| drops.lines().any(|line| !line.starts_with("0 ")));
        assert!(refused.recv(&mut [0; 64]).is_err(), "the new rules hold");
        assert_eq!(self.flows(), before);
    }
}

/// Traffic with swaps, by a program that is started with these words before the text.
fn swaps_under_traffic(words: &[&str], method: &str) {
    let mut network = Network::new(&LAN, &WAN);
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control").display().to_string();
    let mut command = network.middle.thruway();
    let router = Router { socket: &socket, method };
    command.args(words).args(["-e", &cable(router, "", "allow udp, allow icmp", "")]);
    network.route(&mut command, "10.0.0.2");
    let (traffic, over) = (Traffic::new(), AtomicBool::new(false));
    let sockets: Vec<UdpSocket> = (0..FLOWS).map(|_| client(&network)).collect();
    let server = server(&network);
    let received = std::thread::scope(|scope| {
        scope.spawn(|| echo(&server, &over));
        let receivers: Vec<ScopedJoinHandle<'_, Vec<u64>>> =
            sockets.iter().map(|socket| scope.spawn(|| traffic.receive(socket))).collect();
        scope.spawn(|| traffic.send(&sockets));
        // Whatever comes of it, the threads end.
        let ending = (Ending(&[&traffic.stop]), Ending(&[&over]));
        Operator { router, network: &network, traffic: &traffic }.go_through_all();
        drop(ending.0);
        let received = receivers.into_iter().map(|receiver| receiver.join().expect("no panic"));
        received.collect::<Vec<Vec<u64>>>()
    });
    let sent = traffic.rounds.load(Ordering::Acquire);
    assert!(sent > 20, "{sent} of each flow");
    let expected: Vec<u64> = (0..sent).collect();
    for (flow, numbers) in received.iter().enumerate() {
        let missing: Vec<&u64> = expected.iter().filter(|it| !numbers.contains(it)).collect();
        assert!(
            *numbers == expected,
            "flow {flow}: {sent} sent, {} came back, in order {}, missing: {missing:?}",
            numbers.len(),
            numbers.is_sorted()
        );
    }
    let done = network.stop();
    done.expect(0);
}

#[test]
fn a_hot_swap_loses_no_packet_and_no_session() {
    if privileged("a_hot_swap_loses_no_packet_and_no_session") {
        swaps_under_traffic(&["click", "-R"], "LINUX");
    }
}

#[test]
fn neither_does_one_of_run_by_af_xdp() {
    if privileged("neither_does_one_of_run_by_af_xdp") {
        swaps_under_traffic(&["run", "-R"], "XDP");
    }
}
