//! Sessions that move between replicas of a function while packets flow: each goes on with its
//! scratch, in order, and without a loss.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use thruway_nf::{Batch, Config, Counter, Function, Session, Verdict};

use super::parts::exec;
use crate::control::Client;
use crate::process::{Running, click, wait_for};

/// Numbers the packets of each session by its scratch, and writes the number into them; or checks
/// such numbers.
struct Stamps {
    is_checking: bool,
    begun: Counter,
    ended: Counter,
    /// Numbers that are not the next one: packets between them were lost.
    gaps: Counter,
    /// Numbers that came before: scratch was lost, or a packet overtaken.
    backwards: Counter,
}

impl Function for Stamps {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        batch.each(|packet| {
            let (bytes, Some(last)) = packet.bytes_and_scratch::<u64>() else {
                return Verdict::Drop;
            };
            let stamp = bytes.last_chunk_mut::<8>().expect("a long packet");
            if self.is_checking {
                let number = u64::from_be_bytes(*stamp);
                self.gaps.add(u64::from(number > *last + 1));
                self.backwards.add(u64::from(number <= *last));
                *last = number;
            } else {
                *last += 1;
                *stamp = last.to_be_bytes();
            }
            Verdict::Next(0)
        });
    }

    fn new_session(&mut self, session: &mut Session<'_>) {
        assert_eq!(session.scratch::<u64>().copied(), Some(0));
        self.begun.add(1);
    }

    fn released_session(&mut self, _session: &mut Session<'_>) {
        self.ended.add(1);
    }
}

/// The process that plays "stamps", "stamps-2" (a version that keeps more of each session), or
/// "checks".
pub fn play(part: &str) -> ExitCode {
    let scratch_len = if part == "stamps-2" { 24 } else { 8 };
    let config = Config { name: "stamps", scratch_len, ..Config::DEFAULT };
    thruway_nf::run_workers(&config, |start| {
        Ok(Stamps {
            is_checking: part == "checks",
            begun: start.counter("begun"),
            ended: start.counter("ended"),
            gaps: start.counter("gaps"),
            backwards: start.counter("backwards"),
        })
    })
}

/// A source of so many sessions, three replicas that number packets, and one function that checks.
struct Moved {
    driver: Running,
    client: Client,
    _dir: tempfile::TempDir,
}

/// The name of an element that only the configuration of these replicas has.
fn marker(parts: &[&str]) -> String {
    parts.join("_").replace('-', "_")
}

/// The configuration: `parts` are what the replicas run.
fn text(sessions: u32, rate: u32, slots: u32, parts: &[&str]) -> String {
    let nf = |name: &str, part: &str| {
        let run = format!("SESSION connection, SESSIONS 65536, SLOTS {slots}, HANG 60s");
        format!("{name} :: Nf({}, {run}, ON_FAILURE restart, HOLD 10s)", exec(part))
    };
    let replica =
        |(n, part): (usize, &&str)| format!("b[{n}] -> {} -> k;", nf(&format!("r{n}"), part));
    let replicas: String = parts.iter().enumerate().map(replica).collect();
    format!(
        "s :: FastUDPFlows({rate}, -1, 60, 0:0:0:0:0:1, 10.0.0.1, 0:0:0:0:0:2, 10.0.0.2,
            {sessions}, 1000000000)
            -> Unqueue -> Strip(14) -> CheckIPHeader -> c :: Counter
            -> FlowClassifier(INPUT ip) -> b :: Balance(FAILOVER 10s);
         Idle -> {} :: Discard;
         {} -> d :: Counter -> Discard; {replicas}",
        marker(parts),
        nf("k", "checks")
    )
}

impl Moved {
    fn start(sessions: u32, rate: u32, slots: u32) -> Moved {
        let moved = Moved::start_text(&text(sessions, rate, slots, &["stamps"; 3]));
        moved.with(sessions)
    }

    fn start_text(text: &str) -> Moved {
        Moved::start_with(&[], text)
    }

    fn start_with(options: &[&str], text: &str) -> Moved {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("control");
        let name = socket.to_str().expect("plain text");
        let options = [options, &["-R", "-u", name, "-e", text]].concat();
        let driver = Running::start(&mut click(&options));
        Moved { driver, client: Client::unix(&socket), _dir: dir }
    }

    /// Waits for so many sessions.
    fn with(mut self, sessions: u32) -> Moved {
        let all = u64::from(sessions);
        wait_for("all sessions", || (self.counter("k", "begun") >= all).then_some(()));
        self
    }

