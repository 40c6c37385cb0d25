//! How many system calls a packet costs at load: those that wake whoever sleeps, and the sleeps.
//! The kernel's own count of sleeps judges the program's.

use std::path::Path;
use std::time::Instant;

use super::parts::exec;
use crate::control::Client;
use crate::process::{Running, click, wait_for};

/// Packets of a run, made as fast as those behind take them.
const PACKETS: u64 = 200_000;
/// Packets of a batch.
const BURST: u64 = 32;
/// Sleeps of a thread in 1,000 packets: one for each batch at most, because who leaves a batch for
/// a thread wakes it once at most, and a thread that finds nothing has taken all there was before.
/// A tenth more, for timers, letters and the reading of all this.
const SLEEPS_MAX: f64 = 1000.0 / BURST as f64 * 1.1;

/// Sleeps that the kernel counted for all threads of a process.
fn slept(pid: u64) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let of = |task: &Path| -> Option<u64> {
        let text = std::fs::read_to_string(task.join("status")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line?.trim().parse().ok()
    };
    tasks.flatten().filter_map(|task| of(&task.path())).sum()
}

/// Sleeps and wake-ups of the threads, as `statistics` shows them.
fn wake_counts(client: &mut Client) -> (u64, u64) {
    let text = client.read("statistics");
    let lines = text.lines().filter(|line| line.starts_with("sleep\t"));
    let of = |line: &str, at: usize| line.split('\t').nth(at).and_then(|word| word.parse().ok());
    let both = lines.map(|line| (of(line, 2).unwrap_or(0_u64), of(line, 3).unwrap_or(0_u64)));
    both.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
}

/// What a run took in 1,000 packets.
#[derive(Debug)]
struct Took {
    /// Sleeps of the host's threads, by the program and by the kernel.
    host: f64,
    host_by_kernel: f64,
    /// Times that one thread of the host woke another.
    rings: f64,
    /// Times that the host woke the function, and its sleeps, by the kernel.
    function_woken: f64,
    function_by_kernel: f64,
}

/// Runs `text`: the source is `s`, packets end in `d`, the function, if there is one, is `nf`.
fn load(name: &str, text: &str, threads: u32, nf: Option<&str>) -> Took {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let path = socket.to_str().expect("plain text");
    let source = format!(
        "s :: InfiniteSource(LENGTH 200, LIMIT {PACKETS}, BURST {BURST}, ACTIVE false);
         d :: Counter -> Discard; {text}"
    );
    let threads = threads.to_string();
    let driver = Running::start(&mut click(&["-j", &threads, "-u", path, "-e", &source]));
    let mut client = Client::unix(&socket);
    let function = nf.map(|nf| client.number(&format!("{nf}.pid")));
    let counts = |client: &mut Client| {
        let (sleeps, rings) = wake_counts(client);
        let woken = nf.map_or(0, |nf| client.number(&format!("{nf}.wake_ups")));
        [sleeps, slept(u64::from(driver.pid())), rings, woken, function.map_or(0, slept)]
    };
    let (before, begin) = (counts(&mut client), Instant::now());
    assert_eq!(client.ask("WRITE s.active true").0, 200);
    wait_for("the packets", || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        (client.number("d.count") == PACKETS).then_some(())
    });
    let elapsed = begin.elapsed();
    let after = counts(&mut client);
    let each: [f64; 5] =
        std::array::from_fn(|at| (after[at] - before[at]) as f64 * 1e3 / PACKETS as f64);
    let [host, host_by_kernel, rings, function_woken, function_by_kernel] = each;
    let took = Took { host, host_by_kernel, rings, function_woken, function_by_kernel };
    println!("{name}: {PACKETS} packets in {elapsed:?}; in 1,000: {took:.2?}");
    driver.interrupt().expect(0);
    took
}

fn bounded(name: &str, took: &Took, threads: f64) {
    let Took { host, host_by_kernel, rings, function_woken, function_by_kernel } = *took;
    assert!(host <= threads * SLEEPS_MAX, "{name}: {took:?}");
    // Supervisors and control connections sleep, too.
    assert!(host_by_kernel <= threads * SLEEPS_MAX + 1.0, "{name}: {took:?}");
    assert!(rings <= threads * SLEEPS_MAX, "{name}: {took:?}");
    assert!(function_woken <= SLEEPS_MAX, "{name}: {took:?}");
    assert!(function_by_kernel <= SLEEPS_MAX, "{name}: {took:?}");
}

#[test]
fn a_batch_costs_one_wake_up_each_way_at_most() {
    let nf = format!("s -> nf :: Nf({}) -> d;", exec("passes"));
    let took = load("a function", &nf, 1, Some("nf"));
    bounded("a function", &took, 1.0);
    let part = "s -> x :: Null -> d; Isolate(x, ISOLATION relaxed);";
    let took = load("an isolated part", part, 1, Some("x/nf"));
    bounded("an isolated part", &took, 1.0);
    let queue = "s -> p :: Pipeliner(BLOCKING true) -> d; StaticThreadSched(s 0, p 1);";
    let took = load("two threads", queue, 2, None);
    bounded("two threads", &took, 2.0);
}
