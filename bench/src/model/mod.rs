//! `thruway-bench model`: estimates compared with measurements, over many configurations.
//!
//! Each is run from memory, estimated from the description of this host, and measured; the report
//! has the error of each estimate, and the distribution of errors.

mod cases;
mod isolated;
mod switches;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use thruway_elements::CATALOG;
use thruway_engine::Options as EngineOptions;
use thruway_lang::{NoLibraries, Variables};
use thruway_model::Hardware;
use thruway_model::calibrate::quantile;
use thruway_model::estimate::{Assumed, error_percent};
use thruway_model::rehearsal::{Captures, Rehearsal};

use super::case::Workspace;
use super::machine::{self, Machine};
use super::select::wanted;
use cases::Model;
use thruway::load;
use thruway::table::Table;

/// Arguments of `thruway-bench model`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Only configurations that contain PATTERN, or match it as a whole if it has * or ?
    #[arg(long, value_name = "PATTERN")]
    case: Option<String>,
    /// Description of this host; without it, what `thruway calibrate` wrote
    #[arg(long, value_name = "FILE")]
    hardware: Option<PathBuf>,
    /// Write the rows as JSON
    #[arg(long = "rows", alias = "json", value_name = "FILE")]
    json: Option<PathBuf>,
    /// Short measurements, and none of what takes long to set up
    #[arg(long)]
    quick: bool,
    /// Exit 1 if the median error exceeds 10 % or the worst 25 %
    #[arg(long)]
    goals: bool,
}

/// At most: the median of all errors, and the worst, in percent.
const GOALS: (f64, f64) = (10.0, 25.0);

/// One configuration.
struct Row {
    name: String,
    estimated: f64,
    measured: f64,
    spread: f64,
}

impl Row {
    /// How far the estimate is off, in percent.
    fn error(&self) -> f64 {
        error_percent(self.estimated, self.measured).unwrap_or_default()
    }
}

/// Runs the bench; false when goals were to be met and were not.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    // Not what was observed: the bench is about what elements declare.
    let hardware = Hardware {
        observed: Default::default(),
        ..thruway::hardware(options.hardware.as_deref())?
    };
    let cores = machine::allowed();
    let machine = Machine::pin();
    let dir = tempfile::tempdir()?;
    let workspace = Workspace { dir: dir.path().to_owned(), words: None, cores };
    let mut models = cases::all(&workspace, options.quick)?;
    models.extend(cases::isolated(&workspace.cores)?);
    let models = models.into_iter().filter(|it| wanted(options.case.as_deref(), &it.name));
    let mut rows = Vec::new();
    for model in models {
        let name = model.name.clone();
        if model.threads > 1 {
            machine::bind_to(&workspace.cores);
        }
        let row = row(model, &hardware, options.quick)
            .map_err(|error| error.context(format!("in {name}")));
        machine.pinned.map(machine::bind);
        let row = row?;
        errln!("{}: {:+.1} %", row.name, row.error());
        rows.push(row);
    }
    anyhow::ensure!(!rows.is_empty(), "no configuration matches");
    let worth = Errors::of(&rows);
    out!("{}", table(&rows, &hardware));
    out!("{}", worth.text());
    if let Some(path) = &options.json {
        let cpu = &machine.model;
        std::fs::write(path, format!("{:#}\n", as_json(&rows, &worth, &hardware, cpu)))?;
    }
    Ok(!options.goals || (worth.median <= GOALS.0 && worth.worst <= GOALS.1))
}

/// Estimates and measures one.
fn row(model: Model, hardware: &Hardware, is_quick: bool) -> anyhow::Result<Row> {
    let error = |failure: load::Failure| anyhow::anyhow!("{}", failure.pretty.render(false));
    let (graph, _) = load::graph(model.text, &Variables::new(), &NoLibraries).map_err(error)?;
    let options = options(model.threads);
    let mut rehearsal = Rehearsal::new(graph, &CATALOG, &Captures::default(), &options)?;
    let counts = rehearsal.watch();
    let estimate = rehearsal.estimate(&counts, hardware, &Assumed::default(), false)?;
    if let Some(lacks) = thruway::lacks_isolation(&estimate, hardware) {
        anyhow::bail!("{lacks}");
    }
    let runs = if is_quick { (3, 20) } else { (9, 60) };
    let runs = (runs.0, Duration::from_millis(runs.1));
    let truth = rehearsal.measure(&estimate, hardware, runs)?;
    Ok(Row {
        name: model.name,
        // Of several threads the first is measured, which does its part of the packets.
        estimated: estimate.threads.first().copied().unwrap_or_default()
            + estimate.process_cycles(),
        measured: truth.cycles.0 + truth.processes.0,
        spread: truth.cycles.1 + truth.processes.1,
    })
}

