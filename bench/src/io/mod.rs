//! `thruway-bench io`: how many packets a second one core forwards, between two interfaces, by
//! Thruway and by the kernel.
//!
//! A generator in the kernel makes more packets than any contestant forwards, on a core of its own;
//! arriving packets are counted in the kernel, too. All contestants are ready at
//! once, each between cables of its own ([`site`]), and have their turns in every round, so other
//! load of the machine affects all of them. A rate is reported per second, and
//! per second of processor time of the forwarder: its process, and the thread that receives for it.
//! On a quiet machine they are the same.

mod account;
mod cases;
mod companion;
mod guard;
mod latency;
mod options;
mod peer;
mod report;
pub(super) mod site;
mod system;
mod turn;

use std::time::Duration;

use anyhow::{Context as _, bail};

use super::child::has;
use super::machine::{Machine, allowed};
use super::row::median;
use super::select::wanted;
use account::Account;
use cases::{CASES, Case};
use latency::Latency;
pub use options::Options;
use report::Row;
use site::Cores;
use system::System;
use turn::{Load, Rates};

/// A case, and its contestant.
struct Entrant {
    case: &'static Case,
    load: Load,
    system: System,
    rates: Vec<Rates>,
    latencies: Vec<Latency>,
}

/// Runs the bench; false when a goal was to be met and was not.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    if !rustix::process::geteuid().is_root() {
        bail!("it makes network namespaces and loads programs into the kernel; run it as root");
    }
    let allowed = allowed();
    let cores = Cores::choose(&allowed)?;
    let mut cases = chosen(options.case.as_deref())?;
    if !has("dpdk-testpmd") && cases.iter().any(|case| case.kind.is_testpmd()) {
        errln!("rows of testpmd are left out; to have them: apt-get install dpdk-dev");
        cases.retain(|case| !case.kind.is_testpmd());
    }
    let temporary = tempfile::tempdir()?;
    let dir = options.keep.clone().unwrap_or(temporary.path().to_owned());
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let dir = dir.canonicalize()?;
    let machine = Machine::look(allowed.len(), Some(cores.forwarding));
    let (rounds, time) = if options.quick { (3, 200) } else { (options.rounds, options.time) };
    let mut all = Vec::new();
    for (number, case) in cases.into_iter().enumerate() {
        let entrant = enter(case, number, (options, cores), &dir);
        all.push(entrant.with_context(|| case.name)?);
    }
    out!("{}", report::heading(&machine, cores, options));
    let time = Duration::from_millis(time.into());
    for round in 0..rounds {
        for entrant in &mut all {
            err!("\r{:20} round {} of {rounds}    ", entrant.case.name, round + 1);
            let rates = entrant.load.measure(&mut entrant.system, time, cores);
            entrant.rates.push(rates.with_context(|| entrant.case.name)?);
        }
    }
    measure_latencies(&mut all, time, cores)?;
    err!("\r{:40}\r", "");
    let rows = rows(&all)?;
    out!("{}{}", report::table(&rows, options.goals), report::latency_table(&rows));
    if let Some(path) = &options.json {
        let text = report::json(&machine, options, &rows);
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(!options.goals || !rows.iter().any(Row::missed))
}

/// Latencies of everyone, at parts of what each took.
fn measure_latencies(all: &mut [Entrant], time: Duration, cores: Cores) -> anyhow::Result<()> {
    for percent in latency::PERCENTS {
        for entrant in &mut *all {
            err!("\r{:20} latency at {percent} %    ", entrant.case.name);
            let rate = median(entrant.rates.iter().map(|rates| rates.arrived));
            let pair = (&mut entrant.load, &entrant.system);
            pair.1.work(true)?;
            let latency = Latency::measure(percent, rate, pair, time, cores);
            entrant.system.work(false)?;
            entrant.latencies.push(latency.with_context(|| entrant.case.name)?);
        }
    }
    Ok(())
}

/// The cases that are wanted, and their baselines.
fn chosen(pattern: Option<&str>) -> anyhow::Result<Vec<&'static Case>> {
    let is_base = |name: &str| {
        let mut wanted = CASES.iter().filter(|case| wanted(pattern, case.name));
        wanted.any(|case| case.baseline == Some(name))
    };
    let cases: Vec<&Case> =
        CASES.iter().filter(|case| wanted(pattern, case.name) || is_base(case.name)).collect();
    if cases.is_empty() {
        let all: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        bail!("no case matches; there are {}", all.join(", "));
    }
    Ok(cases)
}

/// Puts a contestant and its load in their places.
fn enter(
    case: &'static Case,
    number: usize,
    (options, cores): (&Options, Cores),
    dir: &std::path::Path,
) -> anyhow::Result<Entrant> {
    let system = System::start(case, number, cores, dir)?;
    let flows = if case.one_flow { 1 } else { options.flows };
    let load = Load::new(&system.site, flows, options.len, cores)?;
    Ok(Entrant { case, load, system, rates: Vec::new(), latencies: Vec::new() })
}

/// Everyone's row. What was lost is asked when all turns are over.
fn rows(all: &[Entrant]) -> anyhow::Result<Vec<Row>> {
    account::wait_until_counted();
    let mut rows = Vec::new();
    for entrant in all {
        let base = entrant.case.baseline.and_then(|name| {
            all.iter().find(|other| other.case.name == name).map(|other| &other.rates[..])
        });
        let account = Account::take(entrant.case.kind, &entrant.load, &entrant.system);
        let account = account.with_context(|| entrant.case.name)?;
        rows.push(Row::new(entrant.case, &entrant.rates, base, account).with(&entrant.latencies));
    }
    Ok(rows)
}