    /// A counter of a function's own.
    fn counter(&mut self, of: &str, name: &str) -> u64 {
        let text = self.client.read(&format!("{of}.counters"));
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or(0)
    }

    /// The number of sessions of each replica.
    fn held(&mut self) -> Vec<u64> {
        let text = self.client.read("b.counts");
        let number = |line: &str| line.split(' ').nth(1).and_then(|word| word.parse().ok());
        text.lines().map(|line| number(line).expect("a number")).collect()
    }

    fn write(&mut self, call: &str) {
        let (code, text) = self.client.ask(&format!("WRITE {call}"));
        assert_eq!(code, 200, "{call}: {text}");
    }

    fn wait_for_moves(&mut self) {
        wait_for("moves", || self.client.read("b.moving").is_empty().then_some(()));
    }

    /// Sends a function's process a signal.
    fn signal(&mut self, of: &str, signal: Signal) {
        let pid = self.client.read(&format!("{of}.pid")).parse().expect("a number");
        if let Some(pid) = Pid::from_raw(pid) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Stops the source, waits until all packets are through, and says how many were lost.
    fn drained(&mut self) -> u64 {
        self.write("s.active false");
        let mut before = u64::MAX;
        wait_for("silence", || {
            std::thread::sleep(Duration::from_millis(200));
            let now = self.client.number("d.count");
            (std::mem::replace(&mut before, now) == now).then_some(())
        });
        self.client.number("c.count") - self.client.number("d.count")
    }

    /// Once the sources stand still: nothing was lost or reordered, and each of 500 sessions began
    /// once.
    fn ends_without_a_loss(mut self) {
        let lost = self.drained();
        let drops = ["b", "r0", "r1", "r2", "k"].map(|of| self.client.read(&format!("{of}.drops")));
        assert_eq!(lost, 0, "none is lost: {drops:?}");
        assert_eq!((self.counter("k", "gaps"), self.counter("k", "backwards")), (0, 0));
        let begun: u64 = (0..3).map(|n| self.counter(&format!("r{n}"), "begun")).sum();
        assert_eq!(begun, 500, "each begins once");
        self.driver.interrupt().expect(0);
    }
}

#[test]
fn sessions_move_a_hundred_times_in_order_and_nothing_is_lost() {
    let mut moved = Moved::start(500, 20_000, 2048);
    for nth in 0..100 {
        let from = nth % 3;
        moved.write(&format!("b.move {from} {} all", (from + 1) % 3));
        moved.wait_for_moves();
        assert_eq!(moved.held()[from], 0, "move {nth}");
        assert_eq!(moved.held().iter().sum::<u64>(), 500);
    }
    moved.write("b.move 1 0 100");
    moved.wait_for_moves();
    assert_eq!(moved.held()[0], 100);
    moved.write("b.drain 0 now");
    moved.wait_for_moves();
    assert_eq!(moved.held()[0], 0);
    println!("moved {} sessions", moved.client.read("b.moved"));
    moved.ends_without_a_loss();
}

/// The same in two threads, of which each has sessions of its own at a Worker of its own, in each
/// replica.
#[test]
fn sessions_of_several_workers_move_and_nothing_is_lost() {
    let one = text(250, 10_000, 2048, &["stamps"; 3]);
    let second = one[..one.find("-> Unqueue").expect("a source")].replace("s ::", "t ::");
    let second = second.replace("10.0.0.1", "10.0.1.1");
    let text = one.replace("-> Unqueue", "-> u0 :: Unqueue").replace("SLOTS", "WORKERS 2, SLOTS")
        + &format!("; {second} -> u1 :: Unqueue -> Strip(14) -> CheckIPHeader -> c;")
        + "StaticThreadSched(u0 0, u1 1)";
    let mut moved = Moved::start_with(&["-j", "2"], &text).with(500);
    for nth in 0..30 {
        let from = nth % 3;
        moved.write(&format!("b.move {from} {} all", (from + 1) % 3));
        // Each thread moves its own.
        moved.wait_for_moves();
        let held = moved.held();
        assert_eq!((held[from], held.iter().sum::<u64>()), (0, 500), "move {nth}");
    }
    moved.write("t.active false");
    moved.ends_without_a_loss();
}

/// A replica that stands still when its sessions move: what waits for them meanwhile is more than
/// the new replica's ring takes at once. (All go together: those that wait for their turn would
/// fill the ring of the one that stands.)
#[test]
fn a_move_that_waits_for_long_loses_nothing_in_small_rings() {
    let mut moved = Moved::start(250, 20_000, 256);
    for nth in 0..6 {
        let from = nth % 3;
        moved.signal(&format!("r{from}"), Signal::STOP);
        moved.write(&format!("b.move {from} {} all", (from + 1) % 3));
        std::thread::sleep(Duration::from_millis(150));
        moved.signal(&format!("r{from}"), Signal::CONT);
        moved.wait_for_moves();
        assert_eq!((moved.held()[from], moved.held().iter().sum::<u64>()), (0, 250));
    }
    let lost = moved.drained();
    let drops = ["b", "r0", "r1", "r2", "k"].map(|of| moved.client.read(&format!("{of}.drops")));
    assert_eq!(lost, 0, "none is lost: {drops:?}");
    assert_eq!((moved.counter("k", "gaps"), moved.counter("k", "backwards")), (0, 0));
    moved.driver.interrupt().expect(0);
}

#[test]
fn sessions_survive_kills_of_source_and_target_while_they_move() {
    let mut moved = Moved::start(500, 20_000, 2048);
    for nth in 0..12 {
        let (from, to) = (nth % 3, (nth + 1) % 3);
        let killed = if nth % 2 == 0 { from } else { to };
        moved.write(&format!("b.move {from} {to} all"));
        moved.signal(&format!("r{killed}"), Signal::KILL);
        moved.wait_for_moves();
        assert_eq!((moved.held()[from], moved.held().iter().sum::<u64>()), (0, 500));
    }
    // A session that lost its scratch would begin again with 1.
    assert_eq!(moved.counter("k", "backwards"), 0);
    let lost = moved.drained();
    let counted: u64 = (0..3)
        .map(|n| moved.client.read(&format!("r{n}.drops")))
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|line| line.split(' ').next()?.parse::<u64>().ok())
        .sum();
    println!("lost {lost} with 12 processes, counted {counted}");
    assert_eq!(lost, counted, "what killed processes had, and no more");
    assert_eq!(moved.counter("k", "backwards"), 0);
    moved.driver.interrupt().expect(0);
}

