//! Functions that are several Workers: one process, a thread for each, sessions shared out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use rustix::process::{Pid, Signal, kill_process};
use thruway_nf::{
    Batch, Config, Counter, Function, Needs, Next, Session, StreamCursor, StreamFunction, Streams,
    Verdict,
};

use super::parts::exec;
use super::{Captures, go};
use crate::control::Client;
use crate::frames::{read_capture, write_capture};
use crate::process::{Running, click, run, wait_for};

/// Where the payload begins: a number, then what the function writes.
const PAYLOAD: usize = 42;
const WORKER_AT: usize = PAYLOAD + 4;
const COUNT_AT: usize = PAYLOAD + 5;

/// One Worker: writes its number into each packet, and how many packets the session had.
struct Writes {
    worker: u32,
    seen: Counter,
    begun: Counter,
    value: String,
    hangs: bool,
}

impl Function for Writes {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        if self.hangs {
            loop {
                std::thread::park();
            }
        }
        self.seen.add(batch.len() as u64);
        batch.each(|packet| {
            let count = packet.scratch::<u64>().map_or(0, |count| {
                *count += 1;
                *count
            });
            let (worker, input) = (self.worker as u8, packet.input() as u8);
            let bytes = packet.bytes_mut();
            bytes[WORKER_AT] = worker + 1;
            bytes[COUNT_AT..COUNT_AT + 4].copy_from_slice(&(count as u32).to_be_bytes());
            Verdict::Next(input)
        });
    }

    fn new_session(&mut self, _session: &mut Session<'_>) {
        self.begun.add(1);
    }

    fn read(&mut self, handler: &str, _parameter: &str) -> Result<String, String> {
        match handler {
            "number" => Ok(self.worker.to_string()),
            "value" => Ok(self.value.clone()),
            _ => Err(format!("no handler '{handler}'")),
        }
    }

    fn write(&mut self, handler: &str, value: &str) -> Result<(), String> {
        let is_meant = value == self.worker.to_string();
        match handler {
            "value" => self.value = value.to_owned(),
            "panic" if is_meant => panic!("Worker {} was asked to", self.worker),
            "hang" => self.hangs |= is_meant,
            "fail" if is_meant => return Err("not this one".into()),
            _ => {}
        }
        Ok(())
    }
}

/// The process that plays "workers:OUTPUTS"; 99 begins in all Workers but the second.
pub fn play(number: u64) -> ExitCode {
    let outputs = if number == 99 { 1 } else { number as u32 };
    let config = Config { name: "workers", scratch_len: 8, outputs, ..Config::DEFAULT };
    thruway_nf::run_workers(&config, |start| {
        let worker = start.worker();
        if number == 99 && worker == 1 {
            return Err(format!("Worker {worker} of {} finds no rule", start.workers()));
        }
        Ok(Writes {
            worker,
            seen: start.counter("seen"),
            begun: start.counter("begun"),
            value: start.configuration()?,
            hangs: false,
        })
    })
}

/// One Worker of a function of streams, which writes the same.
struct WritesStreams {
    worker: u32,
    seen: Counter,
    begun: Counter,
}

impl StreamFunction for WritesStreams {
    type State = u32;
    const NEEDS: Needs = Needs::CHANGE;

    fn process(&mut self, count: &mut u32, data: &mut StreamCursor<'_>) -> Next {
        self.begun.add(u64::from(*count == 0));
        self.seen.add(1);
        *count += 1;
        data.advance(WORKER_AT - PAYLOAD);
        data.overwrite(&[self.worker as u8 + 1]);
        data.overwrite(&count.to_be_bytes());
        data.skip_all();
        Next::Continue
    }
}

/// The process that plays "workers-of-streams".
pub fn play_streams() -> ExitCode {
    let config = Config::stream::<WritesStreams>("workers of streams");
    thruway_nf::run_workers(&config, |start| {
        let (seen, begun) = (start.counter("seen"), start.counter("begun"));
        Ok(Streams::new(WritesStreams { worker: start.worker(), seen, begun }))
    })
}

