//! `thruway ctl`: reads and writes handlers of a running instance, through its ControlSocket.

use std::process::ExitCode;
use thruway_element::Entry;
use thruway_elements::CATALOG;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use thruway_client::{Client, shown};

use crate::flow_line;
use crate::reach::{Instance, address, instances, is_address, listing, reach};

/// Arguments of `thruway ctl`.
#[derive(Args)]
pub struct CtlArgs {
    /// Address of a ControlSocket (HOST:PORT, PORT or PATH); optional if this user runs exactly one
    /// instance. A handler name alone reads that handler
    #[arg(value_name = "ADDRESS")]
    address: Option<String>,
    /// Print JSON: the list of instances, an answer as a string, or a session a line
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Read a handler: ELEMENT.HANDLER [PARAMETER...]
    Read {
        /// The handler and its parameter
        #[arg(required = true)]
        call: Vec<String>,
    },
    /// Write a handler: ELEMENT.HANDLER [VALUE...]
    Write {
        /// The handler
        handler: String,
        /// The value
        value: Vec<String>,
    },
    /// List sessions as conntrack -L does: protocol, state, seconds left, endpoints, translated
    /// endpoints
    Flows {
        /// Filter: `proto tcp src 10.0.0.0/8 dst .. sport .. dport 80 state
        /// new|open|closing|closed`
        filter: Vec<String>,
        /// FlowClassifier to query [default: the first; all share one table]
        #[arg(long, value_name = "NAME")]
        element: Option<String>,
        /// Print only the number of sessions
        #[arg(long, alias = "count")]
        total: bool,
        /// Maximum number of sessions to list
        #[arg(long, value_name = "SESSIONS")]
        limit: Option<u64>,
    },
    /// A handler and its parameter, to be read
    #[command(external_subcommand)]
    Bare(Vec<String>),
}

/// The first FlowClassifier of the configuration.
fn classifier(client: &mut Client) -> anyhow::Result<String> {
    let list = client.read("list")?;
    for name in list.lines().skip(1) {
        let class = client.read(&format!("{name}.class"))?;
        if CATALOG.entry(class.trim()).is_some_and(Entry::begins_classification) {
            return Ok(name.to_owned());
        }
    }
    bail!("the configuration has no FlowClassifier, and so no sessions")
}

/// Pages through all sessions, and hands each line to `show` until it says no.
fn pages(
    client: &mut Client,
    element: &str,
    filter: &str,
    mut show: impl FnMut(&str) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let mut from = Some((0, 0));
    while let Some((level, index)) = from.take() {
        let page = client.read(&format!("{element}.flows {level}:{index} {filter}"))?;
        for line in page.lines() {
            match line.strip_prefix("next ").and_then(|at| at.split_once(':')) {
                Some((level, index)) => {
                    // Threads end at different records: the first place that one of them names.
                    let at = (level.parse::<u64>()?, index.parse::<u64>()?);
                    from = Some(from.map_or(at, |other| at.min(other)));
                }
                None if !show(line)? => return Ok(()),
                None => {}
            }
        }
    }
    Ok(())
}

fn flows(
    client: &mut Client,
    element: &str,
    filter: &str,
    (count, limit): (bool, Option<u64>),
    json: bool,
) -> anyhow::Result<()> {
    let mut count_shown = 0;
    pages(client, element, filter, |line| {
        if limit.is_some_and(|limit| count_shown >= limit) {
            return Ok(false);
        }
        count_shown += 1;
        match (count, json) {
            (true, _) => {}
            (false, false) => outln!("{}", shown(line)),
            (false, true) => match flow_line::parse(line) {
                Some(session) => outln!("{session}"),
                None => bail!("'{}' is no session as this program knows them", shown(line)),
            },
        }
        Ok(true)
    })?;
    if count {
        outln!("{count_shown}");
    }
    Ok(())
}

/// Lists the instances that can be asked.
fn list(json: bool) {
    if json {
        let instances = instances().into_iter().map(|Instance { pid, path, command }| {
            json!({ "address": path, "pid": pid, "command": command })
        });
        return outln!("{:#}", instances.collect::<Value>());
    }
    match &listing()[..] {
        [] => outln!("nothing runs here that this user can ask"),
        lines => outln!("{}", lines.join("\n")),
    }
}

/// Runs `thruway ctl`.
pub fn main(args: &CtlArgs) -> anyhow::Result<ExitCode> {
    let bare;
    let (given, command) = match (&args.address, &args.command) {
        (None, None) => {
            list(args.json);
            return Ok(ExitCode::SUCCESS);
        }
        // A handler's name alone.
        (Some(word), None) if !is_address(word) => {
            bare = Command::Bare(vec![word.clone()]);
            (None, &bare)
        }
        (Some(word), None) => {
            bare = Command::Bare(vec!["list".to_owned()]);
            (Some(word), &bare)
        }
        (Some(word), Some(Command::Bare(words))) if !is_address(word) => {
            bare = Command::Bare([std::slice::from_ref(word), words].concat());
            (None, &bare)
        }
        (given, Some(command)) => (given.as_ref(), command),
    };
    let mut client = reach(&address(given.map(String::as_str))?)?;
    match command {
        Command::Read { call } | Command::Bare(call) => {
            let answer = client.read(&call.join(" "))?;
            match args.json {
                true => outln!("{}", json!(answer)),
                false => outln!("{}", shown(answer.trim_end())),
            }
        }
        Command::Write { handler, value } => {
            client.write(handler, &value.join(" "))?;
        }
        Command::Flows { filter, element, total, limit } => {
            let element = match element {
                Some(element) => element.clone(),
                None => classifier(&mut client)?,
            };
            flows(&mut client, &element, &filter.join(" "), (*total, *limit), args.json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
