//! The command line of `thruway`.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args, CommandFactory as _, Parser, Subcommand};
use thruway_element::nearest;
use thruway_elements::CATALOG;
use thruway_engine::{ClockKind, Idle, Placement, named_cores};

use crate::config_args::{ConfigArgs, libraries, report};
use crate::load::{Origin, plain};
use crate::log::{self, LogArgs};
use crate::shell::ShellCommand;
use crate::{
    bench, calibrate, check, ctl, doctor, estimate, manager, manual, nf_new, offload, plan, reload,
    run, tools, top, trace, worker,
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
    /// Have Open vSwitch classify for a running instance
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
    /// Run the manager, which keeps declared chains (these ten: `thruway-manager --help`)
    Daemon,
    /// Declare the chains of a file or a directory to the manager
    Apply,
    /// List the chains that the manager keeps
    Get,
    /// Show a chain: what is asked for, what is observed, its history
    Describe,
    /// Compare two generations of a chain
    Diff,
    /// Take a chain back
    Delete,
    /// Declare an earlier generation of a chain again
    Rollback,
    /// Print what happened to chains
    Events,
    /// Print what a chain's process wrote
    Logs,
    /// Give and revoke access to the manager over the network
    Token,
    #[command(flatten)]
    Shell(ShellCommand),
    /// Behave as Click's userlevel driver (`thruway click --help`)
    Click,
    /// Print a configuration without compound elements, as click-flatten (`thruway flatten --help`)
    Flatten,
    /// Tell by the exit status whether elements are there: NAME... (as `click-buildtool provides`)
    Provides,
    /// Print a configuration without dead elements, as click-undead (`thruway undead --help`)
    Undead,
    /// Join configurations where devices stand, as click-combine (`thruway combine --help`)
    Combine,
    /// Take out one of those that were joined, as click-uncombine (`thruway uncombine --help`)
    Uncombine,
    /// Replace patterns of elements, as click-xform (`thruway xform --help`)
    Xform,
}

/// A clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ClockArg {
    /// The processor's cycle counter, corrected by the system clock every second; the system clock
    /// where the counter is unreliable
    Tsc,
    /// The system clock
    System,
}

impl ClockArg {
    /// As the engine takes it.
    pub fn kind(self) -> ClockKind {
        match self {
            ClockArg::Tsc => ClockKind::Tsc,
            ClockArg::System => ClockKind::System,
        }
    }
}

/// How threads share the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PlacementArg {
    /// Every thread serves every interface that has enough queues
    Balanced,
    /// The threads are divided among the interfaces
    Dedicated,
    /// As balanced, but a Pipeliner passes packets on in the thread that received them
    Parallel,
    /// Each input in one thread, each Pipeliner in another
    Pipeline,
}

impl PlacementArg {
    /// As the engine takes it.
    pub fn placement(self) -> Placement {
        match self {
            PlacementArg::Balanced => Placement::Balanced,
            PlacementArg::Dedicated => Placement::Dedicated,
            PlacementArg::Parallel => Placement::Parallel,
            PlacementArg::Pipeline => Placement::Pipeline,
        }
    }
}

/// Behaviour of idle threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum IdleArg {
    /// Poll without pause: shortest delay, one busy core per thread
    Poll,
    /// Poll while packets tend to arrive soon, at most 20 us, then sleep
    Adaptive,
    /// Sleep at once
    Sleep,
}

impl IdleArg {
    /// As the engine takes it.
    pub fn idle(self) -> Idle {
        match self {
            IdleArg::Poll => Idle::Poll,
            IdleArg::Adaptive => Idle::Adaptive,
            IdleArg::Sleep => Idle::Sleep,
        }
    }
}

