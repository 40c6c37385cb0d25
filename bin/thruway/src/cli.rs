//! The command line of `thruway`.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args, CommandFactory as _, Parser, Subcommand};
use thruway_element::nearest;
use thruway_elements::CATALOG;

use crate::config_args::{ConfigArgs, libraries, report};
use crate::load::{Origin, plain};
use crate::log;
use crate::run_args::{CheckArgs, RunArgs};
use crate::shell::ShellCommand;
use crate::{
    bench, calibrate, calibrate_function, check, ctl, doctor, estimate, manager, manual, nf_new,
    offload, plan, reload, run, tools, top, trace, worker,
};

/// Runs chains of network functions written in the Click language.
#[derive(Parser)]
#[command(name = "thruway", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a configuration until its captures end or Ctrl-C, then print a table of its elements
    Run(RunArgs),
    /// Check ports, arguments and threads of a configuration without running it
    Check(CheckArgs),
    /// Draw a configuration as DOT (default) or SVG
    Graph(GraphArgs),
    /// Print the manual of an element, or list all elements
    Elements {
        /// Element class
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a configuration in the standard layout
    Fmt(FmtArgs),
    /// Read and write handlers and list sessions of a running instance
    Ctl(ctl::CtlArgs),
    /// Reload the configuration of a running instance (as SIGHUP does), or replace it
    Reload(reload::ReloadArgs),
    /// Offload the classification of a running instance to Open vSwitch
    Offload(offload::OffloadArgs),
    /// Watch threads, ports, elements, drops, functions and sessions of a running instance
    Top(top::TopArgs),
    /// Trace packets through the elements of a configuration, with the time of each hop
    Trace(trace::TraceArgs),
    /// Place chains on the cores of hosts, and report load and the first bottleneck
    Plan(plan::PlanArgs),
    /// Report what this host supports, what is missing, and how to make it faster
    Doctor(doctor::DoctorArgs),
    /// Estimate the rate of a configuration and its bottleneck before it runs
    Estimate(estimate::EstimateArgs),
    /// Measure the CPU time of a packet on this host in seconds; all other benches: thruway-bench
    Bench(bench::BenchArgs),
    /// Measure caches, memory, cores and elementary operations of this host for estimates
    Calibrate(calibrate::CalibrateArgs),
    /// Create network functions that run as unprivileged processes
    #[command(subcommand)]
    Nf(nf_new::Command),
    /// Run an isolated part of a configuration (started by Isolate only)
    #[command(hide = true)]
    Worker,
    /// Let packets pass as an isolated function (started by `thruway calibrate` only)
    #[command(hide = true)]
    CalibrateFunction,
    /// Run the manager of declared chains (this and the next nine: `thruway-manager --help`)
    Daemon,
    /// Declare the chains of a file or a directory to the manager
    Apply,
    /// List the chains that the manager keeps
    Get,
    /// Show a chain: its specification, observed state and history
    Describe,
    /// Compare two generations of a chain
    Diff,
    /// Delete a chain
    Delete,
    /// Declare an earlier generation of a chain again
    Rollback,
    /// Print events of chains
    Events,
    /// Print the output of a chain's process
    Logs,
    /// Grant and revoke access to the manager over the network
    Token,
    #[command(flatten)]
    Shell(ShellCommand),
    /// Behave as Click's userlevel driver (`thruway click --help`)
    Click,
    /// Print a configuration without compound elements, as click-flatten (`thruway flatten --help`)
    Flatten,
    /// Check by the exit status that elements exist: NAME... (as `click-buildtool provides`)
    Provides,
    /// Print a configuration without dead elements, as click-undead (`thruway undead --help`)
    Undead,
    /// Join configurations at their devices, as click-combine (`thruway combine --help`)
    Combine,
    /// Extract one of the joined configurations, as click-uncombine (`thruway uncombine --help`)
    Uncombine,
    /// Replace patterns of elements, as click-xform (`thruway xform --help`)
    Xform,
}

/// Arguments of `thruway graph`.
#[derive(Args)]
struct GraphArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Draw SVG instead of DOT
    #[arg(long)]
    svg: bool,
}

/// Arguments of `thruway fmt`.
#[derive(Args)]
struct FmtArgs {
    /// Configuration file, `-` for standard input
    file: String,
    /// Write the file instead of printing
    #[arg(short, long)]
    write: bool,
    /// Only check: exit with 1 if the file is not in the standard layout
    #[arg(long)]
    check: bool,
}

