//! The time of an isolated chain by thread: the host's or the functions', and how often they
//! sleep and are woken.

use std::fmt::Write as _;

use super::chain::{Chain, Mode, Where};
use super::subject::{Running, Taken};
use crate::case::{Subject as _, Workspace};
use crate::measure::Meter;
use crate::row::median;

/// Packets of a run, and runs, when there is time and when not.
const RUNS: [(u64, usize); 2] = [(2_000_000, 5), (200_000, 3)];

/// One run of a chain.
struct Run {
    packets: u64,
    wall_ns: u64,
    host_ns: u64,
    functions: Taken,
}

/// A table of chains of one and three functions of packets of 60 bytes.
pub fn report(workspace: &Workspace, is_quick: bool) -> anyhow::Result<String> {
    let (packets, count) = RUNS[usize::from(is_quick)];
    let mut text = format!(
        "{:28} {:>7} {:>8} {:>9} {:>9} {:>9} {:>9}\n",
        "chain", "Mpps", "host ns", "functions", "woken", "sleeps", "slot"
    );
    for cores_of in [Where::Apart, Where::Together, Where::Anywhere] {
        for mode in Mode::APART {
            for functions in [1, 3] {
                let chain = Chain::sleeping(mode, functions, 60, cores_of);
                let runs = runs(chain, &workspace.cores, (packets, count))?;
                text += &line(&chain.name(), &runs);
            }
        }
    }
    text += "Mpps: by the wall clock; ns: processor time for a packet; woken, sleeps: of functions, \
             in 1,000 packets; slot: packets of 1,000 that went from slot to slot\n";
    Ok(text)
}

fn runs(chain: Chain, cores: &[usize], (packets, count): (u64, usize)) -> anyhow::Result<Vec<Run>> {
    let mut meter = Meter::new();
    let mut running = Running::start(chain, cores)?;
    running.run(packets / 4, &mut meter)?;
    meter.take();
    let run = |_| {
        let packets = running.run(packets, &mut meter)?;
        let (usage, functions) = (meter.take(), running.last);
        let host_ns = usage.cpu_ns - functions.cpu_ns;
        Ok(Run { packets, wall_ns: usage.wall_ns, host_ns, functions })
    };
    (0..count).map(run).collect()
}

fn line(name: &str, runs: &[Run]) -> String {
    let each = |what: fn(&Run) -> u64| {
        median(runs.iter().map(|run| what(run) as f64 / run.packets as f64))
    };
    let mut text = format!("{name:28} {:>7.2}", 1e3 / each(|run| run.wall_ns));
    let ns = [each(|run| run.host_ns), each(|run| run.functions.cpu_ns)];
    let counts: [fn(&Run) -> u64; 3] = [
        |run| run.functions.wake_ups,
        |run| run.functions.sleeps,
        |run| run.functions.slot_to_slot,
    ];
    let _ = write!(text, " {:>8.1} {:>9.1}", ns[0], ns[1]);
    for count in counts {
        let _ = write!(text, " {:>9.2}", each(count) * 1e3);
    }
    text + "\n"
}
