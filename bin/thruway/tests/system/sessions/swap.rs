//! A hot swap under traffic: no packet lost, no session forgotten.

use std::net::UdpSocket;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use thruway_sync::atomic::{AtomicBool, Ordering};

use super::ctl;
use crate::network::{Network, Site};
use crate::process::{Done, privileged, wait_for};

const LAN: Site = Site { addresses: &["10.0.0.1/24"], routers: &[] };
const WAN: Site = Site { addresses: &["10.0.0.2/24"], routers: &[] };
const ECHO: &str = "10.0.0.2:7";

/// Flows under way.
const FLOWS: usize = 20;

/// Where the program is asked, and how it uses interfaces.
#[derive(Clone, Copy)]
struct Place<'a> {
    socket: &'a str,
    method: &'a str,
}

/// A firewall as a cable: ARP passes, hosts outside only answer. `first` stands in front of it, with
/// a link behind; the firewall's rules; more elements.
fn cable(place: Place<'_>, first: &str, rules: &str, more: &str) -> String {
    let Place { socket, method } = place;
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

/// Answers each datagram with the same until told to stop.
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

/// Sends numbered datagrams of [`FLOWS`] flows, some thousand a second, until told to stop; how many
/// of each. The answers are read by another thread.
fn send(sockets: &[UdpSocket], stop: &AtomicBool) -> u64 {
    let mut number = 0u64;
    while !stop.load(Ordering::Acquire) {
        for socket in sockets {
            socket.send(&number.to_be_bytes()).expect("it is up");
            // Evenly, so that some come at any moment of a swap.
            std::thread::sleep(Duration::from_micros(100));
        }
        number += 1;
    }
    number
}

/// The numbers that one flow got back, until nothing comes any more after `stop`.
fn receive(socket: &UdpSocket, stop: &AtomicBool) -> Vec<u64> {
    let mut numbers = Vec::new();
    let mut bytes = [0; 8];
    loop {
        match socket.recv(&mut bytes) {
            Ok(8) => numbers.push(u64::from_be_bytes(bytes)),
            Ok(_) => panic!("a datagram was cut"),
            Err(_) if stop.load(Ordering::Acquire) => return numbers,
            Err(_) => {}
        }
    }
}

/// What is done to the running configuration; each step is given some traffic before the next.
struct Operator<'a> {
    place: Place<'a>,
    network: &'a Network,
}

impl Operator<'_> {
    fn ctl(&self, words: &[&str]) -> Done {
        ctl(self.place.socket.as_ref(), words)
    }

    fn swap(&self, text: &str) -> Done {
        let done = self.ctl(&["write", "hotconfig", text]);
        std::thread::sleep(Duration::from_millis(80));
        done
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
        self.swap(&cable(self.place, stats, "allow udp", "")).expect(0);
        self.wait("stats.packets", |_| true);
        assert_eq!(self.flows(), FLOWS);
        for _ in 0..5 {
            self.swap(&cable(self.place, "", "allow udp", "")).expect(0);
            self.swap(&cable(self.place, stats, "allow udp", "")).expect(0);
        }

        // What cannot be consolidated, or not be initialised, changes nothing.
        let two = cable(self.place, "", "allow udp", "Idle -> FlowClassifier(UDP 5) -> Discard");
        self.swap(&two).expect(1).says(&["other bounds or timeouts"]);
        self.swap(&cable(self.place, "", "alow udp", "")).expect(1).says(&["allow"]);
        let late = "Idle -> ToDump(/nodir/file)";
        self.swap(&cable(self.place, "", "deny all", late));
        self.wait("stats.packets", |_| true);
        assert!(is_answered(self.network), "the old rules hold");
        let before = self.flows();
        assert!(before > FLOWS);

        // Who was allowed before goes on, others cannot begin.
        self.swap(&cable(self.place, "", "deny all", "done :: Script(TYPE PASSIVE)")).expect(0);
        self.wait("done.class", |class| class == "Script");
        assert!(!is_answered(self.network), "the new rules hold");
        assert_eq!(self.flows(), before);
    }
}

/// Traffic with swaps, by a program that is started with these words before the text.
fn swaps_under_traffic(words: &[&str], method: &str) {
    let mut network = Network::new(&LAN, &WAN);
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control").display().to_string();
    let mut command = network.middle.thruway();
    let place = Place { socket: &socket, method };
    command.args(words).args(["-e", &cable(place, "", "allow udp, allow icmp", "")]);
    network.route(&mut command, "10.0.0.2");
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let sockets: Vec<UdpSocket> = (0..FLOWS).map(|_| client(&network)).collect();
    let server = server(&network);
    let (sent, received) = std::thread::scope(|scope| {
        scope.spawn(|| echo(&server, &over));
        let receivers: Vec<ScopedJoinHandle<'_, Vec<u64>>> =
            sockets.iter().map(|socket| scope.spawn(|| receive(socket, &stop))).collect();
        let sender = scope.spawn(|| send(&sockets, &stop));
        // Whatever comes of it, the threads are to end.
        let operator = Operator { place, network: &network };
        let operated = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            operator.go_through_all();
        }));
        stop.store(true, Ordering::Release);
        let received: Vec<Vec<u64>> =
            receivers.into_iter().map(|receiver| receiver.join().expect("no panic")).collect();
        over.store(true, Ordering::Release);
        operated.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (sender.join().expect("no panic"), received)
    });
    assert!(sent > 100, "{sent} of each flow");
    for (flow, numbers) in received.iter().enumerate() {
        let expected: Vec<u64> = (0..sent).collect();
        let missing = expected.iter().filter(|number| !numbers.contains(number)).count();
        assert!(
            *numbers == expected,
            "flow {flow}: {sent} sent, {} came back, {missing} missing: {numbers:?}",
            numbers.len()
        );
    }
    let done = network.stop();
    assert!(done.stderr.contains("/nodir/file"), "{done:#?}");
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
