//! `thruway-bench ends`: Thruway as a TCP load balancer against haproxy and nginx, with the
//! kernel's stack, wrk and a web server at both ends.
//!
//! Everything runs on one core, turn by turn: a cheaper box leaves more of it to the hosts. So
//! requests per second are those of a core that also does the hosts' work, and the cost of a box is
//! its processor time: see [`account`].

mod account;
mod lab;
mod load;
mod report;
mod samples;
mod systems;

use std::path::{Path, PathBuf};

use anyhow::bail;

use super::child::has;
use super::machine::Machine;
use super::select::wanted;
use account::Account;
use lab::Lab;
use load::{LOADS, Load};
use report::Row;
use systems::{Kind, STREAM_MODULE, System};

/// Arguments of `thruway-bench ends`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Needs root, haproxy, nginx with its stream module, wrk and curl; perf, if it \
                        is there, attributes the time of reception."
)]
pub struct Options {
    /// Turns of everyone; a row is the median
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Length of one measurement, seconds
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Only loads that contain PATTERN, or match it as a whole if it has * or ?
    #[arg(long, value_name = "PATTERN")]
    load: Option<String>,
    /// Show each load's goal; exit 1 if one is missed
    #[arg(long)]
    goals: bool,
    /// Write the rows as JSON
    #[arg(long = "rows", alias = "json", value_name = "FILE")]
    json: Option<PathBuf>,
    /// Put configurations and logs in DIR and leave them there (default: a temporary directory)
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Runs the bench; false when a goal was to be met and was not.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    if !rustix::process::geteuid().is_root() {
        bail!("it makes network namespaces; run it as root");
    }
    tools()?;
    let loads: Vec<&Load> =
        LOADS.iter().filter(|load| wanted(options.load.as_deref(), load.name)).collect();
    if loads.is_empty() {
        let all: Vec<&str> = LOADS.iter().map(|load| load.name).collect();
        bail!("no load matches; there are {}", all.join(", "));
    }
    let temporary = tempfile::tempdir()?;
    let dir = options.keep.clone().unwrap_or(temporary.path().to_owned());
    std::fs::create_dir_all(&dir)?;
    let dir = dir.canonicalize()?;
    // Children stay on the core that this thread is bound to.
    let machine = Machine::pin();
    let Some(core) = machine.pinned else { bail!("cannot bind processes to a core") };
    let account = Account::new(core, options.seconds, &dir);
    out!("{}", report::heading(&machine, options.rounds, options.seconds, account.samples()));
    let rows = measure(options, &loads, &account, &dir)?;
    out!("{}", report::table(&rows, options.goals));
    if let Some(path) = &options.json {
        std::fs::write(path, report::json(&machine, &rows))?;
    }
    Ok(!options.goals || rows.iter().all(|row| row.reaches_goal() != Some(false)))
}

/// Everyone's turn with every load, round by round.
fn measure(
    options: &Options,
    loads: &[&Load],
    account: &Account,
    dir: &Path,
) -> anyhow::Result<Vec<Row>> {
    let lab = Lab::new(dir)?;
    let start = |kind: &Kind| System::start(*kind, &lab, dir);
    let mut all: Vec<System> = Kind::ALL.iter().map(start).collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    for load in loads {
        let mut rounds = vec![Vec::new(); all.len()];
        for round in 0..options.rounds {
            err!("\r{} round {} of {}  ", load.name, round + 1, options.rounds);
            for (costs, system) in rounds.iter_mut().zip(&mut all) {
                costs.push(account.measure(load, system, &lab)?);
            }
        }
        err!("\r{:40}\r", "");
        let kinds = all.iter().map(|one| one.kind);
        let all: Vec<_> = kinds.zip(rounds).collect();
        rows.extend(report::of_load(load, &all));
    }
    Ok(rows)
}

/// Fails, with what to install, where a program is missing.
fn tools() -> anyhow::Result<()> {
    let needed = [
        ("ip", "iproute2"),
        ("haproxy", "haproxy"),
        ("nginx", "nginx"),
        ("wrk", "wrk"),
        ("curl", "curl"),
    ];
    let mut missing: Vec<&str> =
        needed.iter().filter(|(tool, _)| !has(tool)).map(|(_, package)| *package).collect();
    if missing.is_empty() && !Path::new(STREAM_MODULE).exists() && !nginx_has_stream() {
        missing.push("libnginx-mod-stream");
    }
    if !missing.is_empty() {
        bail!("missing programs; install them: apt install {}", missing.join(" "));
    }
    Ok(())
}

/// Whether nginx was built with streams in it.
fn nginx_has_stream() -> bool {
    let output = std::process::Command::new("nginx").arg("-V").output();
    output.is_ok_and(|output| {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.split(' ').any(|word| word.trim() == "--with-stream")
    })
}