fn options(threads: usize) -> EngineOptions {
    EngineOptions { burst: 64, threads, spread: true, ..EngineOptions::default() }
}

/// How errors are distributed, in percent of the truth, without their signs.
struct Errors {
    count: usize,
    median: f64,
    nine_of_ten: f64,
    worst: f64,
    /// Of the signed errors: whether estimates are too high or too low as a rule.
    mean: f64,
}

impl Errors {
    fn of(rows: &[Row]) -> Errors {
        let mut all: Vec<f64> = rows.iter().map(|row| row.error().abs()).collect();
        all.sort_by(f64::total_cmp);
        let at = |share: f64| quantile(&all, share);
        let mean = rows.iter().map(Row::error).sum::<f64>() / rows.len() as f64;
        Errors { count: rows.len(), median: at(0.5), nine_of_ten: at(0.9), worst: at(1.0), mean }
    }

    fn text(&self) -> String {
        format!(
            "\n{} configurations: median error {:.1} % (goal {}), nine of ten below {:.1} %, \
             worst {:.1} % (goal {}); mean with sign {:+.1} %\n",
            self.count, self.median, GOALS.0, self.nine_of_ten, self.worst, GOALS.1, self.mean
        )
    }
}

fn table(rows: &[Row], hardware: &Hardware) -> String {
    let mut table = Table::new(&["configuration", "estimated", "measured", "spread", "error %"]);
    for row in rows {
        table.row(vec![
            row.name.clone(),
            format!("{:.1}", row.estimated),
            format!("{:.1}", row.measured),
            format!("{:.1}", row.spread),
            format!("{:+.1}", row.error()),
        ]);
    }
    let host = &hardware.name;
    format!(
        "Estimates for {host} beside the truth, cycles per packet of the first thread and of the \
         processes of isolated functions\n\n{}",
        table.render()
    )
}

fn as_json(rows: &[Row], errors: &Errors, hardware: &Hardware, cpu: &str) -> serde_json::Value {
    let rows = rows.iter().map(|row| {
        json!({
            "case": row.name,
            "estimated_cycles": row.estimated,
            "measured_cycles": row.measured,
            "spread": row.spread,
            "error_percent": row.error(),
        })
    });
    json!({
        "bench": "model",
        "cpu": cpu,
        "hardware": hardware.name,
        "clock_hz": hardware.clock_hz.value,
        "median_error_percent": errors.median,
        "worst_error_percent": errors.worst,
        "rows": rows.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_without_their_signs() {
        let row =
            |estimated: f64| Row { name: String::new(), estimated, measured: 100.0, spread: 0.0 };
        let rows: Vec<Row> = [90.0, 105.0, 130.0].into_iter().map(row).collect();
        let errors = Errors::of(&rows);
        assert!((errors.median - 10.0).abs() < 1e-9 && (errors.worst - 30.0).abs() < 1e-9);
        assert!((errors.mean - 25.0 / 3.0).abs() < 1e-9);
    }

    /// Every configuration of the bench is one, and packets move in it.
    #[test]
    fn every_configuration_runs() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace { dir: dir.path().to_owned(), words: None, cores: Vec::new() };
        let names: Vec<String> =
            cases::all(&workspace, true).unwrap().into_iter().map(|model| model.name).collect();
        assert!(names.len() >= 30, "{}", names.len());
        for model in cases::all(&workspace, true).unwrap() {
            let name = model.name.clone();
            let (graph, _) = load::graph(model.text, &Variables::new(), &NoLibraries)
                .unwrap_or_else(|failure| panic!("{name}: {}", failure.pretty.render(false)));
            let options = options(model.threads);
            let mut rehearsal =
                Rehearsal::new(graph, &CATALOG, &Captures::default(), &options).unwrap();
            let counts = rehearsal.watch();
            assert!(rehearsal.made_packets(&counts) > 0, "{name}");
        }
    }
}
