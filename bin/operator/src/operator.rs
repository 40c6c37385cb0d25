//! `run`: the operator.

use std::time::Duration;

use clap::Args;
use thruway_operator::manifests;
use thruway_operator::operator::{OperatorConfig, run};

use crate::cluster::{self, ClusterArgs};
use crate::log::logger;

/// Arguments of `run`.
#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of the lease by which one of several operators acts
    #[arg(long, default_value = manifests::NAMESPACE)]
    namespace: String,
    /// Name of this operator, which no other has [default: host name and process]
    #[arg(long)]
    name: Option<String>,
}

/// Runs the operator until it is asked to end.
pub fn main(args: RunArgs) -> anyhow::Result<()> {
    let config = OperatorConfig {
        namespace: args.namespace,
        name: args.name.unwrap_or_else(unique),
        lease: Duration::from_secs(args.cluster.lease_seconds),
    };
    cluster::run(&args.cluster, |client, ending| run(client, config, ending, logger()))
}

/// Of processes in containers, several may have one number; hosts of containers have names.
fn unique() -> String {
    let host = rustix::system::uname();
    format!("{}-{}", host.nodename().to_string_lossy(), std::process::id())
}
