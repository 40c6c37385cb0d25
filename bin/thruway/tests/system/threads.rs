//! Several threads on one interface: every packet once, each flow in order, both directions of a
//! connection together where the port can.

mod resize;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use thruway_sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::control::Client;
use crate::network::{HostConfig, Network};
use crate::process::{Done, LIMIT, Running, need, privileged, root, run, thruway, wait_for};
use crate::traffic::fetch;

/// Two hosts of one network, for something that passes frames between them.
const LAN: HostConfig = HostConfig { addresses: &["10.3.0.1/24"], routers: &[] };
const WAN: HostConfig = HostConfig { addresses: &["10.3.0.2/24"], routers: &[] };

/// Flows of the load, its port, datagrams of each flow that are sent at once, and those that are to
/// arrive: more are sent for as long as they have not.
const FLOWS: usize = 64;
const PORT: u16 = 7777;
const AT_ONCE: u64 = 2000;
const ENOUGH: u64 = 100;
/// How long more is sent at most.
const LOAD_MAX: Duration = Duration::from_secs(60);
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
pub fn two_threads(text: &str, queues: u32) -> Network {
    need("ping", "iputils-ping");
    let mut network = Network::with_queues(&LAN, &WAN, queues);
    let mut command = network.middle.thruway();
    network.route(command.args(["run", "-j", "2", "-e", text]), "10.3.0.2");
    network
}

/// The count of packets in a row of the table of elements.
pub fn packets(done: &Done, name: &str) -> u64 {
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

/// How far a load is.
#[derive(Default)]
struct Load {
    /// Flows of which enough came.
    served: AtomicUsize,
    /// All is sent.
    is_sent: AtomicBool,
}

/// Sends numbered datagrams of all flows in turn, first as fast as it can.
fn send(load: &Load) {
    stay();
    let socket = |_| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a socket");
        socket.connect((Ipv4Addr::new(10, 3, 0, 2), PORT)).expect("an address");
        socket
    };
    let sockets: Vec<UdpSocket> = (0..FLOWS).map(socket).collect();
    let begin = Instant::now();
    let mut number: u64 = 0;
    let must_go_on = || load.served.load(Ordering::Relaxed) < FLOWS && begin.elapsed() < LOAD_MAX;
    while number < AT_ONCE || must_go_on() {
        for socket in &sockets {
            // What the host's own queue has no room for is lost, and that is no matter.
            let _ = socket.send(&number.to_be_bytes());
        }
        number += 1;
        if number >= AT_ONCE {
            // On a busy machine the others come to their turn.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    load.is_sent.store(true, Ordering::Release);
}

/// How many datagrams came after a later one of their flow, until nothing comes any more.
fn receive(socket: &UdpSocket, load: &Load) -> u64 {
    socket.set_read_timeout(Some(QUIET)).expect("a time above zero");
    let mut flows: HashMap<u16, (u64, u64)> = HashMap::new();
    let mut late = 0;
    let mut bytes = [0; 64];
    loop {
        match socket.recv_from(&mut bytes) {
            Ok((8, from)) => {
                let number = u64::from_be_bytes(*bytes.first_chunk().expect("eight bytes"));
                let (came, expected) = flows.entry(from.port()).or_default();
                late += u64::from(number < *expected);
                *expected = number + 1;
                *came += 1;
                load.served.fetch_add(usize::from(*came == ENOUGH), Ordering::Relaxed);
            }
            Ok(_) => panic!("a datagram was cut"),
            Err(_) if load.is_sent.load(Ordering::Acquire) => return late,
            Err(_) => {}
        }
    }
}

/// Every flow arrives in order; what each of the two threads carried.
#[track_caller]
pub fn flows_stay_in_order(network: &mut Network) -> (u64, u64, Done) {
    let any = (Ipv4Addr::UNSPECIFIED, PORT);
    let socket = network.wan.within(|| UdpSocket::bind(any).expect("a free port"));
    let (lan, load) = (&network.lan, Load::default());
    let late = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&socket, &load));
        lan.within(|| send(&load));
        receiver.join().expect("no panic")
    });
    let done = network.stop().expect(0);
    let served = load.served.load(Ordering::Relaxed);
    assert_eq!(served, FLOWS, "of each flow {ENOUGH} came: {done:#?}");
    assert_eq!(late, 0, "none after a later one: {done:#?}");
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

