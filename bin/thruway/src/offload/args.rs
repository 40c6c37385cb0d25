//! Which rules, of which port of which switch.

use clap::Args;
use thruway_offload::ovs::Port;

use crate::config_args::ConfigArgs;

/// Options that select the rules.
#[derive(Args)]
pub(super) struct RulesArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// FlowClassifier to offload [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub element: Option<String>,
    /// Maximum number of rules; the host classifies packets beyond them
    #[arg(long, value_name = "RULES", default_value_t = 16_384)]
    pub rules_max: usize,
}

/// Options that select the port of a switch.
#[derive(Args)]
pub(super) struct PortArgs {
    /// Bridge of Open vSwitch: a name, or the path of its management socket
    #[arg(long, value_name = "BRIDGE")]
    pub bridge: String,
    /// Ingress port of the bridge
    #[arg(long, value_name = "PORT")]
    pub from: String,
    /// Port of the bridge that leads to the chain
    #[arg(long, value_name = "PORT")]
    pub to: String,
}

impl PortArgs {
    pub(super) fn port(&self) -> anyhow::Result<Port> {
        Ok(Port::new(&self.bridge, &self.from, &self.to)?)
    }
}

/// Arguments of `thruway offload apply`.
#[derive(Args)]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    pub rules: RulesArgs,
    #[command(flatten)]
    pub port: PortArgs,
    /// Address of a ControlSocket (HOST:PORT, PORT or PATH); optional if this user runs exactly one
    /// instance
    #[arg(long, value_name = "ADDRESS")]
    pub control: Option<String>,
    /// Leave the rules in the switch and exit
    #[arg(long)]
    pub once: bool,
}
