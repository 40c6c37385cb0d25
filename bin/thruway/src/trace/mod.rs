//! `thruway trace`: the path of chosen packets, element by element.

mod args;
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
pub use args::TraceArgs;
use thruway_client::{shown, shown_json};
use thruway_engine::Filter;

use crate::reach;
use crate::signals::end_flag;
use args::Wanted;
use collect::Collected;

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
