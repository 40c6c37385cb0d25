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

/// The process that plays "stamps", or "checks".
pub fn play(is_checking: bool) -> ExitCode {
    let config = Config { name: "stamps", scratch_len: 8, ..Config::DEFAULT };
    thruway_nf::run(&config, |start| {
        Ok(Stamps {
            is_checking,
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

impl Moved {
    fn start(sessions: u32, rate: u32, slots: u32) -> Moved {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("control");
        let nf = |name: &str, part: &str| {
            let run = format!("SESSION connection, SESSIONS 65536, SLOTS {slots}, HANG 60s");
            format!("{name} :: Nf({}, {run}, ON_FAILURE restart, HOLD 10s)", exec(part))
        };
        let replica = |n: usize| format!("b[{n}] -> {} -> k;", nf(&format!("r{n}"), "stamps"));
        let replicas: String = (0..3).map(replica).collect();
        let text = format!(
            "s :: FastUDPFlows({rate}, -1, 60, 0:0:0:0:0:1, 10.0.0.1, 0:0:0:0:0:2, 10.0.0.2,
                {sessions}, 1000000000)
                -> Unqueue -> Strip(14) -> CheckIPHeader -> c :: Counter
                -> FlowClassifier(INPUT ip) -> b :: Balance(FAILOVER 10s);
             {} -> d :: Counter -> Discard; {replicas}",
            nf("k", "checks")
        );
        let name = socket.to_str().expect("plain text");
        let driver = Running::start(&mut click(&["-u", name, "-e", &text]));
        let mut moved = Moved { driver, client: Client::unix(&socket), _dir: dir };
        wait_for("all sessions", || (moved.counter("k", "begun") >= sessions.into()).then_some(()));
        moved
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
    let lost = moved.drained();
    let drops = ["b", "r0", "r1", "r2", "k"].map(|of| moved.client.read(&format!("{of}.drops")));
    assert_eq!(lost, 0, "none is lost: {drops:?}");
    assert_eq!((moved.counter("k", "gaps"), moved.counter("k", "backwards")), (0, 0));
    let begun: u64 = (0..3).map(|n| moved.counter(&format!("r{n}"), "begun")).sum();
    assert_eq!(begun, 500, "each begins once");
    moved.driver.interrupt().expect(0);
}

/// A replica that stands still when its sessions move: what waits for them meanwhile is more than
/// the new replica's ring takes at once. (All go together: those that wait for their turn would fill
/// the ring of the one that stands.)
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
