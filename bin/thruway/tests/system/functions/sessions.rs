//! Sessions of isolated functions: their scratch is as it was whatever becomes of the process.

use std::process::ExitCode;

use rustix::process::{Pid, Signal, kill_process};
use thruway_nf::{Batch, Config, Counter, Function, Session, Verdict};

use super::parts::exec;
use super::{Captures, go};
use crate::control::Client;
use crate::process::{Running, click, run, wait_for};

/// Counts the packets of each session, by direction, in its scratch.
struct Counts {
    begun: Counter,
    ended: Counter,
    ended_packets: Counter,
    /// Most packets of a session.
    packets_max: Counter,
    without: Counter,
    /// Whether it takes packets in hand as if it changed them.
    touches: bool,
}

impl Function for Counts {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        batch.each(|packet| {
            let direction = usize::from(packet.direction());
            match packet.scratch::<[u64; 2]>() {
                Some(counts) => {
                    counts[direction] += 1;
                    let packets = counts[0] + counts[1];
                    self.packets_max.set(self.packets_max.get().max(packets));
                }
                None => self.without.add(1),
            }
            if self.touches {
                packet.bytes_mut();
            }
            Verdict::Next(0)
        });
    }

    fn new_session(&mut self, session: &mut Session<'_>) {
        assert_eq!(session.scratch::<[u64; 2]>().copied(), Some([0, 0]));
        self.begun.add(1);
    }

    fn released_session(&mut self, session: &mut Session<'_>) {
        let counts = session.scratch::<[u64; 2]>().copied();
        self.ended.add(1);
        self.ended_packets.add(counts.into_iter().flatten().sum());
    }
}

/// The process that plays "counts", or "counts:1", which touches packets.
pub fn play(touches: bool) -> ExitCode {
    let config = Config { name: "counts", scratch_len: 16, ..Config::DEFAULT };
    thruway_nf::run(&config, |start| {
        Ok(Counts {
            begun: start.counter("begun"),
            ended: start.counter("ended"),
            ended_packets: start.counter("ended-packets"),
            packets_max: start.counter("packets-max"),
            without: start.counter("without"),
            touches,
        })
    })
}

/// A UDP packet from this port of one host to another, or back.
fn datagram(port: u16, is_reply: bool) -> Vec<u8> {
    let mut frame = [&[2; 12][..], &[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]].concat();
    let mut ends = [([10, 0, 0, 1], port), ([10, 0, 0, 2], 53)];
    if is_reply {
        ends.reverse();
    }
    frame.extend(ends.iter().flat_map(|(ip, _)| *ip));
    frame.extend(ends.iter().flat_map(|(_, port)| port.to_be_bytes()));
    frame.extend([0, 26, 0, 0]);
    frame.resize(60, 0);
    frame
}

/// Sources of `count` sessions from the `first` on, all into `c`.
fn sources(first: u16, count: u16) -> String {
    let source = |nth: u16| {
        let bytes = datagram(1000 + first + nth, false);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("s{nth} :: RatedSource(DATA \\<{hex}>, RATE 3000) -> c;\n")
    };
    (0..count).map(source).collect()
}

/// A driver of packets through a function that counts, with its control socket.
pub struct Counted {
    pub driver: Running,
    pub client: Client,
    _dir: tempfile::TempDir,
}

pub fn configuration(count: u16, more: &str) -> String {
    format!(
        "c :: Counter -> fc :: FlowClassifier(UDP_NEW 1)
         -> nf :: Nf({}, SESSION connection, {more}) -> d :: Counter -> Discard;
         {}",
        exec("counts"),
        sources(0, count)
    )
}

impl Counted {
    pub fn start(text: &str) -> Counted {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("control");
        let name = socket.to_str().expect("plain text");
        let driver = Running::start(&mut click(&["-R", "-u", name, "-e", text]));
        Counted { driver, client: Client::unix(&socket), _dir: dir }
    }

    pub fn counter(&mut self, name: &str) -> u64 {
        let text = self.client.read("nf.counters");
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        found.unwrap_or(0)
    }

    pub fn wait_above(&mut self, handler: &str, number: u64) {
        wait_for(handler, || (self.client.number(handler) > number).then_some(()));
    }

    /// Stops the sources, and waits until all sessions have ended.
    fn end_sessions(&mut self, count: u16) {
        for nth in 0..count {
            assert_eq!(self.client.ask(&format!("WRITE s{nth}.active false")).0, 200);
        }
        wait_for("the end of sessions", || {
            (self.counter("ended ") == u64::from(count)).then_some(())
        });
        assert_eq!(self.client.number("fc.sessions"), 0);
    }
}

#[test]
fn a_killed_function_finds_its_sessions_as_they_were() {
    let mut counted = Counted::start(&configuration(3, "SESSIONS 3"));
    counted.wait_above("d.count", 1000);
    for restart in 1..=2 {
        let before = counted.counter("packets-max ");
        let pid = counted.client.read("nf.pid").parse().expect("a process");
        kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("it runs");
        counted.wait_above("nf.restarts", restart - 1);
        let left = counted.client.number("d.count");
        counted.wait_above("d.count", left + 300);
        assert!(counted.counter("packets-max ") > before, "counted on from {before}");
        assert_eq!(counted.counter("begun "), 0, "no session is new to it");
    }
    counted.end_sessions(3);
    // What came back was counted; what was counted came back or was lost with a process.
    let (left, sent) = (counted.client.number("d.count"), counted.client.number("c.count"));
    let packets = counted.counter("ended-packets ");
    assert!((left..=sent).contains(&packets), "{left} <= {packets} <= {sent}");
    assert_eq!((counted.counter("ended "), counted.counter("without ")), (3, 0));
    // The entries are free again: all three sessions begin anew.
    for nth in 0..3 {
        assert_eq!(counted.client.ask(&format!("WRITE s{nth}.active true")).0, 200);
    }
    wait_for("new sessions", || (counted.counter("begun ") == 3).then_some(()));
    counted.driver.interrupt().expect(0);
}