/// A UDP packet of a flow: the port of a host for each `source`.
fn datagram(source: u8, port: u16, number: u32) -> Vec<u8> {
    let mut frame = [&[2; 12][..], &[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]].concat();
    frame.extend([10, 0, source, 1, 10, 0, 0, 2]);
    frame.extend([port.to_be_bytes(), 53_u16.to_be_bytes()].concat());
    frame.extend([0, 26, 0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// Flows of each source, and packets of each flow.
const FLOWS: u16 = 40;
const ROUNDS: u32 = 50;

/// Packets of one flow after the other, again and again.
fn flows(source: u8) -> Vec<Vec<u8>> {
    let round = |number| (0..FLOWS).map(move |flow| datagram(source, 1000 + flow, number));
    (0..ROUNDS).flat_map(round).collect()
}

/// What a flow's packets say, in the order in which they came: number, Worker, count.
type Packets = Vec<(u32, u8, u32)>;

fn by_flow(frames: &[Vec<u8>]) -> BTreeMap<(u8, u16), Packets> {
    let mut all: BTreeMap<_, Packets> = BTreeMap::new();
    for frame in frames {
        let word = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().expect("four"));
        let flow = (frame[28], u16::from_be_bytes([frame[34], frame[35]]));
        all.entry(flow).or_default().push((word(PAYLOAD), frame[WORKER_AT], word(COUNT_AT)));
    }
    all
}

fn nf(part: &str, more: &str) -> String {
    format!("nf :: Nf({}, CONFIG \"5\", SESSION connection, SESSIONS 100{more})", exec(part))
}

/// What stands in front of the function and behind it.
const PLAIN: [&str; 2] = ["", ""];
const STREAM: [&str; 2] = ["-> UDPIn", "-> UDPOut"];

/// Captures through a function of so many Workers, one by each thread.
fn shard(threads: u8, workers: u32, more: &str) {
    shard_of(&format!("workers:{threads}"), PLAIN, (threads, workers), more);
}

fn shard_of(part: &str, around: [&str; 2], (threads, workers): (u8, u32), more: &str) {
    let [front, behind] = around;
    let captures = Captures::new(&[]);
    let mut text = nf(part, &format!(", WORKERS {workers}{more}"));
    for n in 0..threads {
        let (input, output) = (captures.path(&format!("in{n}")), captures.path(&format!("out{n}")));
        write_capture(Path::new(&input), &flows(n));
        text += &format!(
            "; f{n} :: FromDump({input}, STOP true) -> FlowClassifier {front} -> [{n}] nf [{n}]
               {behind} -> ToDump({output}); StaticThreadSched(f{n} {n})"
        );
    }
    let pauses = "pause, ".repeat(usize::from(threads));
    text += &format!(
        "; DriverManager({pauses} label busy, wait 5ms, goto busy $(ne $(nf.occupancy) 0), stop)"
    );
    let (threads_text, mut all) = (threads.to_string(), BTreeMap::new());
    let args = ["-j", &threads_text, "-e", &text, "-h", "nf.counters", "-h", "nf.drops"];
    let done = run(&mut click(&args)).expect(0);
    let wanted = u32::from(threads) * u32::from(FLOWS) * ROUNDS;
    done.prints(&[
        &format!("seen {wanted}"),
        &format!("begun {}", u32::from(threads) * u32::from(FLOWS)),
    ]);
    for n in 0..threads {
        let written = read_capture(Path::new(&captures.path(&format!("out{n}"))));
        all.extend(by_flow(&written));
    }
    assert_eq!(all.len(), usize::from(threads) * usize::from(FLOWS));
    let mut at_work = BTreeSet::new();
    for (flow, said) in &all {
        let worker = said[0].1;
        at_work.insert(worker);
        // Each packet once, in order, by one Worker, which counted on from packet to packet.
        let wanted: Packets = (0..ROUNDS).map(|number| (number, worker, number + 1)).collect();
        assert!(*said == wanted, "{flow:?}: {said:?}");
    }
    assert_eq!(at_work, (1..=workers as u8).collect(), "all Workers have work");
}

#[test]
fn each_session_is_one_workers() {
    for (threads, workers) in [(2, 2), (4, 2), (4, 3), (3, 1)] {
        shard(threads, workers, "");
    }
    shard(2, 2, ", WAIT poll");
    shard(2, 2, ", MODE group, GROUP friends); TrustGroup(friends");
    shard_of("workers-of-streams", STREAM, (2, 2), ", STREAM change");
    shard(2, 2, ", WAIT hybrid, STANDBY false");
}

/// A driver of two threads, of which each sends one flow through the same function.
struct Pair {
    driver: Running,
    client: Client,
    text: String,
    _dir: tempfile::TempDir,
}

impl Pair {
    fn start(more: &str) -> Pair {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("control");
        let name = socket.to_str().expect("plain text");
        // On a busy machine a function that is well may be late: not what is tested here.
        let hang = if more.contains("HANG") { "" } else { ", HANG 30s" };
        let nf = nf("workers:2", &format!(", WORKERS 2{hang}{more}"));
        let text = (0..2).fold(nf, |text, n| {
            let bytes = datagram(n, 1000, 0);
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            text + &format!(
                "; s{n} :: RatedSource(DATA \\<{hex}>, RATE 2000) -> FlowClassifier
                   -> [{n}] nf [{n}] -> d{n} :: Counter -> Discard; StaticThreadSched(s{n} {n})"
            )
        });
        let driver = Running::start(&mut click(&["-R", "-j", "2", "-u", name, "-e", &text]));
        let mut pair = Pair { driver, client: Client::unix(&socket), text, _dir: dir };
        pair.wait_for_more();
        pair
    }

    /// Waits until more packets have passed both Workers.
    fn wait_for_more(&mut self) {
        for n in 0..2 {
            let (handler, before) =
                (format!("d{n}.count"), self.client.number(&format!("d{n}.count")));
            let client = &mut self.client;
            wait_for(&handler, || (client.number(&handler) > before + 200).then_some(()));
        }
    }

    fn pid(&mut self) -> i32 {
        self.client.read("nf.pid").parse().expect("a number")
    }

    fn counter(&mut self, name: &str) -> u64 {
        let text = self.client.read("nf.counters");
        let of = |line: &str| line.strip_prefix(name)?.trim().parse().ok();
        text.lines().find_map(of).unwrap_or(0)
    }

    /// The processes that run the function, with the names of their threads.
    fn threads(&mut self) -> Vec<(i32, String)> {
        let tasks = format!("/proc/{}/task", self.pid());
        let all = std::fs::read_dir(tasks).expect("a process").flatten();
        let named = all.map(|task| {
            let name = std::fs::read_to_string(task.path().join("comm")).expect("a name");
            (task.file_name().to_str().and_then(|n| n.parse().ok()).expect("a number"), name)
        });
        named.collect()
    }
}

/// Whether a thread is of the Workers beyond the first.
fn is_worker((_, name): &(i32, String)) -> bool {
    name.starts_with("worker-")
}

#[test]
fn one_process_has_a_thread_for_each_worker() {
    let mut pair = Pair::start(", CPUS \"0 1\", STANDBY false");
    let threads = pair.threads();
    let names: Vec<&str> = threads.iter().map(|(_, name)| name.trim()).collect();
    assert_eq!(threads.iter().filter(|one| is_worker(one)).count(), 1, "{names:?}");
    // It is on the second CPU that the function may use, alone.
    let (number, _) = threads.iter().find(|one| is_worker(one)).expect("the second Worker");
    let pinned = rustix::thread::sched_getaffinity(Pid::from_raw(*number)).expect("it runs");
    let cpus: Vec<usize> = (0..64).filter(|cpu| pinned.is_set(*cpu)).collect();
    assert_eq!(cpus, [1]);
    // It is in the sandbox as the first one is: the filter, no capabilities, a root of its own.
    let pid = pair.pid();
    let task = |name: &str| format!("/proc/{pid}/task/{number}/{name}");
    let status = std::fs::read_to_string(task("status")).expect("it runs");
    for line in ["Seccomp:\t2", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    assert!(!Path::new(&task("root/etc")).exists(), "it sees no files");
    // No other process is the function: it has one parent, with one child.
    let driver = pair.driver.pid();
    let children = std::fs::read_dir("/proc").expect("proc").flatten().filter(|one| {
        let stat = std::fs::read_to_string(one.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        parent == Some(&driver.to_string())
    });
    assert_eq!(children.count(), 1);
    let both = (pair.client.read("nf.handler number"), pair.client.read("nf.handler value"));
    assert_eq!(both, ("worker 0: 0\nworker 1: 1\n".into(), "5".into()));
    assert_eq!(pair.client.ask("WRITE nf.handler value 7").0, 200);
    assert_eq!(pair.client.read("nf.handler value"), "7");
    let (code, said) = pair.client.ask("WRITE nf.handler fail 1");
    assert!(code >= 500 && said.contains("worker 1: not this one"), "{code} {said}");
    assert!(pair.client.read("nf.interface").ends_with("workers"));
    assert_eq!(pair.client.ask("WRITE nf.worker_threshold 8").0, 200);
    pair.wait_for_more();
    pair.driver.interrupt().expect(0);
}

/// Has the function end by `end`; it is back with its sessions, and counts what is lost.
fn comes_back(more: &str, end: impl FnOnce(&mut Pair)) -> Pair {
    let mut pair = Pair::start(more);
    let (pid, begun) = (pair.pid(), pair.counter("begun "));
    let state = ["nf.restarts", "nf.last_error"].map(|handler| pair.client.read(handler));
    assert_eq!((begun, state[0].as_str()), (2, "0"), "a session of each Worker: {state:?}");
    end(&mut pair);
    wait_for("another process", || {
        let now = pair.client.read("nf.pid");
        (now != "0" && now != pid.to_string()).then_some(())
    });
    pair.wait_for_more();
    assert_eq!(pair.counter("begun "), 0, "no session is new to it");
    assert_eq!(pair.client.number("nf.restarts"), 1);
    assert_eq!(pair.client.number("nf.peer_faults"), 0);
    assert_eq!(pair.threads().iter().filter(|one| is_worker(one)).count(), 1);
    pair
}

#[test]
fn a_killed_process_is_back_with_all_workers_and_sessions() {
    for more in ["", ", STANDBY false"] {
        let mut pair = comes_back(more, |pair| {
            let pid = Pid::from_raw(pair.pid()).expect("a process");
            kill_process(pid, Signal::KILL).expect("it runs");
        });
        // What was handed over came back, was lost with the process, or is there.
        for n in 0..2 {
            assert_eq!(pair.client.ask(&format!("WRITE s{n}.active false")).0, 200);
        }
        wait_for("the last packets", || (pair.client.number("nf.occupancy") == 0).then_some(()));
        let numbers = ["s0.count", "s1.count", "d0.count", "d1.count"];
        let [sent0, sent1, left0, left1] = numbers.map(|handler| pair.client.number(handler));
        let drops = pair.client.read("nf.drops");
        let lost: u64 = drops
            .lines()
            .filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok())
            .sum();
        assert_eq!(sent0 + sent1, left0 + left1 + lost, "{drops}");
        pair.driver.interrupt().expect(0);
    }
}

#[test]
fn a_hot_swap_to_fewer_workers_keeps_their_sessions() {
    let mut pair = Pair::start("");
    for workers in [1, 2] {
        let pid = pair.pid();
        let other = format!("WORKERS {}", 3 - workers);
        pair.text = pair.text.replace(&other, &format!("WORKERS {workers}"));
        assert_eq!(pair.client.write_data("hotconfig", &pair.text).0, 200);
        wait_for("the swap", || {
            let now = pair.client.read("nf.pid");
            (now != "0" && now != pid.to_string()).then_some(())
        });
        pair.wait_for_more();
        assert_eq!(pair.counter("begun "), 0, "no session is new to it");
        let others = pair.threads().iter().filter(|one| is_worker(one)).count();
        assert_eq!(others, workers - 1);
    }
    pair.driver.interrupt().expect(0);
}

#[test]
fn a_worker_that_panics_takes_the_others_with_it() {
    for worker in 0..2 {
        let mut pair = comes_back("", |pair| {
            let (code, said) = pair.client.ask(&format!("WRITE nf.handler panic {worker}"));
            assert!(code >= 500, "{said}");
        });
        let error = pair.client.read("nf.last_error");
        assert!(error.contains("101") && error.contains("was asked to"), "{error}");
        assert_eq!(pair.driver.interrupt().code(), 0);
    }
}

#[test]
fn a_worker_that_hangs_is_noticed_beside_one_that_works() {
    for worker in 0..2 {
        let mut pair = comes_back(", HANG 2s", |pair| {
            assert_eq!(pair.client.ask(&format!("WRITE nf.handler hang {worker}")).0, 200);
        });
        assert_eq!(pair.client.number("nf.hangs"), 1);
        pair.driver.interrupt().expect(0);
    }
}

#[test]
fn workers_that_cannot_be_are_refused() {
    let text = |part: &str, more: &str| {
        let nf = format!("nf :: Nf({}, CONFIG x{more})", exec(part));
        let sources = "StaticThreadSched(s0 0, s1 1); s0 :: RatedSource -> [0] nf [0] -> Discard;
                       s1 :: RatedSource -> [1] nf [1] -> Discard";
        format!("{nf}; {sources}")
    };
    let refused = |text: &str, says: &[&str]| {
        go(text, &["-j", "2", "--duration", "5"]).expect(1).says(says);
    };
    refused(&text("workers:1", ", WORKERS 0"), &["0 Workers", "give 1 to"]);
    refused(&text("workers:1", ", WORKERS 5"), &["5 Workers", "threads reach", "give 1 to 2"]);
    // Built without several Workers, or before there were any.
    let one = ["is one Worker", "WORKERS 2", "run_workers", "leave WORKERS out"];
    refused(&text("passes", ", WORKERS 2"), &one);
    refused(&text("lies", ", WORKERS 2"), &one);
    let image = tempfile::tempdir().expect("a directory");
    for file in ["kernel", "initramfs"] {
        std::fs::write(image.path().join(file), "").expect("a file");
    }
    let machine = format!(", WORKERS 2, VM \"{}\"", image.path().display());
    refused(&text("workers:1", &machine), &["a virtual machine runs one Worker"]);
    // One Worker that cannot begin, and why.
    refused(&text("workers:99", ", WORKERS 2"), &["Worker 1 of 2 finds no rule"]);
    let alone = format!("Idle -> Nf({}, WORKERS 2) -> Discard", exec("workers:1"));
    refused(&alone, &["1 thread reaches the element", "give 1,"]);
    let isolated = "Idle -> c :: Counter -> Discard; Isolate(c, WORKERS 2)";
    refused(isolated, &["WORKERS"]);
}
