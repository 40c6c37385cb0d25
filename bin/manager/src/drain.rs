//! `drain`: takes chains out of service without ending sessions.

use clap::Args;
use thruway_manager::ChainSpec;
use thruway_manager::client::Client;

use crate::chain::Chain;
use crate::change::ChangeArgs;

/// Arguments of `drain`.
#[derive(Args)]
pub struct DrainArgs {
    /// Names of chains
    #[arg(value_name = "CHAIN", required = true)]
    chains: Vec<String>,
    /// Let sessions begin again, and start chains that have drained
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Runs it.
pub async fn drain(client: &Client, args: &DrainArgs) -> anyhow::Result<()> {
    let what = if args.undo { "no longer drains" } else { "drains" };
    for name in &args.chains {
        let chain = Chain::read(client, name).await?;
        let spec = ChainSpec { drain: !args.undo, ..chain.spec.clone() };
        chain.put(client, spec, (what, &args.change)).await?;
    }
    Ok(())
}