#[test]
fn a_hot_swap_keeps_the_sessions_of_a_function_that_is_configured_anew() {
    let text = |more: &str| configuration(3, &format!("SESSIONS 8{more}"));
    let mut counted = Counted::start(&text(""));
    counted.wait_above("d.count", 1000);
    let before = counted.counter("packets-max ");
    let pid = counted.client.read("nf.pid");
    assert_eq!(counted.client.write_data("hotconfig", &text(", WORKER_THRESHOLD 8")).0, 200);
    wait_for("the swap", || {
        let now = counted.client.read("nf.pid");
        (now != pid && now != "0").then_some(())
    });
    wait_for("packets", || (counted.counter("packets-max ") > before).then_some(()));
    assert_eq!(counted.counter("begun "), 0, "no session is new to it");
    // One that cannot begin leaves the running one and its sessions as they are.
    let (before, pid) = (counted.counter("packets-max "), counted.client.read("nf.pid"));
    let bad =
        text(", WORKER_THRESHOLD 9").replace("-> Discard", "-> FromDump(/no/such) -> Discard");
    counted.client.write_data("hotconfig", &bad);
    wait_for("packets", || (counted.counter("packets-max ") > before + 100).then_some(()));
    assert_eq!((counted.client.read("nf.pid"), counted.counter("begun ")), (pid, 0));
    counted.end_sessions(3);
    counted.driver.interrupt().expect(0);
}

#[test]
fn sessions_without_an_entry_are_refused_and_counted() {
    let mut counted = Counted::start(&configuration(3, "SESSIONS 2"));
    counted.wait_above("d.count", 1000);
    assert!(counted.client.read("nf.drops").contains("no-entry"));
    assert_eq!(counted.counter("begun "), 2);
    counted.driver.interrupt().expect(0);
}

#[test]
fn a_function_without_scratch_has_no_use_for_sessions() {
    let text =
        format!("Idle -> FlowClassifier -> Nf({}, SESSION connection) -> Discard", exec("passes"));
    go(&text, &["--duration", "5"]).expect(1).says(&["asks for no scratch", "leave SESSION out"]);
}

#[test]
fn threads_have_sessions_of_their_own_in_one_function() {
    // The second thread sees two connections of its own, or the same two, which one thread serves.
    for (first, sessions) in [(2, 4), (0, 2)] {
        sessions_of_two_threads(first, sessions);
    }
}

fn sessions_of_two_threads(first: u16, sessions: u64) {
    let part = |nth: u16| {
        let sources = sources(nth * first, 2).replace("-> c;", &format!("-> c{nth};"));
        format!(
            "c{nth} :: Counter -> FlowClassifier -> [{nth}] nf [{nth}] -> Discard;
             {}",
            sources.replace(" ::", &format!("n{nth} ::"))
        )
    };
    let nf = exec("counts");
    let text = format!(
        "nf :: Nf({nf}, SESSION connection, SESSIONS 2); StaticThreadSched(s0n1 1, s1n1 1);
         {}{}",
        part(0),
        part(1)
    );
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let name = socket.to_str().expect("plain text");
    let driver = Running::start(&mut click(&["-j", "2", "-u", name, "-e", &text]));
    let mut counted = Counted { driver, client: Client::unix(&socket), _dir: dir };
    counted.wait_above("c0.count", 300);
    counted.wait_above("c1.count", 300);
    wait_for("sessions", || (counted.counter("begun ") >= sessions).then_some(()));
    assert_eq!(counted.counter("begun "), sessions);
    counted.driver.interrupt().expect(0);
}

#[test]
fn sessions_go_from_slot_to_slot_and_within_a_group() {
    let frames: Vec<Vec<u8>> = (0..600).map(|n: u16| datagram(n % 20, n / 20 % 3 == 2)).collect();
    let captures = Captures::new(&frames);
    // What a function only looked at goes on as the host has it; in a group its frame does.
    for (part, more, hops) in [
        ("counts:1", "", true),
        ("counts:1", ", MODE group, GROUP friends", true),
        ("counts", "", false),
        ("counts", ", MODE group, GROUP friends", true),
    ] {
        let nf = format!("Nf({}, SESSION connection, SESSIONS 20{more})", exec(part));
        let text = format!(
            "TrustGroup(friends, FRAMES 2048);
             FromDump({}, STOP true) -> FlowClassifier -> a :: {nf} -> b :: {nf} -> ToDump({});
             DriverManager(wait, wait 300ms, print a.slot_to_slot, print b.packets_in,
                print b.dropped, print a.counters, print b.counters, stop)",
            captures.path("in"),
            captures.path("out")
        );
        let done = run(&mut click(&["-e", &text])).expect(0);
        assert!(captures.written("out") == frames, "{more}");
        let lines: Vec<&str> = done.stdout.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines[0].parse::<u64>().expect("a number") > 0, hops, "{more}");
        assert_eq!(lines[1..3], ["600", "0"], "{more}");
        let told = |what: &str| lines.iter().filter(|line| **line == what).count();
        assert_eq!((told("begun 20"), told("packets-max 30")), (2, 2), "{more}: {lines:?}");
        assert_eq!(told("without 0"), 2, "{more}");
    }
}
