//! `agent`: the agent of a host.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use thruway_manager::ChainName;
use thruway_manager::api::default_path;
use thruway_manager::client::Client;
use thruway_model::Hardware;
use thruway_operator::agent::{AgentConfig, run};

use crate::cluster::{self, ClusterArgs};
use crate::log::logger;

/// Arguments of `agent`.
#[derive(Args)]
pub struct AgentArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Name of this host's ChainHost
    #[arg(long, value_name = "NAME")]
    host: String,
    /// Unix socket of the manager [default: manager/api.sock in the run directory]
    #[arg(long, value_name = "FILE")]
    manager_socket: Option<PathBuf>,
    /// Description of this host's hardware, as `thruway calibrate` writes it, for chains with a
    /// demand
    #[arg(long, value_name = "FILE")]
    hardware: Option<PathBuf>,
}

/// Runs the agent until it is asked to end; the chains run on.
pub fn main(args: AgentArgs) -> anyhow::Result<()> {
    ChainName::new(&args.host).context("--host")?;
    let hardware = args.hardware.map(|path| {
        let hardware = Hardware::load(&path).context("--hardware")?;
        anyhow::Ok(hardware.to_toml())
    });
    let socket = args.manager_socket;
    let socket = socket.unwrap_or_else(|| default_path(&thruway_port::run_directory::path()));
    let config = AgentConfig {
        host: args.host,
        manager: Client::new(&socket),
        hardware: hardware.transpose()?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        lease: Duration::from_secs(args.cluster.lease_seconds),
    };
    cluster::run(&args.cluster, |client, ending| run(client, config, ending, logger()))
}
