//! Fewer transmit queues than threads: threads without one hand their packets to one that has one.

use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use thruway_sync::atomic::{AtomicBool, Ordering};

use crate::control::Client;
use crate::network::{HostConfig, Network};
use crate::process::{Done, Ending, LIMIT, Running, need, privileged, wait_for};
use crate::sockets::round_trip;
use crate::threads::{flows_stay_in_order, packets, two_threads};
use crate::traffic::fetch;

const LAN: HostConfig = HostConfig { addresses: &["10.3.0.1/24"], routers: &[] };
const WAN: HostConfig = HostConfig { addresses: &["10.3.0.2/24"], routers: &[] };
const NOBODY: HostConfig = HostConfig { addresses: &[], routers: &[] };

/// What a thread says that hands over.
const HANDED: &str = "to: interface 'wan0': AF_XDP, native mode, the kernel copies, 1 queue, none \
                      left for thread ";

/// A wire whose packets from `lan0` come in two threads and leave by the one queue of `wan0`.
fn wire() -> String {
    "FromDevice(lan0, METHOD LINUX) -> s :: CPUSwitch;
     s[0] -> c0 :: Counter -> to :: ToDevice(wan0); s[1] -> c1 :: Counter -> to;
     FromDevice(wan0, METHOD XDP) -> ToDevice(lan0);"
        .to_owned()
}

/// What the tables say that an element sent, and dropped for any reason.
#[track_caller]
fn sent_and_dropped(done: &Done, name: &str) -> (u64, u64) {
    let number = |word: &str| word.replace(',', "").parse::<u64>().expect("a number");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = done.stdout.lines().map(words).collect();
    let of = |row: &&Vec<String>| row.first().is_some_and(|first| first == name);
    let sent = rows.iter().filter(of).find(|row| row.get(3).is_some_and(|way| way == "out"));
    let sent = sent.unwrap_or_else(|| panic!("no port {name}: {done:#?}"));
    let begin = rows.iter().position(|row| row.first().is_some_and(|first| first == "Drops"));
    let drops = rows.iter().skip(begin.unwrap_or(rows.len())).filter(of);
    (number(&sent[4]), drops.map(|row| number(&row[2])).sum())
}

/// Every packet that came to the output is accounted for there, once.
#[track_caller]
fn nothing_is_missing(done: &Done) {
    let came = packets(done, "c0") + packets(done, "c1");
    let (sent, dropped) = sent_and_dropped(done, "to");
    assert_eq!(sent + dropped, came, "{sent} sent, {dropped} dropped: {done:#?}");
}

#[test]
fn two_threads_send_by_one_queue_in_order() {
    if !privileged("two_threads_send_by_one_queue_in_order") {
        return;
    }
    let mut network = two_threads(&wire(), 1);
    fetch(&network.lan, &network.wan, "10.3.0.2", 5 << 20);
    fetch(&network.wan, &network.lan, "10.3.0.1", 5 << 20);
    let (zero, one, done) = flows_stay_in_order(&mut network);
    assert!(zero > 0 && one > 0, "both threads have part: {done:#?}");
    nothing_is_missing(&done);
    assert!(!done.stderr.contains("'wan0': AF_PACKET"), "{done:#?}");
    done.says(&[HANDED]);
}

/// Two sources that make more than any interface takes.
const TOO_MUCH: &str = "FromDevice(wan0, METHOD XDP) -> Discard;
    s0 :: InfiniteSource(LENGTH 46) -> c0 :: Counter
        -> e :: EtherEncap(0x88b5, 02:00:00:00:00:01, 02:00:00:00:00:02) -> to :: ToDevice(wan0);
    s1 :: InfiniteSource(LENGTH 46) -> c1 :: Counter -> e;
    StaticThreadSched(s0 0, s1 1);";

#[test]
fn what_is_too_much_for_the_queue_is_counted() {
    if !privileged("what_is_too_much_for_the_queue_is_counted") {
        return;
    }
    let network = Network::new(&NOBODY, &NOBODY);
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let text = format!("ControlSocket(UNIX, {}); {TOO_MUCH}", socket.display());
    let mut running =
        Running::start(network.middle.thruway().args(["run", "-j", "2", "-e", &text]));
    let mut client = connected(&mut running, &socket);
    let numbers = |client: &mut Client| ["c0.count", "c1.count"].map(|name| client.number(name));
    wait_for("both threads to send much", || {
        numbers(&mut client).iter().all(|count| *count > 20_000).then_some(())
    });
    drop(client);
    // In the middle of it.
    let done = running.interrupt().expect(0);
    nothing_is_missing(&done);
    let (sent, _) = sent_and_dropped(&done, "to");
    assert!(sent > 0, "{done:#?}");
    done.says(&[HANDED]);
}

/// The control socket of a program that has just been started.
fn connected(running: &mut Running, socket: &Path) -> Client {
    wait_for("the socket", || {
        assert!(!running.ended(), "{}", running.stderr());
        socket.exists().then_some(())
    });
    Client::unix(socket)
}

