//! Balance in front of replicas of an isolated function: new sessions follow the load, and leave a
//! replica that takes nothing.

use rustix::process::{Pid, Signal, kill_process};

use super::parts::exec;
use crate::control::Client;
use crate::process::{Running, click, wait_for};

/// A Balance over three replicas, and a source with a hundred sessions at any time, of some seconds
/// each: they outlast FAILOVER.
struct Steered {
    driver: Running,
    client: Client,
    _dir: tempfile::TempDir,
}

/// What a line of `b.counts` says of a replica.
struct Counts {
    total: u64,
    packets: u64,
}

impl Steered {
    fn start() -> Steered {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("control");
        let replica = |n: usize| {
            let nf = format!("r{n} :: Nf({}, SLOTS 64, HANG 60s)", exec("passes"));
            format!("b[{n}] -> {nf} -> d;")
        };
        let replicas: String = (0..3).map(replica).collect();
        let text = format!(
            "s :: FastUDPFlows(4000, -1, 60, 0:0:0:0:0:1, 10.0.0.1, 0:0:0:0:0:2, 10.0.0.2, 100, 100)
                -> Unqueue -> Strip(14) -> CheckIPHeader -> c :: Counter
                -> FlowClassifier(INPUT ip) -> b :: Balance(FAILOVER 300ms);
             d :: Counter -> Discard; {replicas}"
        );
        let name = socket.to_str().expect("plain text");
        let driver = Running::start(&mut click(&["-u", name, "-e", &text]));
        Steered { driver, client: Client::unix(&socket), _dir: dir }
    }

    fn counts(&mut self, replica: usize) -> Counts {
        let text = self.client.read("b.counts");
        let line = text.lines().nth(replica).expect("a line per replica");
        let numbers: Vec<u64> =
            line.split(' ').map(|word| word.parse().expect("a number")).collect();
        assert_eq!((numbers[0], numbers.len()), (replica as u64, 5), "{line}");
        Counts { total: numbers[2], packets: numbers[3] }
    }

    /// Waits until a replica got so many sessions more.
    fn wait_for_sessions(&mut self, replica: usize, more: u64) {
        let before = self.counts(replica).total;
        wait_for("new sessions", || (self.counts(replica).total >= before + more).then_some(()));
    }

    fn wait_for_standing(&mut self, line: &str) {
        wait_for(line, || {
            let standing = self.client.read("b.replicas");
            standing.lines().any(|other| other == line).then_some(())
        });
    }

    fn pid(&mut self, replica: usize) -> Pid {
        let pid = self.client.read(&format!("r{replica}.pid"));
        Pid::from_raw(pid.parse().expect("a number")).expect("a process")
    }
}

#[test]
fn sessions_leave_a_replica_that_stands_still_and_come_back() {
    let mut steered = Steered::start();
    (0..3).for_each(|replica| steered.wait_for_sessions(replica, 20));
    assert_eq!(steered.client.read("b.moved"), "0");

    let stopped = steered.pid(1);
    kill_process(stopped, Signal::STOP).expect("it runs");
    steered.wait_for_standing("1 1 failed");
    wait_for("its sessions to go", || (steered.client.number("b.moved") > 0).then_some(()));
    let at_stop = steered.counts(1);
    steered.wait_for_sessions(0, 20);
    steered.wait_for_sessions(2, 20);
    let now = steered.counts(1);
    assert_eq!((now.total, now.packets), (at_stop.total, at_stop.packets), "it gets nothing");
    wait_for("the line", || {
        let line = "replica 1 takes no packets: its sessions go to others";
        steered.driver.stderr().contains(line).then_some(())
    });

    kill_process(stopped, Signal::CONT).expect("it is there");
    steered.wait_for_standing("1 1 up");
    steered.wait_for_sessions(1, 20);

    // Each packet left, or the ring that was full lost it.
    assert_eq!(steered.client.ask("WRITE s.active false").0, 200);
    let lost = |client: &mut Client| -> u64 {
        (0..3).map(|n| client.read(&format!("r{n}.drops"))).map(|text| sum(&text)).sum()
    };
    wait_for("all to be accounted for", || {
        let client = &mut steered.client;
        (client.number("c.count") == client.number("d.count") + lost(client)).then_some(())
    });
    steered.driver.interrupt().expect(0);
}