/// Packets of each half of the flow that moves.
const HALF: usize = 1500;

/// A translator for UDP, in two threads with a queue each; the rest passes.
const TRANSLATES: &str = "
    FromDevice(lan0, METHOD XDP) -> kind :: Classifier(12/0800 23/11, -);
    kind[0] -> fc :: FlowClassifier ~> nat :: NAT(SNAT 10.3.0.0/24 -> 10.3.0.77:1024-65535)
        -> wan :: ToDevice(wan0);
    kind[1] -> wan;
    FromDevice(wan0, METHOD XDP) -> ToDevice(lan0);
    Idle -> [1]nat[1] -> Discard";

/// Sends one flow by two threads, each of which has a transmit queue of its own: halves that differ
/// in length, each numbered.
fn sender() -> String {
    let half = |thread: usize, length: usize| {
        format!(
            "FastUDPSource(2000, {HALF}, {length}, 2:0:0:0:0:1, 10.3.0.1, 5000,
                 ff:ff:ff:ff:ff:ff, 10.3.0.2, {PORT}, false) -> u{thread} :: Unqueue
                 -> NumberPacket(42, NET_ORDER true) -> out;"
        )
    };
    format!(
        "out :: ToDevice(eth0, METHOD XDP); {} {} StaticThreadSched(u0 0, u1 1)",
        half(0, 64),
        half(1, 80)
    )
}

#[test]
fn a_flow_that_comes_by_two_queues_is_served_by_one_thread() {
    if !privileged("a_flow_that_comes_by_two_queues_is_served_by_one_thread") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let control = dir.path().join("control");
    let text = format!("ControlSocket(UNIX, {}); {TRANSLATES}", control.display());
    let mut network = two_threads(&text, 2);
    let any = (Ipv4Addr::UNSPECIFIED, PORT);
    let socket = network.wan.within(|| UdpSocket::bind(any).expect("a free port"));
    socket.set_read_timeout(Some(LIMIT)).expect("a time");
    let mut command = network.lan.thruway();
    let sending = Running::start(command.args(["run", "-j", "2", "-e", &sender()]));
    let (mut next, mut source) = ([0; 2], None);
    let mut bytes = [0; 100];
    while next.iter().sum::<usize>() < 2 * HALF {
        let (len, from) = match socket.recv_from(&mut bytes) {
            Ok(came) => came,
            Err(error) => panic!("{error}: {next:?} came; {:#?}", network.stop()),
        };
        assert_eq!(*source.get_or_insert(from), from, "another port: another session");
        let half = usize::from(len > 64 - 42);
        let number = u64::from_be_bytes(*bytes.first_chunk().expect("eight bytes"));
        assert_eq!(number, next[half] as u64, "of half {half}");
        next[half] += 1;
    }
    assert!(source.is_some_and(|from| from.ip() == Ipv4Addr::new(10, 3, 0, 77)), "{source:?}");
    sending.interrupt();
    let handed = Client::unix(&control).number("fc.handed");
    let done = network.stop().expect(0);
    // One half came to the other thread, and counts once.
    let counted = (packets(&done, "nat"), packets(&done, "fc"), handed);
    assert_eq!(counted, (3000, 3000, 1500), "{done:#?}");
}

/// Connections of a word filter in two threads, and how often each says the word.
const CONNECTIONS: usize = 40;
const WORDS: usize = 5_000;

/// Reads what the other side said: where a word was not masked.
fn hear(stream: &mut TcpStream) -> std::io::Result<Vec<usize>> {
    stream.set_read_timeout(Some(LIMIT))?;
    let mut heard = vec![0; 6 * WORDS];
    stream.read_exact(&mut heard)?;
    Ok((0..heard.len()).filter(|at| heard[*at] != b'*').collect())
}

