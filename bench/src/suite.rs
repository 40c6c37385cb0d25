//! Benches that are suites of cases: each case is measured a number of times on one core, and
//! makes a row.

use std::path::PathBuf;

use super::case::{Case, Report, Subject, Suite, Workspace};
use super::machine::{Machine, allowed};
use super::measure::Meter;
use super::row::{Repeat, Row};
use super::select::wanted;
use super::{flow, isolated, offload, path, plot, report, stream};

/// Every bench.
const SUITES: &[&Suite] =
    &[&path::SUITE, &flow::SUITE, &stream::SUITE, &isolated::SUITE, &offload::SUITE];

/// Packets of the first, unmeasured run, which warms up and says how long a packet takes.
const PROBE: u64 = 200_000;

/// Arguments of a bench that is a [`Suite`].
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Which bench; without it, lists them
    name: Option<String>,
    /// Only cases that contain PATTERN, or match it as a whole if it has * or ?
    #[arg(long, value_name = "PATTERN")]
    case: Option<String>,
    /// Write the rows as JSON
    #[arg(long = "rows", alias = "json", value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the rows
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Show each row's goal; exit 1 if one is missed
    #[arg(long)]
    goals: bool,
    /// Measurements of each case; the row is their median
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// CPU time of one measurement, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    time: u32,
    /// Three repeats of 40 ms, without cases that take long to set up
    #[arg(long)]
    quick: bool,
    /// Of bench stream: words to look for, as WordMatcher's FILE, for the cases inspect/given
    #[arg(long, value_name = "FILE")]
    words: Option<PathBuf>,
    /// Put the cases' input files in DIR and leave them there (default: a temporary directory)
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Only list the cases
    #[arg(long)]
    list: bool,
}

impl Options {
    fn repeats(&self) -> u32 {
        if self.quick { 3 } else { self.repeat }
    }

    fn time(&self) -> u32 {
        if self.quick { 40 } else { self.time }
    }
}

/// The suites' names, a line each.
pub fn names() -> String {
    let lines = SUITES.iter().map(|suite| format!("  {:8} {}\n", suite.name, suite.about));
    format!("Benches:\n{}", lines.collect::<String>())
}

/// Runs a bench; false when a goal was to be met and was not.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let Some(name) = &options.name else {
        out!("{}", names());
        return Ok(true);
    };
    let suite = SUITES.iter().find(|suite| suite.name == name.as_str());
    let suite = suite.ok_or_else(|| anyhow::anyhow!("no bench '{name}'\n{}", names()))?;
    let cases = (suite.cases)();
    let chosen: Vec<&Case> = cases
        .iter()
        .filter(|case| wanted(options.case.as_deref(), &case.name))
        .filter(|case| !(options.quick && case.is_long))
        .filter(|case| options.words.is_some() || !case.name.starts_with(stream::GIVEN))
        .collect();
    let reports: Vec<Report> = (suite.reports.iter())
        .filter(|(name, _)| wanted(options.case.as_deref(), name))
        .map(|(_, report)| *report)
        .collect();
    if chosen.is_empty() && reports.is_empty() {
        let all: String = cases.iter().map(|case| format!("  {}\n", case.name)).collect();
        anyhow::bail!(
            "no case matches '{}'; there are\n{all}",
            options.case.as_deref().unwrap_or("")
        );
    }
    if options.list {
        chosen.iter().for_each(|case| outln!("{}", case.name));
        suite.reports.iter().for_each(|(name, _)| outln!("{name}"));
        return Ok(true);
    }
    let temporary = tempfile::tempdir()?;
    let workspace = Workspace {
        dir: options.keep.clone().unwrap_or(temporary.path().to_owned()),
        words: options.words.clone(),
        cores: allowed(),
    };
    std::fs::create_dir_all(&workspace.dir)
        .map_err(|error| anyhow::anyhow!("{}: {error}", workspace.dir.display()))?;
    let bench = Bench { options, cases: &cases, workspace, machine: Machine::pin() };
    let met = chosen.is_empty() || bench.report(suite.name, &chosen)?;
    for report in reports {
        out!("\n{}", report(&bench.workspace, options.quick)?);
    }
    Ok(met)
}