/// The sum of a table of drops.
fn sum(drops: &str) -> u64 {
    drops.lines().filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum()
}

#[test]
fn a_replica_that_was_killed_keeps_its_sessions_when_it_is_back_in_time() {
    let mut steered = Steered::start();
    (0..3).for_each(|replica| steered.wait_for_sessions(replica, 20));
    let killed = steered.pid(2);
    kill_process(killed, Signal::KILL).expect("it runs");
    wait_for("a restart", || (steered.client.read("r2.restarts") == "1").then_some(()));
    steered.wait_for_standing("2 1 up");
    steered.wait_for_sessions(2, 20);
    assert_eq!(steered.client.read("b.moved"), "0", "it was back before they had to go");
    steered.driver.interrupt().expect(0);
}

/// How deep eight queues are, in simulated time.
struct Depths {
    mean: f64,
    /// The 99th percentile over queues and time.
    p99: f64,
}

/// Eight queues that are served at 1,000 to 8,000 packets a second, under a load of so many
/// hundredths of that: sessions of 5 to 29 packets, 200 at any time.
fn depths(load: u32, method: &str) -> Depths {
    let served: Vec<u32> = (1..=8).map(|n| n * 1000).collect();
    let rate = served.iter().sum::<u32>() * load / 100 / 8;
    let source = |(n, packets): (usize, u32)| {
        format!(
            "FastUDPFlows({rate}, -1, 60, 0:0:0:0:0:1, 10.0.{n}.1, 0:0:0:0:0:2, 10.0.0.2,
                25, {packets}) -> Unqueue -> all;"
        )
    };
    let sources: String =
        [5, 7, 11, 13, 17, 19, 23, 29].into_iter().enumerate().map(source).collect();
    let queue =
        |(n, rate): (usize, &u32)| format!("b[{n}] -> Queue(100000) -> RatedUnqueue({rate}) -> d;");
    let queues: String = served.iter().enumerate().map(queue).collect();
    let text = format!(
        "all :: Strip(14) -> CheckIPHeader -> FlowClassifier(INPUT ip)
            -> b :: Balance(METHOD {method});
         {sources} d :: Discard; {queues}
         DriverManager(wait 1s, set i 0, label look, print b.queues, wait 5ms,
            set i $(add $i 1), goto look $(lt $i 200))"
    );
    let done = crate::process::run(click(&["--simtime", "-e"]).arg(&text)).expect(0);
    let depth = |line: &str| line.split_once(' ').expect("a pair").1.parse().expect("a number");
    let mut all: Vec<u64> = done.stdout.lines().map(depth).collect();
    assert_eq!(all.len(), 200 * 8);
    all.sort_unstable();
    let mean = all.iter().sum::<u64>() as f64 / all.len() as f64;
    let depths = Depths { mean, p99: all[all.len() * 99 / 100] as f64 };
    println!("load {load} %, {method}: mean {:.1}, p99 {}", depths.mean, depths.p99);
    depths
}

#[test]
fn uneven_replicas_have_short_and_even_queues() {
    let (by_queue, by_turn) = (depths(90, "least-queue"), depths(90, "weighted"));
    assert!(by_queue.mean < by_turn.mean / 50.0 && by_queue.p99 < by_turn.p99 / 50.0);
    // Where all that can wait does wait, it waits everywhere.
    let (by_queue, by_turn) = (depths(105, "least-queue"), depths(105, "weighted"));
    assert!(by_queue.p99 < 2.0 * by_queue.mean && by_turn.p99 > 2.0 * by_turn.mean);
}
