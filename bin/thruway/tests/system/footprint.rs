//! What a user pays before the first packet.

use std::time::{Duration, Instant};

use crate::process::{Running, root, thruway};

/// Start-up of the gateway. A build without optimisation is slower.
const START: Duration = Duration::from_millis(if cfg!(debug_assertions) { 150 } else { 50 });
/// Memory at defaults.
const MEMORY_MAX_KIB: u64 = 64 << 10;
/// Starts that are tried: on a busy machine the fastest one reports what the program itself takes.
const STARTS: u32 = 20;

/// The gateway, with ports by which nothing comes; it runs until it is stopped.
fn start() -> Running {
    let mut command = thruway();
    let file = root().join("examples/gateway.click");
    command.arg("run").arg(file).args(["LAN=none", "WAN=none"]);
    Running::start(&mut command)
}

/// A line of /proc/PID/status.
fn status(process: &Running, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", process.pid())).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().to_owned())
}

/// Whether it is built and about to run: from then on SIGINT is caught.
fn is_up(process: &Running) -> bool {
    let caught = status(process, "SigCgt:").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    caught.is_some_and(|mask| mask & 1 << 1 != 0)
}

/// Starts the gateway; how long that took, and its memory at most, in KiB.
fn measure() -> (Duration, u64) {
    let begin = Instant::now();
    let gateway = start();
    while !is_up(&gateway) && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_micros(200));
    }
    let took = begin.elapsed();
    std::thread::sleep(Duration::from_millis(50));
    let peak = status(&gateway, "VmHWM:").expect("Linux tells it");
    let peak = peak.split(' ').next().and_then(|kib| kib.parse().ok()).expect("a number");
    gateway.interrupt().expect(0).prints(&["Ports", "Elements"]);
    (took, peak)
}

#[test]
fn the_gateway_starts_soon_and_is_small() {
    let mut best = Duration::MAX;
    for _ in 0..STARTS {
        let (took, peak) = measure();
        best = best.min(took);
        assert!((1024..MEMORY_MAX_KIB).contains(&peak), "{peak} KiB");
        if best < START {
            println!("up after {best:?}, {peak} KiB");
            return;
        }
    }
    panic!("the fastest of {STARTS} starts took {best:?}, more than {START:?}");
}
