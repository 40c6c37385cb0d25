//! Functions in processes of their own: their sessions go to the other host with their scratch.

#[path = "../../../../../nf/sdk-c/tests/compile/mod.rs"]
mod compile;

use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::ExitCode;

use thruway_nf::{Batch, Config, Counter, Function, Verdict};
use thruway_sync::atomic::{AtomicBool, Ordering};

use super::switchover::lost_pings;
use super::*;
use crate::functions::parts::exec;
use crate::process::Ending;

/// What a datagram begins with that is to be numbered.
const MARK: &[u8; 8] = b"numbered";
/// Words of a session's scratch: longer than a byte could count.
const WORDS: usize = 40;
/// Sessions of UDP that are numbered, and the pause between two requests of one.
const TALKS: usize = 30;
const PAUSE: Duration = Duration::from_millis(10);
/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(4);
/// Scratch of a session that had packets is sent within STATE_TIME (100 ms) and some ticks: here
/// with what a busy machine adds.
const BEHIND: Duration = Duration::from_millis(300);

/// Counts the packets of each session, and writes the number into marked datagrams. All words of
/// the scratch follow from the count, so that a part of a scratch is found.
struct Numbers {
    torn: Counter,
    /// How long it takes for each packet.
    work: Duration,
}

fn words(count: u64) -> [u64; WORDS] {
    std::array::from_fn(|at| count.wrapping_mul(at as u64 + 1))
}

impl Function for Numbers {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        batch.each(|packet| {
            let (bytes, Some(scratch)) = packet.bytes_and_scratch::<[u64; WORDS]>() else {
                return Verdict::Next(0);
            };
            let (count, begun) = (scratch[0], Instant::now());
            while begun.elapsed() < self.work {
                std::hint::spin_loop();
            }
            self.torn.add(u64::from(*scratch != words(count)));
            *scratch = words(count + 1);
            number(bytes, count + 1);
            Verdict::Next(0)
        });
    }
}

/// Writes a number into a marked datagram of IPv4.
fn number(bytes: &mut [u8], number: u64) -> Option<()> {
    let [first, .., 17] = bytes.first_chunk::<10>()? else { return None };
    let udp = usize::from(first & 15) * 4;
    if first >> 4 != 4 || bytes.get(udp + 8..udp + 16)? != MARK {
        return None;
    }
    bytes.get_mut(udp + 16..udp + 24)?.copy_from_slice(&number.to_be_bytes());
    // None: the receiver does not look at it (RFC 768).
    bytes[udp + 6..udp + 8].fill(0);
    Some(())
}

/// The process that plays "numbers", or "numbers:100", which takes 100 microseconds for a packet.
pub fn play(work_us: u64) -> ExitCode {
    let scratch_len = (WORDS * 8) as u32;
    let config = Config { name: "numbers", scratch_len, ..Config::DEFAULT };
    let work = Duration::from_micros(work_us);
    thruway_nf::run(&config, |start| Ok(Numbers { torn: start.counter("torn"), work }))
}

/// Functions behind address translation, for packets of both directions.
pub struct Functions {
    /// The part of the one that numbers.
    part: &'static str,
    /// The program of another one, which counts the packets of each session.
    counts: Option<(tempfile::TempDir, PathBuf)>,
}

impl Functions {
    /// The example with them.
    pub fn within(&self, text: &str) -> String {
        let run = format!("{}, SCRATCH 320", exec(self.part));
        let (declared, behind) = match &self.counts {
            Some((_, program)) => {
                let count = format!("EXEC {}", program.display());
                (format!("count :: {};\n", nf(&count)), "-> count ")
            }
            None => Default::default(),
        };
        let functions =
            format!("{declared}numbers :: {};\nnat -> numbers {behind}-> routes;", nf(&run));
        let changes = [
            ("nat -> routes;", functions.as_str()),
            ("firewall[1] -> routes;", "firewall[1] -> numbers;"),
        ];
        changes.into_iter().fold(text.to_owned(), |text, (plain, changed)| {
            assert!(text.contains(plain), "{plain}");
            text.replace(plain, changed)
        })
    }
}

fn nf(run: &str) -> String {
    format!("Nf({run}, SESSION connection, SESSIONS 4096, HANG 20s)")
}

