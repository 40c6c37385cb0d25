//! `thruway trace`: the way of chosen packets, element by element.

mod capture;
mod collect;
mod journey;
mod json;
mod live;
mod rehearse;
mod text;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use thruway_client::{shown, shown_json};
use thruway_engine::Filter;

use crate::reach;
use crate::signals::end_flag;
use collect::Collected;

/// Arguments of `thruway trace`.
#[derive(Args)]
pub struct TraceArgs {
    /// For a running instance: ADDRESS FILTER (FILTER alone if exactly one instance of this user
    /// runs). With --run or -e: FILTER NAME=VALUE... FILTER is written as for FlowDispatcher:
    /// 'tcp dst port 80', 'src net 10.0.0.0/8', 'arp', '12/0800', '-'
    #[arg(value_name = "ADDRESS FILTER | FILTER NAME=VALUE", required = true)]
    words: Vec<String>,
    /// Run this configuration and trace packets in it
    #[arg(long, value_name = "FILE")]
    run: Option<String>,
    /// Run this configuration text and trace packets in it
    #[arg(short = 'e', long, value_name = "TEXT", conflicts_with = "run")]
    expression: Option<String>,
    /// Number of packets to trace
    #[arg(long, value_name = "PACKETS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    count: u64,
    /// Select packets at this element [default: where they enter]
    #[arg(long, value_name = "ELEMENT")]
    at: Option<String>,
    /// Stop after this many seconds [default: when all traced packets have left]
    #[arg(long, value_name = "SECONDS", alias = "seconds")]
    duration: Option<f64>,
    /// Also write a pcapng capture with one commented frame per hop; `-` is standard output,
    /// without text
    #[arg(long, value_name = "FILE")]
    pcapng: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Threads of the configuration given by --run or -e
    #[arg(short = 'j', long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Default batch size of its sources, in packets
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    burst: u16,
}

/// What is to be traced.
struct Wanted<'a> {
    filter: &'a str,
    count: u64,
    at: Option<&'a str>,
    limit: Option<Duration>,
}

impl Wanted<'_> {
    /// What starts it, under a name.
    fn start(&self, name: &str) -> String {
        let at = self.at.unwrap_or("-");
        format!("start {name} {} {at} {}", self.count, self.filter)
    }
}

/// A name that no other trace has.
fn name() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{}-{}", std::process::id(), now.map_or(0, |now| now.as_nanos()))
}

/// Runs the command.
pub fn main(args: &TraceArgs) -> anyhow::Result<ExitCode> {
    let limit = match args.duration {
        Some(seconds) if seconds > 0.0 && seconds < 1e9 => Some(Duration::from_secs_f64(seconds)),
        Some(seconds) => bail!("--duration {seconds}: must be above 0"),
        None => None,
    };
    let here = args.run.is_some() || args.expression.is_some();
    let only = match (args.words.len(), here) {
        (1, false) => reach::address(None)?,
        _ => String::new(),
    };
    let (address, filter, variables) = match (&args.words[..], here) {
        ([filter, variables @ ..], true) => ("", filter, variables),
        ([filter], false) => (&only[..], filter, &[][..]),
        ([address, filter], false) => (&address[..], filter, &[][..]),
        _ => bail!(
            "give ADDRESS FILTER, where ADDRESS is that of a ControlSocket and FILTER one word (in \
             quotes), such as 'udp dst port 53'; or --run FILE FILTER"
        ),
    };
    if args.json && args.pcapng.as_deref() == Some("-") {
        bail!("--json and --pcapng - would both write to standard output: give a file");
    }
    if filter.contains(['\n', '\r']) || args.at.iter().any(|at| at.contains(char::is_whitespace)) {
        bail!("a filter is one line, and the name of an element one word");
    }
    Filter::parse(filter).map_err(anyhow::Error::msg)?;
    let wanted = Wanted { filter, count: args.count, at: args.at.as_deref(), limit };
    let mut collected = Collected::default();
    let ended = if here {
        let Some(ended) = rehearse::run(args, variables, &wanted, &mut collected)? else {
            return Ok(ExitCode::FAILURE);
        };
        ended
    } else {
        let over = end_flag()?;
        live::follow(address, &wanted, &over, &mut collected)?
    };
    let paths = journey::paths(&collected.records);
    let clock = collected.clock();
    if args.json {
        let json = json::value(&paths, &clock, &collected.counts).to_string();
        outln!("{}", shown_json(&json));
    } else if args.pcapng.as_deref() != Some("-") {
        out!("{}", shown(&text::text(&paths, &clock)));
    }
    if let Some(path) = &args.pcapng {
        capture::write(path, &paths, &clock)?;
    }
    collected.notes(filter).iter().for_each(|note| errln!("thruway trace: {}", shown(note)));
    match ended {
        None => Ok(ExitCode::SUCCESS),
        Some(why) => {
            errln!("thruway trace: {}", shown(&why));
            Ok(ExitCode::FAILURE)
        }
    }
}
