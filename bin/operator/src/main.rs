//! The program `thruway-operator`: the operator of a cluster, the agent of a host, and the
//! manifests that a cluster needs (docs/cluster.md).
#![forbid(unsafe_code)]

mod agent;
mod cluster;
mod operator;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

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
    #[arg(long)]
    definitions: bool,
}

/// How a program reaches the API server.
#[derive(Args)]
struct ClusterArgs {
    /// File that names the API server and this program's identity [default: $KUBECONFIG, else
    /// ~/.kube/config, else that of a pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Seconds that the lease of this program holds without renewal
    #[arg(long, value_name = "SECONDS", default_value_t = 15,
        value_parser = clap::value_parser!(u64).range(2..=600))]
    lease_seconds: u64,
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
            log(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn print(args: &ManifestsArgs) -> anyhow::Result<()> {
    let text = match args.definitions {
        true => manifests::yaml_of(&manifests::definitions())?,
        false => manifests::yaml(&args.namespace)?,
    };
    std::io::stdout().write_all(text.as_bytes()).context("standard output")
}

/// Writes a line for people.
fn log(line: &str) {
    // Where nobody reads there is nobody to report it to.
    let _ = writeln!(std::io::stderr(), "thruway-operator: {line}");
}

/// The same, for the library.
fn logger() -> thruway_operator::Log {
    Arc::new(log)
}
