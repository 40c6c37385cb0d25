//! `thruway-bench threads`: stages of processing on several cores, in parallel or as a pipeline:
//! the figures of the thesis's section 4.1.
//!
//! Packets come from memory, as from input queues that are never empty, and end in memory. All
//! placements of a place on a figure's axis take turns.

mod chart;
mod elements;
mod figures;
mod placement;
mod report;
mod running;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;

pub use elements::ELEMENTS;

use super::machine::{self, Machine};
use super::select::named;
use figures::{Extent, FIGURES, Figure, Group};
use report::{Row, Rows};
use running::{Done, Running, Ticks};

/// Arguments of `thruway-bench threads`.
#[derive(Debug, clap::Args)]
#[command(after_help = list())]
pub struct Options {
    /// Only this figure; may be given several times
    #[arg(long, value_name = "FIGURE")]
    figure: Vec<String>,
    /// Cores to use at most (default: all there are); points that want more are left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    cores: Option<u32>,
    /// Measurements of each point; a row is their median
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Length of one measurement, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    time: u32,
    /// Every third point, two repeats of 10 ms
    #[arg(long)]
    quick: bool,
    /// Write the rows as JSON
    #[arg(long = "rows", alias = "json", value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw each figure, as DIR/threads-FIGURE.svg
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

impl Options {
    fn repeats(&self) -> u32 {
        if self.quick { 2 } else { self.repeat }
    }

    fn time(&self) -> Duration {
        Duration::from_millis(if self.quick { 10 } else { u64::from(self.time) })
    }
}

fn list() -> String {
    let figures = FIGURES.iter().map(|figure| format!("  {:5} {}\n", figure.name, figure.title));
    format!("Figures:\n{}", figures.collect::<String>())
}

/// Runs the bench; it has no goals to miss.
///
/// # Errors
/// A figure that there is none of, more cores than there are, lost packets, a file that cannot be
/// written.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let figures = named(FIGURES, |figure| figure.name, &options.figure, list)?;
    let cores = machine::allowed().len();
    let cores_max = options.cores.map_or(cores, |cores| cores as usize);
    if cores_max > cores {
        bail!("--cores {cores_max}: this program may use {cores}");
    }
    if let Some(dir) = &options.plot {
        std::fs::create_dir_all(dir)
            .map_err(|error| anyhow::anyhow!("{}: {error}", dir.display()))?;
    }
    let machine = Machine::look(cores, None);
    out!("{}", report::heading(&machine, options.repeats(), options.time()));
    let extent = Extent { cores_max, is_quick: options.quick };
    let mut all = Vec::new();
    for figure in figures {
        let rows = measure(figure, options, extent)?;
        if let Some(dir) = &options.plot {
            let file = dir.join(format!("threads-{}.svg", figure.name));
            super::report::write(&file, &chart::svg(figure, &rows))?;
        }
        all.push(rows);
    }
    if let Some(file) = &options.json {
        super::report::write(file, &format!("{:#}\n", report::json(&machine, &all)))?;
    }
    Ok(true)
}

/// Measures a figure's groups, and prints rows.
fn measure(figure: &'static Figure, options: &Options, extent: Extent) -> anyhow::Result<Rows> {
    out!("{}", report::columns(figure));
    let ticks = Ticks::measure();
    let mut rows = Rows { figure, rows: Vec::new(), left_out: Vec::new() };
    for mut group in figure.groups(extent) {
        let fits = |cores: usize| cores <= extent.cores_max;
        rows.left_out.extend(group.placements.iter().map(|it| it.cores).filter(|it| !fits(*it)));
        group.placements.retain(|placement| fits(placement.cores));
        let measured = turns(&group, options, ticks)?;
        out!("{}", report::lines(figure, &measured));
        rows.rows.extend(measured);
    }
    out!("{}", report::left_out(&rows));
    Ok(rows)
}

/// Packets that a measurement is of at least, unless it takes too long.
const PACKETS_MIN: f64 = 1_000.0;
/// Longest measurement of slow placements.
const TIME_MAX: Duration = Duration::from_millis(150);

/// Measures the placements of a group turn by turn.
fn turns(group: &Group, options: &Options, ticks: Ticks) -> anyhow::Result<Vec<Row>> {
    let built = group.placements.iter().map(|placement| Running::new(*placement));
    let mut built = built.collect::<anyhow::Result<Vec<Running>>>()?;
    let mut time = options.time();
    for running in &mut built {
        // Fills caches, and reports how long many packets take.
        let probe = running.run(options.time(), None, ticks)?;
        let wanted = Duration::try_from_secs_f64(PACKETS_MIN / probe.rate).unwrap_or(TIME_MAX);
        time = time.max(wanted.min(TIME_MAX));
    }
    let mut measure = |rate| repeats(&mut built, (options.repeats(), time, rate), ticks);
    let full = measure(None)?;
    let placements = group.placements.iter().zip(&full);
    let mut rows: Vec<Row> =
        placements.map(|(placement, done)| Row::new(group, *placement, done)).collect();
    let slowest = rows.iter().map(Row::rate).fold(f64::INFINITY, f64::min);
    if group.is_paced && slowest.is_finite() && slowest > 0.0 {
        let paced = measure(Some(slowest / 2.0))?;
        rows.iter_mut().zip(&paced).for_each(|(row, done)| row.set_paced(slowest / 2.0, done));
    }
    for (row, own) in rows.iter_mut().zip(&full) {
        let beside = group.placements.iter().position(|beside| row.placement.hands_as(beside));
        if let Some(beside) = beside {
            row.set_handoff(own, &full[beside]);
        }
    }
    if let ([own, other], [row, _]) = (&full[..], &mut rows[..]) {
        row.compare(own, other);
    }
    Ok(rows)
}

/// What all repeats of each placement came to, each so long and at most at such a rate.
fn repeats(
    built: &mut [Running],
    (count, time, rate): (u32, Duration, Option<f64>),
    ticks: Ticks,
) -> anyhow::Result<Vec<Vec<Done>>> {
    let mut all: Vec<Vec<Done>> = built.iter().map(|_| Vec::new()).collect();
    for _ in 0..count {
        for (running, done) in built.iter_mut().zip(&mut all) {
            done.push(running.run(time, rate, ticks)?);
        }
    }
    Ok(all)
}
