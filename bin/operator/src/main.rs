//! The program `thruway-operator`: the operator of a cluster, the agent of a host, and the
//! manifests that a cluster needs (docs/cluster.md).
#![forbid(unsafe_code)]

mod agent;
mod cluster;
mod log;
mod operator;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use thruway_operator::manifests;

/// Chains on a cluster of hosts, by Kubernetes' API server.
#[derive(Parser)]
#[command(name = "thruway-operator", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Assign chains to hosts, and report what becomes of them
    Run(operator::RunArgs),
    /// Declare at this host's manager what is assigned to this host
    Agent(agent::AgentArgs),
    /// Print what is applied to a cluster: definitions of resources, rights of the operator
    Manifests(ManifestsArgs),
}

/// Arguments of `manifests`.
#[derive(Args)]
struct ManifestsArgs {
    /// Namespace of the operator
    #[arg(long, default_value = manifests::NAMESPACE)]
    namespace: String,
    /// Print the definitions of the resources alone
    #[arg(long, conflicts_with = "image")]
    definitions: bool,
    /// Run the operator in the cluster: print a Deployment of this image, too
    #[arg(long)]
    image: Option<String>,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(args) => operator::main(args),
        Command::Agent(args) => agent::main(args),
        Command::Manifests(args) => print(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::line(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn print(args: &ManifestsArgs) -> anyhow::Result<()> {
    let text = match args.definitions {
        true => manifests::yaml_of(&manifests::definitions())?,
        false => manifests::yaml(&args.namespace, args.image.as_deref())?,
    };
    std::io::stdout().write_all(text.as_bytes()).context("standard output")
}