/// A request and its reply: when it came, how often it was asked, and the numbers of both.
struct Exchange {
    at: Instant,
    asked: u32,
    request: u64,
    reply: u64,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Replies to datagrams: behind what came it puts the number that the request had.
fn reply_to(socket: &UdpSocket, stop: &AtomicBool) {
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
    let mut bytes = [0; 64];
    while !stop.load(Ordering::Relaxed) {
        let Ok((32, from)) = socket.recv_from(&mut bytes) else { continue };
        bytes.copy_within(8..16, 24);
        let _ = socket.send_to(&bytes[..32], from);
    }
}

/// Asks again and again until `stop`. A request without a reply is repeated.
fn ask(socket: &UdpSocket, repeat: Duration, stop: &AtomicBool) -> Vec<Exchange> {
    socket.set_read_timeout(Some(repeat)).expect("a socket");
    let mut done = Vec::new();
    let mut bytes = [0; 64];
    while !stop.load(Ordering::Relaxed) {
        let sequence = done.len() as u64;
        let request = [&MARK[..], &[0; 8], &sequence.to_be_bytes(), &[0; 8]].concat();
        let begun = Instant::now();
        let mut asked = 0;
        while asked == 0 || socket.recv(&mut bytes).is_err() || word(&bytes, 16) != sequence {
            assert!(begun.elapsed() < PATIENCE, "no reply to request {sequence}");
            asked += 1;
            socket.send(&request).expect("a route");
        }
        let (at, request, reply) = (Instant::now(), word(&bytes, 24), word(&bytes, 8));
        done.push(Exchange { at, asked, request, reply });
        std::thread::sleep(PAUSE);
    }
    done
}

/// Has sessions of UDP numbered while `meanwhile` runs.
fn numbered(
    pair: &mut Pair,
    repeat: Duration,
    meanwhile: impl FnOnce(&mut Pair),
) -> Vec<Vec<Exchange>> {
    let bind = || UdpSocket::bind("203.0.113.1:7001").expect("a socket");
    let server = pair.outside.within(bind);
    let connect = || {
        let socket = UdpSocket::bind("192.168.1.10:0").expect("a socket");
        socket.connect("203.0.113.1:7001").expect("a route");
        socket
    };
    let sockets: Vec<UdpSocket> = (0..TALKS).map(|_| pair.inside.within(connect)).collect();
    let (stop, stop_server) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| reply_to(&server, &stop_server));
        let ending = (Ending(&[&stop]), Ending(&[&stop_server]));
        let stop = &stop;
        let asking: Vec<_> =
            sockets.iter().map(|socket| scope.spawn(move || ask(socket, repeat, stop))).collect();
        std::thread::sleep(Duration::from_millis(500));
        meanwhile(pair);
        std::thread::sleep(Duration::from_millis(500));
        drop(ending.0);
        asking.into_iter().map(|asking| asking.join().expect("replies")).collect()
    })
}

fn running(part: &'static str) -> Pair {
    let mut pair = Pair::new();
    pair.functions = Some(Functions { part, counts: None });
    pair
}

/// No scratch was there only in part.
fn check_whole(pair: &Pair, which: usize) {
    let counters = pair.read(which, "numbers.counters");
    assert!(counters.lines().any(|line| line == "torn 0"), "host {which}: {counters}");
    assert_eq!(pair.count(which, "pair.unusable"), 0, "{}", pair.log(which));
}

/// Packets that were dropped, by reason.
fn drops(pair: &Pair) -> String {
    let read = |which| {
        let drops = ["pair.drops", "numbers.drops"].map(|name| pair.read(which, name));
        format!("{}\n{}", drops.join("\n"), pair.log(which))
    };
    [0, 1].map(read).join("\n")
}

