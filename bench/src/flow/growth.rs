//! Growth from no session to ten million: how long every batch takes, beside how much the machine
//! alone makes equal work differ.

use std::fmt::Write as _;
use std::hint::black_box;

use super::chains::{Function, together};
use crate::case::Workspace;
use crate::latency::Latencies;
use crate::measure::Meter;
use rustix::time::{ClockId, clock_gettime};

/// No batch is to take longer, nanoseconds.
const GOAL_NS: f64 = 50_000.0;
/// Packets of a batch: the source's.
const BATCH: u64 = 128;

/// Involuntary switches to another thread, so far.
fn switches() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("nonvoluntary_ctxt_switches:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Arithmetic for about so long, on registers.
fn arithmetic(steps: u64) -> u64 {
    (0..steps).fold(1, |x: u64, n| black_box(x.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ n))
}

/// As many pieces of work that touches no memory, each as long as the usual batch.
fn control(batches: usize, usual_ns: u64) -> Vec<u64> {
    let probe = 1 << 22;
    let begin = cpu_ns();
    black_box(arithmetic(probe));
    let steps = usual_ns * probe / (cpu_ns() - begin).max(1);
    let mut times = Vec::with_capacity(batches);
    let mut before = cpu_ns();
    for _ in 0..batches {
        black_box(arithmetic(steps));
        let now = cpu_ns();
        times.push(now - before);
        before = now;
    }
    times
}

/// A row of the table.
fn line(name: &str, times: &Latencies, switches: u64) -> String {
    let [p50, p99, p999, p9999, worst] =
        [50.0, 99.0, 99.9, 99.99, 100.0].map(|percent| times.percentile_ns(percent) / 1e3);
    format!(
        "  {name:24} {p50:>8.1} {p99:>8.1} {p999:>8.1} {p9999:>8.1} {worst:>8.1} {:>9} {:>9} \
         {switches:>9}\n",
        times.above(GOAL_NS),
        times.count(),
    )
}

/// Grows the table and reports; `is_quick` stops at a million.
pub fn report(_: &Workspace, is_quick: bool) -> anyhow::Result<String> {
    grow(if is_quick { 1_000_000 } else { 10_000_000 })
}

fn grow(sessions: u32) -> anyhow::Result<String> {
    let mut running = together(&[Function::Pass], sessions).build()?;
    let batches = u64::from(sessions).div_ceil(BATCH);
    running.router.write("source.timed", &batches.to_string())?;
    let before = switches().unwrap_or(0);
    running.open(&mut Meter::new())?;
    let after = switches().unwrap_or(0);
    let times = running.router.read("source.times")?;
    let times: Vec<u64> = times.split(' ').filter_map(|time| time.parse().ok()).collect();
    anyhow::ensure!(!times.is_empty(), "no batch was timed");
    let memory = memory(&running.router.read("fc.levels")?);
    let growth = Latencies::new(times, 1.0);
    let usual_ns = growth.percentile_ns(50.0) as u64;
    let idle = Latencies::new(control(growth.count(), usual_ns), 1.0);
    let control_switches = switches().unwrap_or(0) - after;
    let mut text = format!(
        "growth from 0 to {sessions} sessions, batches of {BATCH} packets of new sessions \
         (CPU time, microseconds)\n  {:24} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9}\n",
        "", "median", "99 %", "99.9 %", "99.99 %", "worst", "> 50 us", "of", "switches"
    );
    text += &line("growing", &growth, after - before);
    text += &line("arithmetic as long", &idle, control_switches);
    let met = if growth.above(GOAL_NS) == 0 { "yes" } else { "no" };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "  no batch over 50 us: {met}");
    let each = memory as f64 / f64::from(sessions);
    // A word of scratch is the function's.
    let own = each - 8.0;
    let met = if own <= 64.0 { "yes" } else { "no" };
    let _ = writeln!(
        text,
        "  {each:.1} bytes a session, {own:.1} without the 8 of scratch; at most 64: {met}"
    );
    Ok(text)
}

/// The bytes that FlowClassifier's levels have together.
fn memory(levels: &str) -> u64 {
    let last = |line: &str| line.rsplit('\t').next()?.trim().parse::<u64>().ok();
    levels.lines().filter_map(last).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_counts_every_batch_and_all_memory() {
        let text = grow(100_000).expect("a report");
        assert!(text.contains("781 "), "{text}");
        assert!(text.contains("bytes a session") && memory("a\tV4\t7\t12\nb\tV6\t30\n") == 42);
    }
}
