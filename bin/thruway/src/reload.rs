//! `thruway reload`: another configuration takes over while packets flow.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;

use crate::load::Origin;
use crate::reach::reach;

/// Arguments of `thruway reload`.
#[derive(Args)]
pub struct ReloadArgs {
    /// Where a ControlSocket of the running configuration listens: HOST:PORT, PORT, or a file name
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// Another configuration file, `-` for standard input (needs `run -R`) [default: the file that
    /// `run` was given]
    #[arg(value_name = "FILE")]
    file: Option<String>,
}

/// Runs the command. A configuration that does not check changes nothing and is an error.
pub fn main(args: &ReloadArgs) -> anyhow::Result<ExitCode> {
    let mut client = reach(&args.address)?;
    let hint = match &args.file {
        None => "`run` must have been given a configuration file for this",
        Some(_) => "`run -R` allows other configurations",
    };
    let taken = match &args.file {
        None => client.write("reload", ""),
        Some(file) => client.write("hotconfig", &Origin::File(file.clone()).read()?.text),
    };
    taken.map_err(|error| match error.to_string() {
        // There is no such handler.
        why if why.starts_with("No handler") => anyhow!("{why}; {hint}"),
        why => anyhow!("nothing changed: {why}"),
    })?;
    Ok(ExitCode::SUCCESS)
}
