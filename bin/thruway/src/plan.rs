//! `thruway plan`: where the functions of chains run, on which hosts and cores.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::Args;
use thruway_element::nearest;
use thruway_model::Hardware;
use thruway_model::estimate::Line;
use thruway_model::plan::{
    Answer, Break, Chain, FunctionLoad, HostEntry, Limit, Most, Plan, PlanFile, Problem,
};

use crate::table::{Table, thousands};

/// Arguments of `thruway plan`.
#[derive(Args)]
pub struct PlanArgs {
    /// Plan file: chains with their rates, hosts with their descriptions (docs/plan.md)
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// What if: change rates; x2 for all chains, CHAIN=x2 or CHAIN=1.5e6 for one
    #[arg(long, value_name = "[CHAIN=]RATE")]
    rate: Vec<String>,
    /// What if: replace the description of a host
    #[arg(long, value_name = "NAME=FILE")]
    host: Vec<String>,
    /// What if: add a host with this description
    #[arg(long, value_name = "NAME=FILE")]
    add_host: Vec<String>,
    /// What if: keep this share of each core free, instead of the file's share
    #[arg(long, value_name = "SHARE")]
    headroom: Option<f64>,
    /// Print JSON (docs/plan.md)
    #[arg(long)]
    json: bool,
}

/// Runs the command; fails when there is no placement.
pub fn main(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let mut file = PlanFile::load(&args.file)?;
    args.host.iter().try_for_each(|word| other_host(&mut file, word))?;
    args.add_host.iter().try_for_each(|word| another_host(&mut file, word))?;
    args.rate.iter().try_for_each(|word| other_rate(&mut file, word))?;
    if let Some(headroom) = args.headroom {
        if !(0.0..1.0).contains(&headroom) {
            bail!("--headroom {headroom}: give a share, as 0.2");
        }
        file.headroom = headroom;
    }
    let answer = Problem::load(&file, &estimate)?.plan();
    let text = match &answer {
        _ if args.json => serde_json::to_string_pretty(&answer)? + "\n",
        Answer::Plan(plan) => text_of(plan),
        Answer::None(most) => refused(&file, most),
    };
    out!("{text}");
    Ok(match answer {
        Answer::Plan(_) => ExitCode::SUCCESS,
        Answer::None(_) => ExitCode::FAILURE,
    })
}

/// The costs of the functions of a configuration or model.
fn estimate(chain: &Chain, hardware: &Hardware) -> Result<Vec<FunctionLoad>, String> {
    if let Some(modelled) = chain.modelled(hardware) {
        return modelled;
    }
    let estimate =
        crate::estimate::of_plan(chain, hardware).map_err(|error| format!("{error:#}"))?;
    if estimate.cycles() == 0.0 {
        return Err(format!(
            "the description of {} has no elementary operations: write it with thruway calibrate",
            hardware.name
        ));
    }
    if let Some(lacks) = crate::estimate::lacks_isolation(&estimate, hardware) {
        errln!("thruway: chain '{}': {lacks}", chain.name);
    }
    Ok(estimate.lines.iter().map(load_of).collect())
}

/// The demand of an estimate's element on a host, its process included.
fn load_of(line: &Line) -> FunctionLoad {
    let reaches = line.station.costs.iter().filter_map(|cost| Some((cost.count, cost.reach?)));
    let (mut working_set, mut lines) = (0.0, 0.0);
    for (count, reach) in reaches {
        working_set += reach.bytes;
        lines += count * reach.lines * line.station.visits;
    }
    let name = line.station.name.clone();
    let cycles = line.cycles() + line.process_cycles();
    FunctionLoad { name, cycles, working_set, lines, memory: working_set }
}

fn name_and_file<'a>(option: &str, word: &'a str) -> anyhow::Result<(&'a str, PathBuf)> {
    match word.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok((name, file.into())),
        _ => bail!("{option} {word}: it is not of the form NAME=FILE"),
    }
}