#[test]
fn what_a_dying_thread_handed_over_is_counted() {
    if !privileged("what_a_dying_thread_handed_over_is_counted") {
        return;
    }
    let network = Network::new(&NOBODY, &NOBODY);
    for thread in 0..2 {
        let text = format!(
            "{TOO_MUCH} s2 :: InfiniteSource(LENGTH 46) -> Crash(AFTER 300000) -> Discard;
             StaticThreadSched(s2 {thread})"
        );
        let mut command = network.middle.thruway();
        let running = Running::start(command.args(["run", "-j", "2", "-e", &text]));
        let done = running.wait(LIMIT);
        assert_eq!(done.code(), 1, "{done:#?}");
        nothing_is_missing(&done);
        done.says(&[&format!("error: thread {thread} died"), HANDED]);
    }
}

#[test]
fn who_sends_for_others_is_woken() {
    if !privileged("who_sends_for_others_is_woken") {
        return;
    }
    need("ping", "iputils-ping");
    let mut network = Network::new(&LAN, &WAN);
    // Thread 1 sends first, so it has the queue; and then nothing more.
    let text = "one :: InfiniteSource(LENGTH 60, LIMIT 1)
            -> EtherEncap(0x88b5, 02:00:00:00:00:01, 02:00:00:00:00:02) -> to :: ToDevice(wan0);
        lan :: FromDevice(lan0, METHOD LINUX, THREADS 0, ACTIVE false) -> to;
        wan :: FromDevice(wan0, METHOD XDP) -> ToDevice(lan0);
        Script(label again, wait 10ms, goto again $(eq $(to.count) 0), write lan.active true);
        StaticThreadSched(one 1, wan 0)";
    let mut command = network.middle.thruway();
    let command = command.args(["run", "-q", "-j", "2", "--idle", "sleep", "-e", text]);
    network.route(command, "10.3.0.2");
    // Who sleeps on sleeps for 100 ms.
    let pings = network.lan.succeed("ping -n -c 15 -i 0.15 -W 20 10.3.0.2");
    assert!(pings.contains("15 received"), "{pings}");
    let times = pings.lines().filter_map(|line| line.split_once("time=")?.1.split_once(' '));
    let mut times: Vec<f64> = times.map(|(ms, _)| ms.parse().expect("a time")).collect();
    times.sort_unstable_by(f64::total_cmp);
    assert!(times[times.len() / 2] < 20.0, "{pings}");
    network.stop().expect(0).says(&[&format!("{HANDED}0: thread 1 sends for it")]);
}

/// Flows under way, swaps meanwhile, and datagrams of each flow after the last one.
const FLOWS: usize = 16;
const SWAPS: usize = 6;
const ROUNDS: u64 = 50;

#[test]
fn a_hot_swap_loses_nothing_that_was_handed_over() {
    if !privileged("a_hot_swap_loses_nothing_that_was_handed_over") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let text = format!("ControlSocket(UNIX, {}); {}", socket.display(), wire());
    need("ping", "iputils-ping");
    let mut network = Network::new(&LAN, &WAN);
    let mut command = network.middle.thruway();
    network.route(command.args(["run", "-R", "-j", "2", "-e", &text]), "10.3.0.2");
    let server = network.wan.within(|| UdpSocket::bind("0.0.0.0:7").expect("a free port"));
    let clients: Vec<UdpSocket> = network.lan.within(|| {
        let client = |_| {
            let socket = UdpSocket::bind("10.3.0.1:0").expect("a free port");
            socket.connect("10.3.0.2:7").expect("an address");
            socket
        };
        (0..FLOWS).map(client).collect()
    });
    server.set_read_timeout(Some(Duration::from_millis(100))).expect("a time above zero");
    let (swapped, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let (answers, ends) = std::thread::scope(|scope| {
        scope.spawn(|| echo(&server, &ended));
        let swapped = &swapped;
        let talk = |socket| scope.spawn(move || answered(socket, swapped));
        let talks: Vec<_> = clients.iter().map(talk).collect();
        // Also where a swap fails.
        let over = (Ending(&[swapped]), Ending(&[&ended]));
        let swaps = (0..SWAPS).map(|nth| {
            let answer = Client::unix(&socket).write_data("hotconfig", &format!("{text} // {nth}"));
            std::thread::sleep(Duration::from_millis(50));
            answer
        });
        let answers: Vec<(u32, String)> = swaps.collect();
        drop(over.0);
        let ends: Vec<_> = talks.into_iter().map(|talk| talk.join()).collect();
        (answers, ends)
    });
    ends.into_iter().for_each(|end| end.expect("every datagram was answered"));
    assert!(answers.iter().all(|(code, _)| *code == 200), "{answers:?}");
    let done = network.stop().expect(0);
    nothing_is_missing(&done);
    assert!(packets(&done, "c0") > 0 && packets(&done, "c1") > 0, "{done:#?}");
}

/// Answers each datagram with the same.
fn echo(socket: &UdpSocket, ended: &AtomicBool) {
    let mut bytes = [0; 8];
    while !ended.load(Ordering::Acquire) {
        if let Ok((len, from)) = socket.recv_from(&mut bytes) {
            // Whoever asked sees that no answer came.
            let _ = socket.send_to(&bytes[..len], from);
        }
    }
}

/// Sends numbered datagrams, each after the answer to the one before: none is lost for want of
/// room.
fn answered(socket: &UdpSocket, swapped: &AtomicBool) {
    // Far more than a machine under load takes.
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a time above zero");
    let mut left = ROUNDS;
    let mut number = 0u64;
    while left > 0 {
        round_trip(socket, number);
        number += 1;
        left -= u64::from(swapped.load(Ordering::Acquire));
    }
}
