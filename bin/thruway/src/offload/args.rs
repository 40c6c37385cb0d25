//! Which rules, of which port of which switch.

use clap::{Args, ValueEnum};
use thruway_flow::tags::TagKind;
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
    /// What carries the class of a packet to the chain
    #[arg(long, value_name = "TAG", default_value = "vlan")]
    pub tag: TagArg,
    /// Maximum number of rules; the host classifies packets beyond them
    #[arg(long, value_name = "RULES", default_value_t = 16_384)]
    pub rules_max: usize,
}

/// What carries the class of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TagArg {
    /// A VLAN tag; the chain has INPUT tagged
    Vlan,
    /// An MPLS label; the chain has INPUT tagged, TAG mpls
    Mpls,
    /// An option of Geneve, to a chain on another host, which has TAG_ANNO
    Geneve,
}

impl TagArg {
    pub(super) fn kind(self) -> TagKind {
        match self {
            TagArg::Vlan => TagKind::Vlan,
            TagArg::Mpls => TagKind::Mpls,
            TagArg::Geneve => TagKind::Metadata,
        }
    }
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