fn other_host(file: &mut PlanFile, word: &str) -> anyhow::Result<()> {
    let (name, hardware) = name_and_file("--host", word)?;
    let Some(host) = file.hosts.iter_mut().find(|host| host.name == name) else {
        let names = known(file.hosts.iter().map(|host| host.name.as_str()), name);
        bail!("--host {word}: no host '{name}'{names}; --add-host adds one");
    };
    // What the file says of the former host's cores and memory does not hold for this one.
    *host = HostEntry { name: name.into(), hardware, cores: None, memory: None };
    Ok(())
}

fn another_host(file: &mut PlanFile, word: &str) -> anyhow::Result<()> {
    let (name, hardware) = name_and_file("--add-host", word)?;
    if file.hosts.iter().any(|host| host.name == name) {
        bail!("--add-host {word}: there is a host '{name}'; --host replaces its description");
    }
    file.hosts.push(HostEntry { name: name.into(), hardware, cores: None, memory: None });
    Ok(())
}

/// Highest rate taken, in packets a second.
const RATE_MAX: f64 = 1e15;

fn other_rate(file: &mut PlanFile, word: &str) -> anyhow::Result<()> {
    let (chain, rate) = match word.split_once('=') {
        Some((chain, rate)) => (Some(chain), rate),
        None => (None, word),
    };
    let number = |text: &str| text.parse::<f64>().ok().filter(|n| *n > 0.0 && *n <= RATE_MAX);
    let (factor, fixed) = match rate.strip_prefix('x') {
        Some(factor) => (number(factor), None),
        None => (None, number(rate).filter(|_| chain.is_some())),
    };
    if factor.is_none() && fixed.is_none() {
        bail!("--rate {word}: give x2 for all chains, CHAIN=x2 or CHAIN=1.5e6 for one");
    }
    if let Some(name) = chain
        && file.chains.iter().all(|chain| chain.name != name)
    {
        let names = known(file.chains.iter().map(|chain| chain.name.as_str()), name);
        bail!("--rate {word}: no chain '{name}'{names}");
    }
    for one in file.chains.iter_mut().filter(|one| chain.is_none_or(|name| name == one.name)) {
        let rate = fixed.unwrap_or(one.rate * factor.unwrap_or(1.0));
        one.rate = number(&rate.to_string())
            .ok_or_else(|| anyhow!("--rate {word}: {rate} packets/s for '{}'", one.name))?;
    }
    Ok(())
}

fn known<'a>(names: impl Iterator<Item = &'a str> + Clone, wanted: &str) -> String {
    match nearest(wanted, names.clone()) {
        Some(meant) => format!("; did you mean {meant}?"),
        None => format!("; there are {}", names.collect::<Vec<_>>().join(", ")),
    }
}