/// Runs the command line.
pub fn main(args: Vec<String>) -> ExitCode {
    let command = match Cli::try_parse_from(&args) {
        Ok(cli) => cli.command,
        Err(error) => return refuse(error, &args),
    };
    let result = match command {
        Command::Run(args) => run::main(&args),
        Command::Check(args) => check::main(&args),
        Command::Graph(args) => graph(&args),
        Command::Elements { name, json } => manual::main(name.as_deref(), json),
        Command::Fmt(args) => fmt(&args),
        Command::Ctl(args) => ctl::main(&args),
        Command::Reload(args) => reload::main(&args),
        Command::Offload(args) => offload::main(&args),
        Command::Top(args) => top::main(&args),
        Command::Trace(args) => trace::main(&args),
        Command::Plan(args) => plan::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Worker => Ok(worker::main()),
        Command::CalibrateFunction => Ok(calibrate_function::main()),
        Command::Estimate(args) => estimate::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Calibrate(args) => calibrate::main(&args),
        Command::Nf(command) => nf_new::main(&command),
        // program() takes these words before clap does.
        Command::Daemon
        | Command::Apply
        | Command::Get
        | Command::Describe
        | Command::Diff
        | Command::Delete
        | Command::Rollback
        | Command::Events
        | Command::Logs
        | Command::Token => Ok(manager::main(&[])),
        Command::Shell(command) => command.run(described()),
        Command::Click => Ok(crate::click::main(Vec::new())),
        Command::Flatten => Ok(tools::main("flatten", &[])),
        Command::Provides => Ok(tools::main("provides", &[])),
        Command::Undead => Ok(tools::main("undead", &[])),
        Command::Combine => Ok(tools::main("combine", &[])),
        Command::Uncombine => Ok(tools::main("uncombine", &[])),
        Command::Xform => Ok(tools::main("xform", &[])),
    };
    result.unwrap_or_else(|error| {
        errln!("thruway: {error}");
        ExitCode::FAILURE
    })
}

/// The command line for completions and manual pages: without hidden commands.
fn described() -> clap::Command {
    let program = Cli::command();
    let shown = program.get_subcommands().filter(|one| !one.is_hide_set()).cloned();
    let about = program.get_about().cloned().unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    clap::Command::new("thruway").version(version).about(about).subcommands(shown.map(referred))
}

/// A command, with a reference to its own help if another program parses its arguments.
fn referred(command: clap::Command) -> clap::Command {
    let name = command.get_name();
    if name != "click" && !manager::is_command(name) && !tools::is_tool(name) {
        return command;
    }
    let arguments = Arg::new("arguments").value_name("ARGUMENT").num_args(0..);
    let arguments = arguments.help(format!("See `thruway {name} --help`"));
    command.arg(arguments.allow_hyphen_values(true).trailing_var_arg(true))
}

/// Prints the error of the command line, or the requested help.
fn refuse(mut error: clap::Error, args: &[String]) -> ExitCode {
    // clap suggests the command that shares most letters, which is none for `rnu`.
    if error.kind() == ErrorKind::InvalidSubcommand
        && error.get(ContextKind::SuggestedSubcommand).is_none()
        && let Some(word) = args.get(1)
    {
        let commands = Cli::command();
        let names = commands.get_subcommands().filter(|one| !one.is_hide_set());
        if let Some(meant) = nearest(word, names.map(clap::Command::get_name)) {
            let meant = ContextValue::Strings(vec![meant.to_owned()]);
            error.insert(ContextKind::SuggestedSubcommand, meant);
        }
    }
    let code = u8::try_from(error.exit_code()).unwrap_or(2);
    let is_coloured = |stream: &dyn IsTerminal| stream.is_terminal() && !log::no_colour();
    let text = error.render();
    match error.use_stderr() {
        true if is_coloured(&std::io::stderr()) => err!("{}", text.ansi()),
        true => err!("{text}"),
        false if is_coloured(&std::io::stdout()) => out!("{}", text.ansi()),
        false => out!("{text}"),
    }
    ExitCode::from(code)
}

fn graph(args: &GraphArgs) -> anyhow::Result<ExitCode> {
    let (source, variables) = args.config.read()?;
    match thruway_lang::load(source, &CATALOG, &variables, &libraries()) {
        Ok(loaded) => {
            report(&loaded.warnings);
            let draw = if args.svg { thruway_lang::svg } else { thruway_lang::dot };
            out!("{}", draw(&loaded.graph, &loaded.checked));
            Ok(ExitCode::SUCCESS)
        }
        Err(diagnostics) => {
            report(&diagnostics);
            Ok(ExitCode::FAILURE)
        }
    }
}

fn fmt(args: &FmtArgs) -> anyhow::Result<ExitCode> {
    let source = Origin::File(args.file.clone()).read()?;
    let text = match thruway_lang::format(&source) {
        Ok(text) => text,
        Err(diagnostics) => {
            report(&diagnostics);
            return Ok(ExitCode::FAILURE);
        }
    };
    if args.check {
        let same = text == source.text;
        if !same {
            errln!("{}: not in the standard layout; run thruway fmt --write", args.file);
        }
        return Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if args.write && args.file != "-" {
        std::fs::write(&args.file, text)
            .map_err(|error| anyhow::anyhow!("{}: {}", args.file, plain(&error)))?;
    } else {
        out!("{text}");
    }
    Ok(ExitCode::SUCCESS)
}
