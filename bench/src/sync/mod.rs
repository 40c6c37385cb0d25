//! `thruway-bench sync`: the structures of `base/sync` in the situations of the thesis's figures.
//!
//! Every thread has a core of its own. All structures take turns, so that a slow moment is not
//! one's alone, and what they sum up to is checked.

mod figures;
mod race;
mod report;
mod subject;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;

use super::machine::{self, Machine};
use super::select::{named, wanted};
use figures::{FIGURES, Figure};
use report::Row;
use subject::Subject;

/// Arguments of `thruway-bench sync`.
#[derive(Debug, clap::Args)]
#[command(after_help = list())]
pub struct Options {
    /// Only this figure; may be given several times
    #[arg(long, value_name = "FIGURE")]
    figure: Vec<String>,
    /// Only structures that contain PATTERN, or match it as a whole if it has * or ?
    #[arg(long, value_name = "PATTERN")]
    structure: Option<String>,
    /// Threads at most (default: one for each core)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Measurements of each point; a row is their median
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Length of one measurement, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    time: u32,
    /// Write the rows as JSON
    #[arg(long = "rows", alias = "json", value_name = "FILE")]
    json: Option<PathBuf>,
}

fn list() -> String {
    let figures = FIGURES.iter().map(|figure| format!("  {:10} {}\n", figure.name, figure.title));
    let names: Vec<&str> = Subject::all().map(Subject::name).collect();
    format!("Figures:\n{}\nStructures: {}", figures.collect::<String>(), names.join(", "))
}

/// Runs the bench; it has no goals to miss.
///
/// # Errors
/// A figure or structure that there is none of, more threads than cores, a structure that lost
/// something, a file that cannot be written.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let figures = chosen(&options.figure)?;
    let cores = machine::allowed().len();
    let threads = options.threads.map_or(cores, |threads| threads as usize);
    if threads > cores {
        bail!("--threads {threads}: each wants a core of its own, and there are {cores}");
    }
    let machine = Machine::look(cores, None);
    out!("{}", report::heading(&machine, options.repeat, options.time));
    let mut rows = Vec::new();
    for figure in figures {
        rows.extend(measure(figure, options, threads)?);
    }
    if rows.is_empty() {
        bail!("no structure matches\n{}", list());
    }
    if let Some(file) = &options.json {
        super::report::write(file, &report::json(&machine, &rows))?;
    }
    if let Some(wrong) = rows.iter().find(|row| row.is_wrong()) {
        bail!("{} lost something of what was added", wrong.name());
    }
    Ok(true)
}

/// The figures of these names, or all.
fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Figure>> {
    named(FIGURES, |figure| figure.name, names, list)
}

/// Measures a figure's points turn by turn, and prints rows.
fn measure(figure: &Figure, options: &Options, threads: usize) -> anyhow::Result<Vec<Row>> {
    let points = figure.points(threads, |name| wanted(options.structure.as_deref(), name));
    if points.is_empty() {
        return Ok(Vec::new());
    }
    out!("{}", report::columns(figure));
    let time = Duration::from_millis(u64::from(options.time));
    let mut repeats: Vec<Vec<_>> = points.iter().map(|_| Vec::new()).collect();
    for _ in 0..options.repeat {
        for (point, repeats) in points.iter().zip(&mut repeats) {
            let join = point.subject.make(point.shape.roles.len(), point.shape.is_large);
            repeats.push(race::run(&point.shape.roles, &join, time)?);
        }
    }
    let all = points.into_iter().zip(&repeats);
    let rows: Vec<Row> = all.map(|(point, repeats)| Row::new(figure, point, repeats)).collect();
    rows.iter().for_each(|row| out!("{}", report::line(row)));
    Ok(rows)
}