/// Another version is declared beside the old one, the old one is drained, and its place is for the
/// version after that.
#[test]
fn sessions_move_from_version_to_version() {
    const SESSIONS: u32 = 300;
    let of = |parts: &[&str]| text(SESSIONS, 10_000, 1024, parts);
    let mut moved = Moved::start_text(&of(&["stamps"])).with(SESSIONS);
    let swap = |moved: &mut Moved, parts: &[&str], new: &str| {
        let (code, said) = moved.client.write_data("hotconfig", &of(parts));
        assert_eq!(code, 200, "{said}");
        let call = format!("CHECKREAD {}.name", marker(parts));
        wait_for("the swap", || (moved.client.ask(&call).0 == 200).then_some(()));
        let call = format!("{new}.state");
        wait_for("the version", || (moved.client.read(&call) == "running").then_some(()));
    };
    swap(&mut moved, &["stamps", "stamps-2"], "r1");
    assert_eq!(moved.held(), [300, 0]);
    // It keeps less of a session than the new one: there is no way back.
    let (code, said) = moved.client.ask("WRITE b.move 1 0");
    assert!(code != 200 && said.contains("may keep more, and not less"), "{code} {said}");
    moved.write("b.drain 0 now");
    moved.wait_for_moves();
    assert_eq!(moved.held(), [0, 300]);
    // Nothing is at the old one any more: another one may take its place, and no packet is lost.
    swap(&mut moved, &["stamps-2", "stamps-2"], "r0");
    moved.write("b.resume 0");
    moved.write("b.drain 1 now");
    moved.wait_for_moves();
    assert_eq!(moved.held(), [300, 0]);
    assert_eq!(moved.drained(), 0);
    assert_eq!((moved.counter("k", "gaps"), moved.counter("k", "backwards")), (0, 0));
    moved.driver.interrupt().expect(0);
}

#[test]
fn many_sessions_move_soon() {
    let mut moved = Moved::start(30_000, 20_000, 2048);
    let from = moved.held()[0];
    let begun = Instant::now();
    moved.write("b.move 0 1 all");
    moved.wait_for_moves();
    println!("moved {from} sessions in {:?} under 20,000 packets/s", begun.elapsed());
    assert_eq!(moved.held()[0], 0);
    assert_eq!(moved.drained(), 0);
    assert_eq!((moved.counter("k", "gaps"), moved.counter("k", "backwards")), (0, 0));
    moved.driver.interrupt().expect(0);
}
