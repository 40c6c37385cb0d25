//! Several threads on one interface: every packet once, each flow in order, both directions of a
//! connection together where the port can.

use std::collections::HashMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use crate::network::{Network, Site};
use crate::process::{Done, need, privileged};
use crate::traffic::fetch;

/// Two hosts of one network, for something that passes frames between them.
const LAN: Site = Site { addresses: &["10.3.0.1/24"], routers: &[] };
const WAN: Site = Site { addresses: &["10.3.0.2/24"], routers: &[] };

/// Flows of the load, its port, and how long it lasts.
const FLOWS: usize = 64;
const PORT: u16 = 7777;
const LOAD: Duration = Duration::from_secs(2);
/// How long the receiver waits for a packet after the load.
const QUIET: Duration = Duration::from_millis(700);

/// A wire whose packets from `lan0` are counted by the thread that has them.
fn wire(input: &str, way_out: &str) -> String {
    format!(
        "out :: Null -> {way_out} ToDevice(wan0);
         FromDevice(lan0, {input}) -> s :: CPUSwitch;
         s[0] -> c0 :: Counter -> out; s[1] -> c1 :: Counter -> out;
         FromDevice(wan0, {input}) -> ToDevice(lan0)"
    )
}

/// Runs two threads with this configuration, with so many queues each way at each interface.
fn two_threads(text: &str, queues: u32) -> Network {
    need("ping", "iputils-ping");
    let mut network = Network::with_queues(&LAN, &WAN, queues);
    let mut command = network.middle.thruway();
    network.route(command.args(["run", "-j", "2", "-e", text]), "10.3.0.2");
    network
}

/// The count of packets in a row of the table of elements.
fn packets(done: &Done, name: &str) -> u64 {
    let rows = done.stdout.lines().skip_while(|line| !line.starts_with("Elements"));
    let words = rows.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = words.into_iter().find(|words| words.first() == Some(&name));
    let row = row.unwrap_or_else(|| panic!("no {name} in {done:#?}"));
    row[2].replace(',', "").parse().expect("a number")
}

/// Keeps the calling thread on one core: a sender that moves between cores may itself overtake what
/// it sent before.
fn stay() {
    let allowed = rustix::thread::sched_getaffinity(None).expect("an affinity");
    let mut cores = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    let mut set = rustix::thread::CpuSet::new();
    set.set(cores.next_back().expect("a core"));
    rustix::thread::sched_setaffinity(None, &set).expect("a core that is allowed");
}

/// Sends numbered datagrams of all flows in turn, as fast as it can; how many of each.
fn send() -> u64 {
    stay();
    let socket = |_| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a socket");
        socket.connect((Ipv4Addr::new(10, 3, 0, 2), PORT)).expect("an address");
        socket
    };
    let sockets: Vec<UdpSocket> = (0..FLOWS).map(socket).collect();
    let begin = Instant::now();
    let mut number: u64 = 0;
    while begin.elapsed() < LOAD {
        for socket in &sockets {
            // What the host's own queue has no room for is lost, and that is no matter.
            let _ = socket.send(&number.to_be_bytes());
        }
        number += 1;
    }
    number
}

/// What came of each flow: how many datagrams, and how many of them after a later one.
fn receive(socket: &UdpSocket) -> (usize, u64, u64) {
    socket.set_read_timeout(Some(LOAD + QUIET)).expect("a time");
    let mut next: HashMap<u16, u64> = HashMap::new();
    let (mut came, mut late) = (0, 0);
    let mut bytes = [0; 64];
    while let Ok((8, from)) = socket.recv_from(&mut bytes) {
        let number = u64::from_be_bytes(*bytes.first_chunk().expect("eight bytes"));
        let expected = next.entry(from.port()).or_default();
        late += u64::from(number < *expected);
        *expected = number + 1;
        came += 1;
        socket.set_read_timeout(Some(QUIET)).expect("a time");
    }
    (next.len(), came, late)
}

/// Every flow arrives in order; what each of the two threads carried.
#[track_caller]
fn flows_stay_in_order(network: &mut Network) -> (u64, u64, Done) {
    let any = (Ipv4Addr::UNSPECIFIED, PORT);
    let socket = network.wan.within(|| UdpSocket::bind(any).expect("a free port"));
    let (lan, mut sent) = (&network.lan, 0);
    let (flows, came, late) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&socket));
        sent = lan.within(send);
        receiver.join().expect("no panic")
    });
    let done = network.stop().expect(0);
    assert_eq!(flows, FLOWS, "of each flow something came: {done:#?}");
    assert_eq!(late, 0, "of {came} datagrams: {done:#?}");
    assert!(sent > 100 && came > 1000, "{sent} sent of each flow, {came} came");
    (packets(&done, "c0"), packets(&done, "c1"), done)
}

#[test]
fn two_queues_in_two_threads_keep_each_flow_in_order() {
    if !privileged("two_queues_in_two_threads_keep_each_flow_in_order") {
        return;
    }
    for way_out in ["", "Queue ->"] {
        let mut network = two_threads(&wire("METHOD XDP", way_out), 2);
        let (zero, one, done) = flows_stay_in_order(&mut network);
        assert!(zero > 0 && one > 0, "both threads have part: {done:#?}");
        done.says(&["'lan0': AF_XDP, native mode, the kernel copies, 2 queues, for 2 threads"]);
    }
}

#[test]
fn packet_sockets_in_two_threads_keep_each_flow_in_order() {
    if !privileged("packet_sockets_in_two_threads_keep_each_flow_in_order") {
        return;
    }
    for way_out in ["", "Queue ->"] {
        let mut network = two_threads(&wire("METHOD LINUX", way_out), 2);
        let (zero, one, done) = flows_stay_in_order(&mut network);
        assert!(zero > 0 && one > 0, "both threads have part: {done:#?}");
        done.says(&["'lan0': AF_PACKET (as METHOD says), a socket for each of 2 threads"]);
    }
}

#[test]
fn files_pass_by_several_threads() {
    if !privileged("files_pass_by_several_threads") {
        return;
    }
    for (input, queues) in [("METHOD XDP", 2), ("METHOD LINUX", 2), ("METHOD XDP", 1)] {
        let mut network = two_threads(&wire(input, ""), queues);
        fetch(&network.lan, &network.wan, "10.3.0.2", 5 << 20);
        fetch(&network.wan, &network.lan, "10.3.0.1", 5 << 20);
        network.stop().expect(0);
    }
}