/// The plan for people.
fn text_of(plan: &Plan) -> String {
    let proved = if plan.proved { "optimal" } else { "best found" };
    format!(
        "{}, {}, {} headroom on the busiest core; {proved}\n\nCores\n\n{}\nHosts\n\n{}\nChains\n\n{}\n\
         When all rates rise together, {}\n",
        count(plan.hosts_used, "host"),
        count(plan.cores_used, "core"),
        percent(plan.headroom),
        cores(plan).render(),
        hosts(plan).render(),
        chains(plan).render(),
        match &plan.first_break {
            Some(first) => format!("the first to end, at {}, is {}.", times(first), limit(first)),
            None => "nothing ends.".into(),
        },
    )
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn times(first: &Break) -> String {
    format!("{:.3} times the rate", first.factor)
}

fn limit(first: &Break) -> String {
    match &first.limit {
        Limit::Core { host, core } => format!("core {core} of {host}"),
        Limit::Memory { host } => format!("the memory of {host}"),
        Limit::Link { host, link } => format!("port {link} of {host}"),
        Limit::Latency { chain } => format!("the latency bound of {chain}"),
    }
}

fn cores(plan: &Plan) -> Table {
    let mut table = Table::new(&[
        "host",
        "core",
        "socket",
        "load",
        "free",
        "chain",
        "replica",
        "packets/s",
        "cycles",
        "functions",
    ]);
    for host in &plan.hosts {
        for core in &host.cores {
            let mut place = vec![
                host.name.clone(),
                core.core.to_string(),
                core.socket.to_string(),
                percent(core.load),
                percent(core.headroom),
            ];
            for task in &core.tasks {
                let process = if task.isolated { " (own process)" } else { "" };
                place.extend([
                    task.chain.clone(),
                    task.replica.to_string(),
                    thousands(task.packets_per_second as u64),
                    format!("{:.1}", task.cycles_per_packet),
                    task.functions.join(" ") + process,
                ]);
                table.row(std::mem::replace(&mut place, vec![String::new(); 5]));
            }
        }
    }
    table
}

fn hosts(plan: &Plan) -> Table {
    let mut table =
        Table::new(&["host", "description", "cores", "memory", "working set per socket", "ports"]);
    for host in &plan.hosts {
        let sockets = host.sockets.iter().map(|socket| {
            format!("{} of {}", bytes(socket.working_set_bytes), bytes(socket.cache_bytes))
        });
        let links = host.links.iter().map(|link| format!("{} {}", link.name, percent(link.load)));
        table.row(vec![
            host.name.clone(),
            host.hardware.clone(),
            format!("{} of {}", host.cores.len(), host.cores_available),
            format!("{} of {}", bytes(host.memory_bytes), bytes(host.memory_available_bytes)),
            sockets.collect::<Vec<_>>().join(", "),
            links.collect::<Vec<_>>().join(", "),
        ]);
    }
    table
}

fn bytes(count: f64) -> String {
    match count {
        _ if count >= 1e9 => format!("{:.1} GB", count / 1e9),
        _ if count >= 1e6 => format!("{:.1} MB", count / 1e6),
        _ if count >= 1e3 => format!("{:.1} kB", count / 1e3),
        _ => format!("{count:.0} B"),
    }
}

fn chains(plan: &Plan) -> Table {
    let mut table = Table::new(&[
        "chain",
        "host",
        "packets/s",
        "replicas",
        "stages",
        "cycles",
        "latency us",
        "bound us",
        "limit if only this chain grows",
    ]);
    for chain in &plan.chains {
        let bound = chain.latency_bound_us;
        table.row(vec![
            chain.name.clone(),
            chain.host.clone(),
            thousands(chain.packets_per_second as u64),
            chain.replicas.to_string(),
            chain.stages.to_string(),
            format!("{:.1}", chain.cycles_per_packet),
            format!("{:.2}", chain.latency_us),
            bound.map_or("-".into(), |bound| format!("{bound:.2}")),
            match &chain.first_break {
                Some(first) => format!("{}: {}", times(first), limit(first)),
                None => "-".into(),
            },
        ]);
    }
    table
}

/// Why there is no plan, and what could be served.
fn refused(file: &PlanFile, most: &Most) -> String {
    let about = most.reason.about();
    let whom = match most.chains.as_slice() {
        [] => String::new(),
        chains => format!(" {}", chains.join(", ")),
    };
    let limits = format!("What limits{whom}: {about}.\n");
    if most.factor <= 0.0 {
        return format!("No placement serves any part of these rates.\n{limits}");
    }
    let found = if most.proved { "is" } else { "that was found is" };
    let mut table = Table::new(&["chain", "wanted packets/s", "served packets/s"]);
    for chain in &file.chains {
        let served = thousands((chain.rate * most.factor) as u64);
        table.row(vec![chain.name.clone(), thousands(chain.rate as u64), served]);
    }
    format!(
        "No placement serves these rates. The most {found} {:.3} of them:\n\n{}\n{limits}",
        most.factor,
        table.render()
    )
}
