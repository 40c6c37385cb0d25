//! Estimates of configurations.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use thruway_elements::CATALOG;
use thruway_engine::Options;
use thruway_lang::{Diagnostics, Variables};
use thruway_model::Hardware;
use thruway_model::estimate::{Assumed, Estimate};
use thruway_model::observed;
use thruway_model::plan::Chain;
use thruway_model::rehearsal::{Captures, Counts, Rehearsal, RehearsalError, Trace};
use thruway_model::traffic::Description;

use super::answer::{self, Answer};
use super::args::EstimateArgs;
use super::live;
use crate::config_args::{libraries, report};
use crate::{calibrate, load};

/// Runs of `--verify`, and how long each is.
const RUNS: (usize, Duration) = (7, Duration::from_millis(80));
/// Sizes of frames that rates are reported for.
const SIZES: [u32; 6] = [64, 128, 256, 512, 1024, 1514];

/// Runs `thruway estimate CONFIGURATION`.
pub fn main(args: &EstimateArgs) -> anyhow::Result<ExitCode> {
    if args.forget {
        return forget(&description(args.hardware.as_deref())?);
    }
    let hardware = hardware(args.hardware.as_deref())?;
    if args.live.is_some() {
        return live(args, hardware);
    }
    let (source, variables) = args.config.read()?;
    let (graph, warnings) = match load::graph(source, &variables, &libraries()) {
        Ok(read) => read,
        Err(failure) => {
            report(&failure.pretty);
            return Ok(ExitCode::FAILURE);
        }
    };
    report(&warnings);
    let (captures, assumed) = traffic(args)?;
    let options = Options {
        threads: usize::from(args.threads),
        spread: true,
        burst: usize::from(args.batch),
        ..Options::default()
    };
    let mut rehearsal = match Rehearsal::new(graph, &CATALOG, &captures, &options) {
        Ok(rehearsal) => rehearsal,
        Err(RehearsalError::Ports(found)) => {
            report(&found);
            return Ok(ExitCode::FAILURE);
        }
        Err(RehearsalError::Build(graph, errors)) => {
            let none = Diagnostics::about(&graph.sources);
            report(&load::explain(&graph, &errors, none).pretty);
            return Ok(ExitCode::FAILURE);
        }
        Err(other) => return Err(other.into()),
    };
    let all = all(args, hardware, &mut rehearsal, &assumed)?;
    if args.json {
        outln!("{:#}", answer::json(&all));
    } else {
        out!("{}", answer::text(&all));
    }
    if let Some(file) = &args.report {
        std::fs::write(file, answer::page(&all))
            .map_err(|error| anyhow::anyhow!("{}: {}", file.display(), load::plain(&error)))?;
        outln!("report: {}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Compares with what runs, and keeps what was observed if asked.
fn live(args: &EstimateArgs, mut hardware: Hardware) -> anyhow::Result<ExitCode> {
    let address = args.live.as_deref().unwrap_or_default();
    let assumed = Assumed { packet_bytes: args.packet_bytes, sessions: args.sessions };
    let comparison = live::compare(address, args.interval, &assumed, &hardware)?;
    match args.json {
        true => outln!("{:#}", comparison.json()),
        false => out!("{}", comparison.text()),
    }
    if args.refine {
        let kept = hardware.observed.keep(comparison.costs());
        let place = hardware.observed.save(&description(args.hardware.as_deref())?)?;
        errln!(
            "{kept} observed costs kept in {}: the next estimates and plans use them; `thruway \
             estimate --forget` drops them",
            place.display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Drops what was observed on the host of a description.
fn forget(description: &Path) -> anyhow::Result<ExitCode> {
    let place = observed::file_of(description);
    match observed::forget(description)? {
        true => outln!("dropped: {}", place.display()),
        false => outln!("there are no observed costs in {}", place.display()),
    }
    Ok(ExitCode::SUCCESS)
}

/// The estimate of a configuration for a plan: no link, nothing measured.
///
/// # Errors
/// What is wrong with the configuration or its traffic.
pub fn of_plan(chain: &Chain, hardware: &Hardware) -> anyhow::Result<Estimate> {
    let Some(path) = &chain.configuration else { anyhow::bail!("there is no configuration") };
    let source = load::Origin::File(path.display().to_string()).read()?;
    let mut variables = Variables::new().known_only();
    for (name, value) in &chain.variables {
        variables.set(name, value);
    }
    let failed = |failure: load::Failure| anyhow::anyhow!("{}", failure.pretty.render(false));
    let (graph, _) = load::graph(source, &variables, &libraries()).map_err(failed)?;
    let trace = chain.traffic.as_deref().map(trace).transpose()?;
    let captures = Captures { all: trace.map(|(trace, _)| trace), ..Captures::default() };
    let options = Options { burst: usize::from(chain.burst), ..Options::default() };
    let mut rehearsal = Rehearsal::new(graph, &CATALOG, &captures, &options)?;
    let counts = rehearsal.watch();
    let sessions = (chain.sessions > 0.0).then_some(chain.sessions);
    let assumed = Assumed { packet_bytes: Some(chain.packet), sessions };
    Ok(rehearsal.estimate(&counts, hardware, &assumed, true)?)
}

/// Packets of a capture or a description, and the sessions that are described.
fn trace(file: &Path) -> anyhow::Result<(Trace, Option<f64>)> {
    if file.extension().is_some_and(|it| it == "toml") {
        let described = Description::load(file)?;
        return Ok((Trace::Lines(described.lines()), Some(described.sessions())));
    }
    Ok((Trace::Capture(file.display().to_string()), None))
}

/// Watches, estimates and, if asked, measures.
fn all(
    args: &EstimateArgs,
    hardware: Hardware,
    rehearsal: &mut Rehearsal,
    assumed: &Assumed,
) -> anyhow::Result<Answer> {
    let link = args.link.as_deref().map(bits).transpose()?;
    let counts = rehearsal.watch();
    let as_written = !args.verify;
    let estimate = rehearsal.estimate(&counts, &hardware, assumed, as_written)?;
    anyhow::ensure!(
        estimate.cycles() > 0.0,
        "the description of {} has none of the operations that this configuration needs: thruway \
         calibrate measures them on a host",
        hardware.name
    );
    let truth = args.verify.then(|| rehearsal.measure(&estimate, &hardware, RUNS)).transpose()?;
    let sizes = if args.sizes.is_empty() { &SIZES[..] } else { &args.sizes };
    let of = |size: &u32| {
        let assumed = Assumed { packet_bytes: Some(f64::from(*size)), ..*assumed };
        let estimate = rehearsal.estimate(&counts, &hardware, &assumed, as_written)?;
        Ok((*size, estimate))
    };
    let sizes = sizes.iter().map(of).collect::<Result<_, RehearsalError>>()?;
    let unvisited = unvisited(rehearsal, &counts);
    Ok(Answer { hardware, estimate, truth, sizes, link, unvisited })
}

/// Elements with inputs that no packet came to.
fn unvisited(rehearsal: &Rehearsal, counts: &Counts) -> Vec<String> {
    let graph = &rehearsal.router.layout().graph;
    let enters = |element: usize| graph.edges.iter().any(|edge| edge.to.element == element);
    let never = |element: &usize| counts.packets[*element] == 0 && enters(*element);
    let all = 0..rehearsal.written;
    all.filter(never).map(|element| graph.elements[element].name.clone()).collect()
}

/// The description of the host.
pub fn hardware(file: Option<&Path>) -> anyhow::Result<Hardware> {
    Ok(Hardware::load(&description(file)?)?)
}

/// Where the description of the host is.
fn description(file: Option<&Path>) -> anyhow::Result<PathBuf> {
    file.map(Path::to_path_buf).or_else(calibrate::known_file).ok_or_else(|| {
        anyhow::anyhow!(
            "this host is not calibrated; run `thruway calibrate` (one minute), or name the \
             description of another host with --hardware FILE"
        )
    })
}

/// What comes in, and what is known of it.
fn traffic(args: &EstimateArgs) -> anyhow::Result<(Captures, Assumed)> {
    let mut captures = Captures::default();
    let mut assumed = Assumed { packet_bytes: args.packet_bytes, sessions: args.sessions };
    for said in &args.traffic {
        let (element, file) = match said.split_once('=') {
            Some((element, file)) => (Some(element), file),
            None => (None, said.as_str()),
        };
        let (trace, sessions) = trace(Path::new(file))?;
        // Of many that are described only some are rehearsed.
        assumed.sessions = assumed.sessions.or(sessions);
        match element {
            Some(element) => drop(captures.of.insert(element.to_owned(), trace)),
            None => captures.all = Some(trace),
        }
    }
    for (option, value) in [("--packet-bytes", args.packet_bytes), ("--sessions", args.sessions)] {
        anyhow::ensure!(
            value.is_none_or(|value| (1.0..1e12).contains(&value)),
            "{option} {}: must be at least 1",
            value.unwrap_or_default()
        );
    }
    Ok((captures, assumed))
}

/// `10G`: bits a second.
fn bits(text: &str) -> anyhow::Result<f64> {
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 'k')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some((at, 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let number: Option<f64> = number.parse().ok().filter(|it: &f64| *it > 0.0 && it.is_finite());
    let wrong = || anyhow::anyhow!("--link {text}: give bits a second, such as 10G");
    number.map(|number| number * unit).ok_or_else(wrong)
}
