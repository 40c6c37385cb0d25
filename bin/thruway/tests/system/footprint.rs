//! What a user pays before the first packet.

use std::time::{Duration, Instant};

use crate::process::{Running, root, thruway};

/// Start-up of the gateway, and memory at defaults. A build for tests is slower.
const START: Duration = Duration::from_millis(if cfg!(debug_assertions) { 150 } else { 50 });
const MEMORY_KIB: u64 = 64 << 10;

/// The gateway with ports that are never heard of; it runs until it is stopped.
fn start() -> Running {
    let mut command = thruway();
    let file = root().join("examples/gateway.click");
    command.arg("run").arg(file).args(["LAN=none", "WAN=none"]);
    Running::start(&mut command)
}

#[test]
fn the_gateway_starts_soon_and_is_small() {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let begin = Instant::now();
        let gateway = start();
        // Every engine thread has its signal handler by then: SIGINT is caught.
        let status = format!("/proc/{}/status", gateway.pid());
        let read = || std::fs::read_to_string(&status).unwrap_or_default();
        let caught = || {
            let text = read();
            let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
            let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
            (mask & (1 << 1) != 0).then_some(())
        };
        while caught().is_none() && begin.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_micros(200));
        }
        best = best.min(begin.elapsed());
        // Let it run a little before it is measured.
        std::thread::sleep(Duration::from_millis(50));
        let peak = read();
        let peak = peak.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak: u64 = peak.and_then(|kib| kib.split_whitespace().next()?.parse().ok()).unwrap();
        assert!(peak < MEMORY_KIB, "{peak} KiB");
        assert!(peak > 1024, "{peak} KiB is too little to be true");
        gateway.interrupt().expect(0).prints(&["Ports", "Elements"]);
    }
    assert!(best < START, "the fastest of five starts took {best:?}");
}