/// One invocation.
struct Bench<'a> {
    options: &'a Options,
    cases: &'a [Case],
    workspace: Workspace,
    machine: Machine,
}

impl Bench<'_> {
    /// Measures and reports; false when a goal was to be met and was not.
    fn report(&self, suite: &str, chosen: &[&Case]) -> anyhow::Result<bool> {
        let mut meter = Meter::new();
        let width = chosen.iter().map(|case| case.name.len()).max().unwrap_or(0);
        out!("{}", report::heading(suite, &self.machine, self.options.repeats() as usize));
        out!("{}", report::columns(width, self.options.goals));
        let mut rows = Vec::new();
        for case in chosen {
            let row = self
                .measure(case, &mut meter)
                .map_err(|error| error.context(format!("case {}", case.name)))?;
            out!("{}", report::line(&row, width, self.options.goals));
            rows.push(row);
        }
        let no_counters = meter.without_counters();
        if let Some(why) = no_counters {
            outln!("n/a: {why}");
        }
        let baselines: Vec<&str> =
            rows.iter().filter_map(|row| Some(row.ratio.as_ref()?.0.as_str())).collect();
        if !baselines.is_empty() {
            outln!("ratio: to the baseline that each case names (in --json), turn by turn");
        }
        if let Some(file) = &self.options.json {
            report::write(file, &report::json(suite, &self.machine, no_counters, &rows)?)?;
        }
        if let Some(file) = &self.options.plot {
            report::write(file, &plot::svg(suite, &rows))?;
        }
        Ok(!self.options.goals || !rows.iter().any(Row::missed))
    }

    fn measure(&self, case: &Case, meter: &mut Meter) -> anyhow::Result<Row> {
        let mut own = Turn::new(case, self, meter)?;
        let base =
            case.baseline.as_ref().and_then(|name| self.cases.iter().find(|c| c.name == *name));
        let mut base = base.map(|base| Turn::new(base, self, meter)).transpose()?;
        for _ in 0..self.options.repeats() {
            own.take(meter)?;
            if let Some(base) = &mut base {
                base.take(meter)?;
            }
        }
        let mut row = Row::new(&case.name, &own.repeats);
        if let (Some(name), Some(base)) = (&case.baseline, &base) {
            row = row.against((name, case.steps), &own.repeats, &base.repeats);
        }
        row.goal = case.goal;
        row.gbps = case.payload.map(|bytes| bytes * 8.0 / row.ns);
        Ok(row)
    }
}

/// A case that is being measured.
struct Turn {
    subject: Box<dyn Subject>,
    packets: u64,
    repeats: Vec<Repeat>,
}

impl Turn {
    /// Sets the case up, warms it up, and finds how many packets fill the time of a repeat.
    fn new(case: &Case, bench: &Bench<'_>, meter: &mut Meter) -> anyhow::Result<Turn> {
        let mut subject = (case.set_up)(&bench.workspace)?;
        let done = subject.run(PROBE, meter)?;
        anyhow::ensure!(done > 0, "no packet was handled");
        let ns = meter.take().cpu_ns as f64 / done as f64;
        let target = f64::from(bench.options.time()) * 1e6;
        let packets = (target / ns.max(0.1)) as u64;
        Ok(Turn { subject, packets: packets.max(1), repeats: Vec::new() })
    }

    fn take(&mut self, meter: &mut Meter) -> anyhow::Result<()> {
        let packets = self.subject.run(self.packets, meter)?;
        self.repeats.push(Repeat { packets, usage: meter.take() });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own_and_a_baseline_that_exists() {
        for suite in SUITES {
            let cases = (suite.cases)();
            for (at, case) in cases.iter().enumerate() {
                assert!(!cases[..at].iter().any(|other| other.name == case.name), "{}", case.name);
                let base = case.baseline.as_ref();
                assert!(base.is_none_or(|b| cases.iter().any(|c| c.name == *b)), "{}", case.name);
            }
        }
    }
}
