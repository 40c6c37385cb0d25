//! `thruway offload`: a switch, the kernel or a network card in front classifies for a chain.

mod args;
mod classifier_rules;
mod installation;
mod show;
mod show_drops;
mod show_flow;

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueEnum};
use thruway_flow::drop_table::{DropTable, TESTS_MAX};
use thruway_flow::hardware_rules::{HardwareTable, RULES_MAX};
use thruway_offload::Protocol;
use thruway_offload::ovs::Port;

use crate::reach::reach;
use args::{ApplyArgs, PortArgs, RulesArgs};
use classifier_rules::ClassifierRules;
use show_drops::Tables;

/// Arguments of `thruway offload`.
#[derive(Args)]
pub struct OffloadArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the rules for a switch (the kernel, a card), and the packets that the host classifies
    Plan(PlanArgs),
    /// Install the rules of a running instance in Open vSwitch, and update them until it ends
    Apply(ApplyArgs),
    /// Remove the rules of a port from Open vSwitch
    Remove(RemoveArgs),
    /// Compare the rules in Open vSwitch with those of a configuration
    Verify(VerifyArgs),
}

#[derive(Args)]
struct PlanArgs {
    #[command(flatten)]
    rules: RulesArgs,
    /// Protocol of the switch
    #[arg(long, value_name = "PROTOCOL", default_value = "openvswitch")]
    protocol: ProtocolArg,
    /// Print each rule, in the notation of ovs-ofctl, from port FROM to port TO
    #[arg(long = "rules")]
    print_rules: bool,
    /// Print the drops of the XDP program of FromDevice(..., OFFLOAD XDP)
    #[arg(long, conflicts_with_all = ["protocol", "print_rules"])]
    xdp: bool,
    /// Print the rules for the card of FromDPDKDevice(..., OFFLOAD FLOW); with --rules each, in the
    /// notation of dpdk-testpmd
    #[arg(long, conflicts_with_all = ["protocol", "xdp"])]
    flow: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct RemoveArgs {
    /// Bridge of Open vSwitch: a name, or the path of its management socket
    #[arg(long, value_name = "BRIDGE")]
    bridge: String,
    /// Ingress port of the bridge
    #[arg(long, value_name = "PORT")]
    from: String,
    /// Address of the ControlSocket of a running chain, which then stops trusting tags
    #[arg(long, value_name = "ADDRESS", requires = "element")]
    control: Option<String>,
    /// Its FlowClassifier
    #[arg(long, value_name = "NAME", requires = "control")]
    element: Option<String>,
}

#[derive(Args)]
struct VerifyArgs {
    #[command(flatten)]
    rules: RulesArgs,
    #[command(flatten)]
    port: PortArgs,
}

/// Protocol of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProtocolArg {
    /// OpenFlow 1.5 with the fields of Open vSwitch
    Openvswitch,
    /// OpenFlow 1.5
    Openflow15,
    /// OpenFlow 1.3
    Openflow13,
}

impl ProtocolArg {
    fn protocol(self) -> Protocol {
        match self {
            ProtocolArg::Openvswitch => Protocol::OpenVSwitch,
            ProtocolArg::Openflow15 => Protocol::OpenFlow15,
            ProtocolArg::Openflow13 => Protocol::OpenFlow13,
        }
    }
}

/// Runs the command.
pub fn main(args: &OffloadArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Plan(args) => plan(args),
        Command::Apply(args) => installation::apply(args),
        Command::Remove(args) => remove(args),
        Command::Verify(args) => verify(args),
    }
}

fn remove(args: &RemoveArgs) -> anyhow::Result<ExitCode> {
    // Where packets went to does not matter any more.
    let port = Port::new(&args.bridge, &args.from, &args.from)?;
    if let (Some(control), Some(element)) = (&args.control, &args.element) {
        reach(control)?.write(&format!("{element}.tags"), "none")?;
    }
    port.remove()?;
    Ok(ExitCode::SUCCESS)
}

fn plan(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let compiled = ClassifierRules::of(&args.rules, args.protocol.protocol())?;
    if args.xdp {
        // `compiled` has a classifier's place.
        let of = |table: Option<DropTable>| table.context("no classifier");
        let (plan, entry) = (&compiled.plan, compiled.entry);
        let tables = Tables {
            drops: of(DropTable::of(plan, entry, TESTS_MAX))?,
            classes: of(DropTable::with_classes(plan, entry, TESTS_MAX))?,
        };
        match args.json {
            true => outln!("{:#}", show_drops::json(&compiled, &tables)),
            false => out!("{}", show_drops::text(&compiled, &tables)),
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.flow {
        let table = HardwareTable::of(&compiled.plan, compiled.entry, RULES_MAX);
        let table = table.context("no classifier")?;
        match args.json {
            true => outln!("{:#}", show_flow::json(&compiled, &table)),
            false => out!("{}", show_flow::text(&compiled, &table, args.print_rules)),
        }
        return Ok(ExitCode::SUCCESS);
    }
    match (args.json, args.print_rules) {
        (true, _) => outln!("{:#}", show::json(&compiled)),
        (false, print_rules) => out!("{}", show::text(&compiled, print_rules)?),
    }
    Ok(ExitCode::SUCCESS)
}

fn verify(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let ClassifierRules { name, table, .. } =
        ClassifierRules::of(&args.rules, Protocol::OpenVSwitch)?;
    let differences = args.port.port()?.differences(&table)?;
    if let Some(first) = differences.first() {
        bail!(
            "{}: {} rules are not those of '{name}' (the first: {first}); run 'thruway offload \
             apply'",
            args.port.bridge,
            differences.len()
        );
    }
    outln!("{}: the {} rules of '{name}'", args.port.bridge, table.rules.len());
    Ok(ExitCode::SUCCESS)
}