/// Arguments of `thruway run`.
#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// File with a JSON object of variables; a reload reads it again
    #[arg(long, value_name = "FILE")]
    pub variables_file: Option<std::path::PathBuf>,
    /// Begin a session of its own, without the terminal (given by the manager)
    #[arg(long, hide = true)]
    pub own_session: bool,
    /// Threads [default: as many as --cores names, else 1]
    #[arg(short = 'j', long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// Cores of the threads, one each, in order: 2-5,8
    #[arg(long, value_name = "LIST")]
    pub cores: Option<String>,
    /// How threads share the work
    #[arg(long, value_enum, default_value_t = PlacementArg::Balanced)]
    pub placement: PlacementArg,
    /// Default batch size of sources, in packets
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub burst: u16,
    /// Clock of the packet path
    #[arg(long, value_enum, default_value_t = ClockArg::Tsc)]
    pub clock: ClockArg,
    /// Keep packets in huge pages: fewer TLB misses, and zero-copy AF_XDP where supported
    #[arg(long)]
    pub huge_pages: bool,
    /// Behaviour of idle threads
    #[arg(long, value_enum, default_value_t = IdleArg::Adaptive)]
    pub idle: IdleArg,
    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub duration: Option<f64>,
    /// Allow the handler `hotconfig` to replace the configuration while packets flow (`thruway ctl
    /// write hotconfig TEXT`); the final table covers the last configuration
    #[arg(short = 'R', long)]
    pub allow_reconfigure: bool,
    /// Unix socket for `thruway ctl`, `top` and `trace`, or `none` [default: a socket in the run
    /// directory, which these commands find]
    #[arg(long, value_name = "PATH")]
    pub control: Option<String>,
    /// Directory in which handlers called over that socket may read and write files
    #[arg(long, value_name = "DIR")]
    pub files: Option<std::path::PathBuf>,
    /// Suppress progress and tables
    #[arg(short, long)]
    pub quiet: bool,
    /// Print JSON instead of tables at the end
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub log: LogArgs,
}

impl RunArgs {
    /// Number of threads, and the cores that --cores names.
    pub fn threads_and_cores(&self) -> anyhow::Result<(usize, Vec<usize>)> {
        let Some(text) = &self.cores else {
            return Ok((self.threads.map_or(1, usize::from), Vec::new()));
        };
        let cores = named_cores(text).map_err(|why| anyhow::anyhow!("--cores: {why}"))?;
        let threads = self.threads.map_or(cores.len(), usize::from);
        if threads > cores.len() {
            anyhow::bail!(
                "--cores names {} for {threads} threads: name more, or lower -j",
                cores.len()
            );
        }
        Ok((threads, cores))
    }
}

/// Arguments of `thruway check`.
#[derive(Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Print JSON: ports and threads of each element, and what else is asked for; errors stay on
    /// standard error
    #[arg(long)]
    pub json: bool,
    /// Also print how packets are classified and where session state is laid out
    #[arg(long)]
    pub explain: bool,
    /// Also print the paths by which threads reach each element
    #[arg(long, alias = "ways")]
    pub paths: bool,
    /// Number of threads to check the configuration for
    #[arg(short = 'j', long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// How threads share the work
    #[arg(long, value_enum, default_value_t = PlacementArg::Balanced)]
    pub placement: PlacementArg,
}

/// Arguments of `thruway graph`.
#[derive(Args)]
struct GraphArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// SVG instead of DOT
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

/// The command line as it is described to others: without commands that nobody is to give.
fn described() -> clap::Command {
    let program = Cli::command();
    let shown = program.get_subcommands().filter(|one| !one.is_hide_set()).cloned();
    let about = program.get_about().cloned().unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    clap::Command::new("thruway").version(version).about(about).subcommands(shown.map(referred))
}

/// A command that says where its arguments are listed, if that is elsewhere.
fn referred(command: clap::Command) -> clap::Command {
    let name = command.get_name();
    if name != "click" && !manager::is_command(name) && !tools::is_tool(name) {
        return command;
    }
    let arguments = Arg::new("arguments").value_name("ARGUMENT").num_args(0..);
    let arguments = arguments.help(format!("See `thruway {name} --help`"));
    command.arg(arguments.allow_hyphen_values(true).trailing_var_arg(true))
}

/// Prints what is wrong with the command line, or the help that was asked for.
fn refuse(mut error: clap::Error, args: &[String]) -> ExitCode {
    // clap suggests what shares most letters, which is nothing for `rnu`.
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