/// Four switchovers, there and back.
fn switch_over_and_back(pair: &Pair) {
    for round in 0..4 {
        pair.switch_over(round % 2);
        pair.wait_synchronized_at(round % 2);
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Each request came to its number, and each reply: none was lost, repeated or overtaken, and
/// scratch is that of the last packet.
fn check_switched_over(pair: &Pair, talks: &[Vec<Exchange>]) {
    println!("{} requests of {TALKS} sessions", talks.iter().map(Vec::len).sum::<usize>());
    for (number, talk) in talks.iter().enumerate() {
        assert!(talk.len() > 20, "session {number}: {} replies", talk.len());
        for (nth, done) in (0u64..).zip(talk) {
            let numbers = (done.asked, done.request, done.reply);
            assert_eq!(numbers, (1, 2 * nth + 1, 2 * nth + 2), "session {number}");
        }
    }
    assert_eq!([0, 1].map(|which| pair.read(which, "pair.term")), ["4", "4"]);
    [0, 1].iter().for_each(|which| check_whole(pair, *which));
}

#[test]
fn scratch_goes_along_at_a_switchover_to_the_last_packet() {
    if !privileged("scratch_goes_along_at_a_switchover_to_the_last_packet") {
        return;
    }
    let mut pair = running("numbers");
    pair.start_backup();
    pair.start_active();
    under_load(&mut pair, |pair| {
        let talks = numbered(pair, PATIENCE, |pair| {
            pair.wait_synchronized();
            let lost = lost_pings(pair, || switch_over_and_back(pair));
            assert_eq!(lost, 0, "{}", drops(pair));
        });
        check_switched_over(pair, &talks);
    });
}

/// A function that always has packets, and one in C behind it: a switchover waits for these.
#[test]
fn a_switchover_waits_for_the_packets_of_a_slow_function() {
    if !privileged("a_switchover_waits_for_the_packets_of_a_slow_function") {
        return;
    }
    let mut pair = Pair::new();
    let counts = Some(compile::compile(compile::C, "examples/functions/c/flowcount.c"));
    pair.functions = Some(Functions { part: "numbers:500", counts });
    pair.start_backup();
    pair.start_active();
    let talks = numbered(&mut pair, PATIENCE, |pair| {
        pair.wait_synchronized();
        assert!(pair.count(0, "numbers.occupancy") > 0);
        switch_over_and_back(pair);
    });
    check_switched_over(&pair, &talks);
    // The longest talk, as the host that served last counts it.
    let longest = talks.iter().filter_map(|talk| talk.last()).map(|done| done.reply).max();
    let counted = format!("packets-max {}", longest.expect("replies"));
    let counters = pair.read(0, "count.counters");
    assert!(counters.lines().any(|line| line == counted), "{counted}: {counters}");
}

#[test]
fn scratch_is_behind_by_no_more_than_a_moment_after_a_loss() {
    if !privileged("scratch_is_behind_by_no_more_than_a_moment_after_a_loss") {
        return;
    }
    let mut pair = running("numbers");
    pair.start_backup();
    pair.start_active();
    under_load(&mut pair, |pair| {
        let mut killed = None;
        let talks = numbered(pair, Duration::from_millis(200), |pair| {
            pair.wait_synchronized();
            std::thread::sleep(Duration::from_millis(500));
            assert!(pair.count(0, "pair.resent") > TALKS as u64);
            killed = Some(Instant::now());
            pair.kill_active();
        });
        let killed = killed.expect("it was killed");
        let mut behind: Vec<u64> = talks.iter().map(|talk| count_behind(talk, killed)).collect();
        behind.sort_unstable();
        println!("packets that the backup's scratch lacks, of each session: {behind:?}");
        check_whole(pair, 1);
    });
}

/// How many packets of a session its scratch lacks after the loss of a host.
fn count_behind(talk: &[Exchange], killed: Instant) -> u64 {
    let goes_back = |pair: &[Exchange]| pair[1].request <= pair[0].reply;
    let Some(turn) = talk.windows(2).position(goes_back) else { return 0 };
    let (before, after) = talk.split_at(turn + 1);
    let (last, first) = (&before[turn], &after[0]);
    assert!(first.at > killed, "scratch was lost before the host was");
    let safe = before.iter().rev().find(|done| done.at < killed - BEHIND).expect("it lived");
    assert!(first.request > safe.reply, "{} after {}", first.request, safe.reply);
    // From there on each packet is counted, also requests that were repeated.
    assert!(!after.windows(2).any(goes_back), "scratch was lost a second time");
    last.reply + 1 - first.request
}

/// A function of another program, or with other arguments, cannot go on.
#[test]
fn another_program_on_the_other_host_is_refused() {
    if !privileged("another_program_on_the_other_host_is_refused") {
        return;
    }
    let mut pair = running("numbers");
    pair.start_backup();
    pair.functions = Some(Functions { part: "numbers:1", counts: None });
    pair.start_active();
    pair.wait_log(1, "the chains differ");
    for (which, host) in [(1, "refused"), (0, "the other host refused")] {
        pair.wait_log(which, host);
        let log = pair.log(which);
        assert!(log.contains("numbers :: Nf (program "), "{log}");
        assert!(log.contains("the same programs of functions"), "{log}");
    }
    assert_eq!(pair.read(0, "pair.synchronized"), "false");
}
