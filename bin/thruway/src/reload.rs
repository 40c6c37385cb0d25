//! `thruway reload`: another configuration takes over while packets flow.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;

use crate::load::Origin;
use crate::reach::{address, reach};
use crate::run_args::thread_count;

/// Arguments of `thruway reload`.
#[derive(Args)]
pub struct ReloadArgs {
    /// Address of a ControlSocket (HOST:PORT, PORT or PATH); optional if this user runs exactly one
    /// instance
    #[arg(long, value_name = "ADDRESS")]
    control: Option<String>,
    /// Another configuration file, or `-` for standard input (requires `run -R`) [default: the file
    /// given to `run`]
    #[arg(value_name = "FILE")]
    file: Option<String>,
    /// Cores that the threads move to, one each, in order: 2-5,8
    #[arg(long, value_name = "LIST", conflicts_with = "file")]
    cores: Option<String>,
    /// Number of threads from now on
    #[arg(short = 'j', long, value_name = "N", conflicts_with = "file", value_parser = thread_count())]
    threads: Option<u16>,
}

/// Runs the command. A configuration that does not check changes nothing and is an error.
pub fn main(args: &ReloadArgs) -> anyhow::Result<ExitCode> {
    let mut client = reach(&address(args.control.as_deref())?)?;
    let hint = match &args.file {
        None => "`run` must have been given a configuration file for this",
        Some(_) => "`run -R` allows other configurations",
    };
    let taken = match &args.file {
        None => client.write("reload", &moving(args)),
        Some(file) => client.write("hotconfig", &Origin::File(file.clone()).read()?.text),
    };
    taken.map_err(|error| match error.to_string() {
        // There is no such handler.
        why if why.starts_with("No handler") => anyhow!("{why}; {hint}"),
        why => anyhow!("nothing changed: {why}"),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What is written to the handler `reload`.
fn moving(args: &ReloadArgs) -> String {
    let threads = args.threads.map(|threads| format!("THREADS {threads}"));
    let cores = args.cores.as_ref().map(|cores| format!("CORES {cores}"));
    let words: Vec<String> = threads.into_iter().chain(cores).collect();
    words.join(" ")
}