/// Each thread has a queue of each interface, and the two directions of a connection come by any:
/// one thread has both.
#[test]
fn streams_whose_directions_come_by_two_threads_are_whole() {
    if !privileged("streams_whose_directions_come_by_two_threads_are_whole") {
        return;
    }
    need("ping", "iputils-ping");
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let control = format!("CONTROL={}", socket.display());
    let mut network = Network::with_queues(&LAN, &WAN, 2).for_af_xdp();
    let mut command = network.middle.thruway();
    command.args(["run", "-j", "2"]).arg(root().join("examples/words.click"));
    // However late the rest of a word comes.
    let masks = "DO=MODE MASK";
    command.args(["LAN=lan0", "WAN=wan0", "WORDS=attack", masks, &control]);
    network.route(&mut command, "10.3.0.2");
    let listener = network.wan.within(|| TcpListener::bind(("10.3.0.2", PORT)).expect("a port"));
    let said = b"attack".repeat(WORDS);
    let answer = said.clone();
    // It waits for connections until the process ends, whatever becomes of this test.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // The client sees that nothing comes.
            if hear(&mut stream).is_ok_and(|plain| plain.is_empty()) {
                let _ = stream.write_all(&answer);
            }
        }
    });
    network.lan.within(|| {
        for number in 0..CONNECTIONS {
            let mut stream = TcpStream::connect(("10.3.0.2", PORT)).expect("a server");
            stream.write_all(&said).expect("somebody reads");
            let plain = hear(&mut stream).expect("an answer to what was masked");
            assert!(plain.is_empty(), "connection {number}: {plain:?} of {}", 6 * WORDS);
        }
    });
    let mut client = Client::unix(&socket);
    let handed = client.number("from_lan.handed") + client.number("from_wan.handed");
    drop(client);
    let done = network.stop().expect(0);
    assert!(handed > 0, "none was handed over: {done:#?}");
}

/// What an element that panics in one of two threads, both of which have the interface, leaves.
#[test]
fn a_thread_that_dies_ends_the_program_and_gives_interfaces_back() {
    if !privileged("a_thread_that_dies_ends_the_program_and_gives_interfaces_back") {
        return;
    }
    for (input, queues) in [("METHOD XDP", 2), ("METHOD LINUX", 1)] {
        let network = Network::with_queues(&LAN, &WAN, queues);
        let state = || network.middle.succeed("ip -d link show lan0");
        let before = state();
        let text = format!(
            "in :: FromDevice(lan0, PROMISC true, {input}) -> s :: CPUSwitch; s[0] -> Discard;
             s[1] -> bad :: Crash(AFTER 10) -> ToDevice(wan0)"
        );
        let mut command = network.middle.thruway();
        let mut running = Running::start(command.args(["run", "-q", "-j", "2", "-e", &text]));
        wait_for("the interface to be read", || {
            assert!(!running.ended(), "{}", running.stderr());
            (!state().contains("promiscuity 0")).then_some(())
        });
        network.lan.ip("neigh add 10.3.0.2 lladdr 02:00:00:00:00:09 dev eth0");
        // Flows enough for both threads.
        let send = || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a socket");
            socket.send_to(b"12345678", (Ipv4Addr::new(10, 3, 0, 2), PORT)).map(drop)
        };
        wait_for("the end", || {
            // What is sent to nobody is as good.
            let _ = network.lan.within(|| (0..64).try_for_each(|_| send()));
            running.ended().then_some(())
        });
        let done = running.wait(LIMIT);
        assert_eq!(done.code(), 1, "{done:#?}");
        let done = done.says(&[
            "error: thread 1 died: a panic, 'Crash does what it is for' (in bad); all threads",
            "in bad :: Crash",
        ]);
        assert_eq!(state(), before, "{done:#?}");
    }
}

fn thruway_with(options: &[&str], text: &str) -> Done {
    run(thruway().args(options).args(["-e", text]))
}

/// The threads of each element, by `thruway check`.
fn threads(options: &[&str], text: &str) -> Vec<String> {
    let done = thruway_with(&[&["check"], options].concat(), text).expect(0);
    let rows = done.stdout.lines().filter(|line| line.ends_with(']'));
    rows.filter_map(|row| row.split_whitespace().last().map(str::to_owned)).collect()
}

