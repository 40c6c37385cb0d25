//! Latency of packets through an isolated chain at a part of its rate.

use std::fmt::Write as _;

use thruway_engine::Options;

use super::chain::{Chain, Mode, Wait, Where};
use super::subject::Running;
use crate::case::{Subject as _, Workspace};
use crate::measure::Meter;
use crate::registry;
use crate::row::median;

/// Parts of what a chain can carry.
const LOADS: [f64; 2] = [0.1, 0.5];
/// Packets of a run that finds out how much that is, with time and without.
const PACKETS: [u64; 2] = [1_000_000, 200_000];
/// Timed packets, and runs.
const NOTED: [(u64, usize); 2] = [(200_000, 5), (20_000, 1)];

/// The part of a second whose packets come at once at first, or less.
const FIRST_PARTS: f64 = 20.0;

/// Times of one run, in microseconds.
struct Times {
    median: f64,
    p99: f64,
    longest: f64,
}

/// A table of chains of one and three functions of packets of 60 bytes, functions that sleep and
/// functions that poll.
pub fn report(workspace: &Workspace, is_quick: bool) -> anyhow::Result<String> {
    let mut text = format!("{:28} {:>7}", "chain", "Mpps");
    for load in LOADS {
        let _ = write!(text, "  {:>8} {:>8} {:>8}", format!("p50/{load}"), "p99", "longest");
    }
    text.push('\n');
    for chain in chains(workspace.cores.len()) {
        text += &line(chain, &workspace.cores, is_quick)?;
    }
    text += "Mpps: what it can carry; then microseconds at parts of that, medians of the runs. Times \
             are those of the rounds in which packets left and came back: a round takes up to a \
             microsecond.\n";
    Ok(text)
}

/// Polling functions have a core each, or they would wait for one another.
fn chains(cores: usize) -> Vec<Chain> {
    let mut all = Vec::new();
    for mode in Mode::APART {
        for count in [1, 3] {
            let chain = Chain::sleeping(mode, count, 60, Where::Apart);
            all.push(chain);
            if count < cores {
                all.push(Chain { wait: Wait::Polling, ..chain });
            }
        }
    }
    all
}

fn line(chain: Chain, cores: &[usize], is_quick: bool) -> anyhow::Result<String> {
    let packets = PACKETS[usize::from(is_quick)];
    let (noted, runs) = NOTED[usize::from(is_quick)];
    let most = carries(chain, cores, packets)?;
    let mut text = format!("{:28} {:>7.2}", chain.name(), most / 1e6);
    for load in LOADS {
        let run = |_| times(chain, cores, most * load, noted);
        let times: Vec<Times> = (0..runs).map(run).collect::<anyhow::Result<_>>()?;
        let of = |what: fn(&Times) -> f64| median(times.iter().map(what));
        let all = [of(|it| it.median), of(|it| it.p99), of(|it| it.longest)];
        let _ = write!(text, "  {:>8.1} {:>8.1} {:>8.1}", all[0], all[1], all[2]);
    }
    Ok(text + "\n")
}

/// Packets a second, as fast as the source makes them.
fn carries(chain: Chain, cores: &[usize], packets: u64) -> anyhow::Result<f64> {
    let mut meter = Meter::new();
    let mut running = Running::start(chain, cores)?;
    running.run(packets / 4, &mut meter)?;
    meter.take();
    let packets = running.run(packets, &mut meter)?;
    Ok(packets as f64 * 1e9 / meter.take().wall_ns.max(1) as f64)
}

/// Times of packets that come at a rate, in packets a second. The first of them come all at once
/// when the functions have started, and some of them find the ring full: they are left out. Packets
/// in flight when the source ends have a moment to arrive.
fn times(chain: Chain, cores: &[usize], rate: f64, noted: u64) -> anyhow::Result<Times> {
    let first = (rate / FIRST_PARTS) as u64;
    let all = noted + first;
    let ends = format!(
        "s :: RatedSource(LENGTH {}, RATE {rate:.0}, LIMIT {all}, STOP true);\n\
         r :: RecordTimestamp(OFFSET 40, N {all}); d :: TimestampDiff(r, OFFSET 40, N {all});\n\
         DriverManager(wait, wait 200ms, stop);\n",
        chain.len
    );
    let text = chain.text_between(cores, &ends, ["s -> NumberPacket(40) -> r", "d -> Discard"])?;
    let mut router = registry::router("latency", text, &Options::default())?;
    router.run_threads();
    let mut read =
        |handler: &str| -> anyhow::Result<f64> { Ok(router.read(handler)?.trim().parse()?) };
    let arrived = read("d.index")? + 1.0;
    anyhow::ensure!(arrived >= noted as f64, "{arrived} of {all} packets arrived");
    let mut of = |name: &str| read(&format!("{name} {}", arrived as u64 - noted));
    Ok(Times { median: of("d.median")?, p99: of("d.perc99")?, longest: of("d.max")? })
}
