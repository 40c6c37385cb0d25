//! Measuring the points of a figure, and reporting them.

use std::path::Path;
use std::time::Duration;

use super::bounds::Bounds;
use super::chart;
use super::figures::{self, Figure};
use super::goals;
use super::options::Options;
use super::source::Sources;
use super::table::{self, Row};
use super::workers::Cores;
use crate::machine::Machine;

/// Runs `thruway-bench exchange`; false when a goal is missed.
///
/// # Errors
/// A figure that there is none of, a directory that cannot be written, and what
/// [`Cell::measure`](super::cell::Cell::measure) says.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    check(options)?;
    let figures = figures::named_figures(&options.figure)?;
    if figures.is_empty() && !options.goals && !options.bounds {
        out!("{}", figures::list());
        return Ok(true);
    }
    let cores = Cores::allowed();
    out!("{}", heading(options, &cores));
    let bounds = Bounds::measure(&cores, Duration::from_secs_f64(options.seconds.min(0.5)))?;
    out!("{}", bounds.text());
    for figure in figures {
        let rows = measure(figure, options, &cores)?;
        if let Some(dir) = &options.out {
            write(dir, figure, &rows)?;
        }
    }
    Ok(!options.goals || goals::run(options, &cores, &bounds)?)
}

/// What a measurement cannot be done with.
fn check(options: &Options) -> anyhow::Result<()> {
    let seconds = options.seconds;
    anyhow::ensure!(seconds > 0.0 && seconds < 1e6, "--duration {seconds}: more than 0");
    let slots = options.choices.slots.unwrap_or(2);
    let is_ring = slots.is_power_of_two() && (2..=65_536).contains(&slots);
    anyhow::ensure!(is_ring, "--slots {slots}: a power of two from 2 to 65536");
    let ages = options.choices.master_threshold.is_some_and(|threshold| threshold >= slots);
    anyhow::ensure!(
        options.choices.slots.is_none() || !ages,
        "--master-threshold: less than the {slots} slots, or a Worker is only woken by age"
    );
    Ok(())
}

fn heading(options: &Options, cores: &Cores) -> String {
    let machine = Machine::look(cores.count(), cores.master());
    let core = machine.pinned.map_or("anywhere".into(), |core| format!("core {core}"));
    let [line, ring] = [false, true].map(|is_many| options.choices.choices(is_many));
    format!(
        "bench exchange: Master on {core} of {}, {}, Linux {}, load {}; {} repeats of {} s\n\
         rings of {} slots (many chains: {}), bursts of {}, at most {} packets in many chains\n",
        machine.cores,
        machine.model,
        machine.kernel,
        machine.load,
        options.repeat,
        options.seconds,
        line.slots,
        ring.slots,
        line.burst,
        ring.window
    )
}

/// Measures the points turn by turn, those with packets of one length together, and prints rows.
fn measure(figure: &Figure, options: &Options, cores: &Cores) -> anyhow::Result<Vec<Row>> {
    let mut points = figure.points(options);
    let mut lens: Vec<usize> = points.iter().map(|point| point.cell.len).collect();
    lens.sort_unstable();
    lens.dedup();
    out!("{}", table::heading(figure));
    let mut sources = Sources::default();
    let mut rows = Vec::new();
    for len in lens {
        let some: Vec<_> = points.extract_if(.., |point| point.cell.len == len).collect();
        let mut repeats: Vec<Vec<_>> = some.iter().map(|_| Vec::new()).collect();
        for _ in 0..options.repeat {
            for (point, repeats) in some.iter().zip(&mut repeats) {
                let source = sources.of(point.cell.memory, point.cell.len);
                repeats.push(point.cell.measure(source, options.span(), cores).map_err(
                    |error| {
                        error.context(format!("{}, {} Workers", point.series, point.cell.workers))
                    },
                )?);
            }
        }
        for (point, repeats) in some.into_iter().zip(repeats) {
            let row = Row::new(point, repeats);
            out!("{}", table::text(&row));
            rows.push(row);
        }
    }
    Ok(rows)
}

fn write(dir: &Path, figure: &Figure, rows: &[Row]) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).map_err(|error| anyhow::anyhow!("{}: {error}", dir.display()))?;
    for (ending, text) in [("csv", table::csv(figure, rows)), ("svg", chart::svg(figure, rows))] {
        let path = dir.join(format!("exchange-{}.{ending}", figure.name));
        crate::report::write(&path, &text)?;
        outln!("{}", path.display());
    }
    Ok(())
}