#[test]
fn one_argument_makes_a_pipeline_of_parallel_threads() {
    let text = "FromDevice(nosuch0) -> p :: Pipeliner -> Counter -> ToDevice(nosuch1);
                StaticThreadSched(p 1)";
    let placed = |placement| {
        let all = threads(&["-j", "2", "--placement", placement], text);
        all[..4].to_vec()
    };
    assert_eq!(placed("parallel"), ["[0,1]", "[0,1]", "[0,1]", "[0,1]"]);
    assert_eq!(placed("pipeline"), ["[0]", "[0,1]", "[1]", "[1]"]);
    assert_eq!(placed("balanced"), ["[0,1]", "[0,1]", "[1]", "[1]"]);
    let two = "FromDevice(nosuch0) -> Discard; FromDevice(nosuch1) -> Discard";
    let divided = threads(&["-j", "4", "--placement", "dedicated"], two);
    assert_eq!(divided, ["[0,1]", "[0,1]", "[2,3]", "[2,3]"]);
    let whole =
        "s :: InfiniteSource(LENGTH 60, LIMIT 1000, STOP true) -> p :: Pipeliner(BLOCKING true)
                 -> c :: Counter -> Discard; StaticThreadSched(s 0, p 1)";
    for (placement, handed) in [("parallel", "0"), ("pipeline", "1,000")] {
        let options = ["run", "-j", "2", "--placement", placement];
        let done = thruway_with(&options, whole).expect(0);
        assert_eq!(packets(&done, "c"), 1000);
        let by_ring = done.stdout.lines().any(|line| line.trim_start().starts_with("p "));
        assert_eq!(by_ring, handed != "0", "{done:#?}");
    }
}

/// Every packet that came to a ring that nobody empties is in the table of drops.
#[test]
fn what_a_thread_was_handed_and_did_not_take_is_counted() {
    let text = "a :: InfiniteSource(LENGTH 60, LIMIT 100, STOP true)
                -> p :: Pipeliner(CAPACITY 8, ACTIVE false) -> Discard; StaticThreadSched(a 0, p 1)";
    let done = thruway_with(&["run", "-j", "2"], text).expect(0);
    let rows = done.stdout.lines().skip_while(|line| !line.starts_with("Drops"));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split_whitespace().take(3).collect()).collect();
    let has = |row: &[&str]| rows.iter().any(|other| other == row);
    assert!(has(&["p", "congestion-drop", "92"]) && has(&["p", "stopped", "8"]), "{done:#?}");
}

#[test]
fn what_is_for_one_thread_is_refused_with_the_ways_of_the_others() {
    let text = "in :: FromDevice(nosuch0, THREADS 0) -> c :: Counter -> [1] k :: MixedQueue;
                k -> out :: Unqueue -> Discard; StaticThreadSched(out 1);
                in2 :: FromDevice(nosuch1, THREADS 0) -> k";
    let done = thruway_with(&["check", "-j", "2"], text).expect(1);
    done.says(&[
        "error: one thread only can use it (packets enter at both of its ends), and 2 reach it: \
         thread 0 comes from in2 -> k, thread 1 from out <- k; put a Pipeliner in front, or place \
         what is before it in one thread (StaticThreadSched, THREADS of FromDevice)",
        "in k :: MixedQueue",
    ]);
    let done =
        thruway_with(&["check", "-j", "2", "--paths"], "a :: Idle -> b :: Discard").expect(0);
    done.prints(&["  a: thread 0 "]);
}

/// What an element asks another for, it asks in its own thread: a configuration where that cannot
/// be is refused before it runs, with the ways.
#[test]
fn elements_that_ask_others_are_refused_where_threads_differ() {
    let rewriter = |threads: &str| {
        format!(
            "FromDevice(nosuch0, THREADS 0) -> ftp :: FTPPortMapper(rw, data, 0)
                -> rw :: TCPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0, pass 0) -> Discard;
             in2 :: FromDevice(nosuch1, THREADS {threads}) -> [1] rw;
             in3 :: FromDevice(nosuch2, THREADS {threads})
                -> data :: TCPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0) -> Discard"
        )
    };
    thruway_with(&["check", "-j", "2"], &rewriter("0")).expect(0);
    let done = thruway_with(&["check", "-j", "2"], &rewriter("1")).expect(1);
    done.says(&[
        "error: CONTROL_REWRITER: 'rw': one thread only can use it (the changes for its \
         connections are known in one thread only), and 2 reach it: thread 0 comes from \
         FromDevice@1 -> ftp -> rw, thread 1 from in2 -> rw; put a Pipeliner in front, or place \
         what is before it in one thread (StaticThreadSched, THREADS of FromDevice)",
        "in ftp :: FTPPortMapper",
    ]);
    let shared = "in1 :: FromDevice(nosuch0, THREADS 0)
            -> a :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0) -> Discard;
         in2 :: FromDevice(nosuch1, THREADS 1)
            -> b :: IPRewriter(pattern 192.0.2.2 1024-65535 - - 0 0, MAPPING_CAPACITY a) -> Discard";
    let done = thruway_with(&["check", "-j", "2"], shared).expect(1);
    done.says(&[
        "error: MAPPING_CAPACITY: this element asks 'a' in thread 1, which does not reach that: \
         thread 0 comes from in1 -> a, and here thread 1 comes from in2 -> b; have both reached",
        "in b :: IPRewriter",
    ]);
}

/// Two threads at full load through one limit, of packets that are counted: no clock decides.
#[test]
fn limits_hold_for_all_threads_together() {
    let text = "a :: InfiniteSource(LENGTH 60, LIMIT 40000, BURST 32) -> s :: RatedSplitter(0, BURST_SIZE 5000);
         b :: InfiniteSource(LENGTH 60, LIMIT 40000, BURST 32) -> s;
         StaticThreadSched(a 0, b 1);
         s -> in :: Counter -> d :: Discard; s[1] -> out :: Counter(COUNT_CALL 75000 stop) -> Discard";
    let done = thruway_with(&["run", "-j", "2"], text).expect(0);
    assert_eq!((packets(&done, "in"), packets(&done, "out")), (5000, 75_000), "{done:#?}");
    let done = thruway_with(&["check", "-j", "2", "--paths"], text).expect(0);
    done.prints(&[
        "  s: thread 0 comes from a -> s, thread 1 from b -> s",
        "    they share the tokens: the rate is that of all threads",
    ]);
}

/// Fragments of each packet that come by two threads are put together all the same.
#[test]
fn fragments_of_two_threads_meet() {
    let text = "s0 :: InfiniteSource(LENGTH 1200, LIMIT 150) -> UDPIPEncap(198.51.100.1, 1, 203.0.113.1, 2)
            -> IPFragmenter(596) -> rr :: RoundRobinSwitch;
         rr[0] -> p0 :: Pipeliner(BLOCKING true) -> r :: IPReassembler(HIMEM 16777216);
         rr[1] -> p1 :: Pipeliner(BLOCKING true) -> r;
         rr[2] -> p2 :: Pipeliner(BLOCKING true) -> r;
         r -> CheckIPHeader -> c :: Counter(COUNT_CALL 150 stop) -> Discard;
         StaticThreadSched(s0 0, p0 0, p1 1, p2 1)";
    let done = thruway_with(&["run", "-j", "2"], text).expect(0);
    assert_eq!(packets(&done, "c"), 150, "{done:#?}");
}

#[test]
fn cores_that_are_not_ours_are_refused() {
    let source = "InfiniteSource(LIMIT 3, STOP true) -> Discard";
    let refused = |options: &[&str]| thruway_with(&[&["run"], options].concat(), source).expect(1);
    refused(&["--cores", "1000"])
        .says(&["--cores: core 1000 is not this process's to use; it may"]);
    refused(&["--cores", "2-1"]).says(&["--cores: '2-1' is no list of cores; write 2-5 or 2,4-7"]);
    let allowed = rustix::thread::sched_getaffinity(None).expect("an affinity");
    let own = (0..rustix::thread::CpuSet::MAX_CPU).find(|core| allowed.is_set(*core));
    let own = own.expect("a core").to_string();
    refused(&["--cores", &format!("{own},{own}")]).says(&["is named twice"]);
    refused(&["-j", "2", "--cores", &own]).says(&["--cores names 1 for 2 threads"]);
    thruway_with(&["run", "-q", "--cores", &own], source).expect(0);
}
