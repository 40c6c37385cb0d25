//! The command line of `thruway`.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use thruway_element::{Catalog as _, nearest};
use thruway_elements::CATALOG;
use thruway_engine::{ClockKind, Idle, Placement, named_cores};
use thruway_lang::{Diagnostics, Source, Variables};

use crate::load::{Libraries, Origin, plain};
use crate::log::{self, LogArgs};
use crate::{
    bench, calibrate, check, ctl, doctor, estimate, manual, nf_new, plan, reload, run, top, trace,
    worker,
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
    /// Run a configuration until its captures end or Ctrl-C, then tell what every element did
    Run(RunArgs),
    /// Check a configuration without running it: ports, arguments, threads
    Check(CheckArgs),
    /// Draw a configuration as DOT (default) or SVG
    Graph(GraphArgs),
    /// Print the manual of an element, or list them all
    Elements {
        /// Element class
        name: Option<String>,
    },
    /// Print a configuration in the standard layout
    Fmt(FmtArgs),
    /// Ask and tell a running Thruway: handlers, and its sessions
    Ctl(ctl::CtlArgs),
    /// Have a running Thruway read its configuration file again (as SIGHUP does), or run another
    Reload(reload::ReloadArgs),
    /// Show what a running Thruway does: threads, ports, elements, drops, functions, sessions
    Top(top::TopArgs),
    /// Follow chosen packets: every element that they passed, what it did, and the time between
    Trace(trace::TraceArgs),
    /// Find where chains run: which functions on which cores of which hosts, how full these get, and
    /// what breaks first
    Plan(plan::PlanArgs),
    /// Tell what this host offers, what is missing, and what to do for more speed
    Doctor(doctor::DoctorArgs),
    /// Tell how fast a function will be, and what limits it, before it runs
    Estimate(estimate::EstimateArgs),
    /// Measure and compare; every row of bench/record comes from here
    Bench(Box<bench::Options>),
    /// Measure this host for estimates: caches, memory, cores, elementary operations
    Calibrate(calibrate::CalibrateArgs),
    /// Write network functions of your own, which run as processes without rights
    #[command(subcommand)]
    Nf(nf_new::Command),
    /// Run a part of a configuration for the thruway that started this process (see Isolate)
    #[command(hide = true)]
    Worker,
    /// Behave as Click's userlevel driver (`thruway click --help`)
    Click,
}

/// A configuration and its variables.
#[derive(Args)]
pub struct ConfigArgs {
    /// Configuration file, `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: Option<String>,
    /// Configuration text instead of a file
    #[arg(short = 'e', long, value_name = "TEXT")]
    pub expression: Option<String>,
    /// Variables of the configuration: NAME=VALUE
    #[arg(value_name = "NAME=VALUE")]
    pub variables: Vec<String>,
}

/// A clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ClockArg {
    /// The processor's cycle counter, corrected by the system's clock every second; where it is not
    /// to be relied upon, the system's clock
    Tsc,
    /// The system's clock
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
    /// Every thread serves every interface, as far as its queues go
    Balanced,
    /// The threads are divided among the interfaces
    Dedicated,
    /// As balanced; a Pipeliner lets packets pass in the thread that they came by
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

/// What to do when there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum IdleArg {
    /// Look again without end: the shortest delay, for a core each
    Poll,
    /// Look again as long as packets tend to come soon, 20 us at most, then sleep
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
    /// Threads [default: as many as --cores names, else 1]
    #[arg(short = 'j', long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// The cores of the threads, one for each, in their order: 2-5,8
    #[arg(long, value_name = "LIST")]
    pub cores: Option<String>,
    /// How threads share the work
    #[arg(long, value_enum, default_value_t = PlacementArg::Balanced)]
    pub placement: PlacementArg,
    /// Packets that sources make or take at once, where the configuration does not say
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub burst: u16,
    /// Where the time on the packet path comes from
    #[arg(long, value_enum, default_value_t = ClockArg::Tsc)]
    pub clock: ClockArg,
    /// Keep packets in huge pages: fewer misses, and AF_XDP may go without a copy where a driver has
    /// that
    #[arg(long)]
    pub huge_pages: bool,
    /// What threads do that have nothing to do
    #[arg(long, value_enum, default_value_t = IdleArg::Adaptive)]
    pub idle: IdleArg,
    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub duration: Option<f64>,
    /// Let the handler `hotconfig` replace the configuration while packets flow (`thruway ctl ADDRESS
    /// write hotconfig TEXT`); the table at the end is the last configuration's
    #[arg(short = 'R', long)]
    pub allow_reconfigure: bool,
    /// Listen for `thruway ctl`, `top` and `trace` on this Unix socket, or `none` [default: a socket
    /// in the run directory, which they find by themselves]
    #[arg(long, value_name = "PATH")]
    pub control: Option<String>,
    /// Let handlers, used over that socket, write and read files in this directory
    #[arg(long, value_name = "DIR")]
    pub files: Option<std::path::PathBuf>,
    /// Neither progress nor table
    #[arg(short, long)]
    pub quiet: bool,
    /// Print JSON instead of tables at the end
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub log: LogArgs,
}

impl RunArgs {
    /// How many threads, and the cores that the user named for them.
    pub fn crew(&self) -> anyhow::Result<(usize, Vec<usize>)> {
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
    /// Print JSON: ports and threads of each element; errors stay on standard error
    #[arg(long, conflicts_with_all = ["explain", "ways"])]
    pub json: bool,
    /// Also print how packets are classified and where functions keep their sessions' state
    #[arg(long)]
    pub explain: bool,
    /// Also print by which ways threads reach each element
    #[arg(long)]
    pub ways: bool,
    /// Threads to lay the configuration out for
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
    /// Only tell (by the exit code) whether the file is in the standard layout
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
        Command::Elements { name } => elements(name.as_deref()),
        Command::Fmt(args) => fmt(&args),
        Command::Ctl(args) => ctl::main(&args),
        Command::Reload(args) => reload::main(&args),
        Command::Top(args) => top::main(&args),
        Command::Trace(args) => trace::main(&args),
        Command::Plan(args) => plan::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Worker => Ok(worker::main()),
        Command::Estimate(args) => estimate::main(&args),
        Command::Bench(options) => Ok(bench::main(&options)),
        Command::Calibrate(args) => calibrate::main(&args),
        Command::Nf(command) => nf_new::main(&command),
        // Reached only when clap and main() disagree on what the first argument is.
        Command::Click => Ok(crate::click::main(Vec::new())),
    };
    result.unwrap_or_else(|error| {
        errln!("thruway: {error}");
        ExitCode::FAILURE
    })
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

impl ConfigArgs {
    /// The configuration file, where there is one that can be read again.
    pub fn named_file(&self) -> Option<&str> {
        let file = self.file.as_deref().filter(|file| *file != "-");
        file.filter(|_| self.expression.is_none())
    }

    /// The text and the variables.
    pub fn read(&self) -> anyhow::Result<(Source, Variables)> {
        let mut words: Vec<&String> = self.variables.iter().collect();
        let origin = match (&self.expression, &self.file) {
            (Some(text), file) => {
                words.extend(file);
                Origin::Expression(text.clone())
            }
            (None, Some(file)) => Origin::File(file.clone()),
            (None, None) => anyhow::bail!("no configuration; name a file, or give -e TEXT"),
        };
        let mut variables = Variables::new();
        for word in words {
            if !variables.assign(word) {
                anyhow::bail!("'{word}' is not of the form NAME=VALUE");
            }
        }
        Ok((origin.read()?, variables.known_only()))
    }
}

/// Prints errors and warnings for people.
pub fn tell(diagnostics: &Diagnostics) {
    err!("{}", diagnostics.render(log::colour()));
}

/// The libraries that `require` finds.
pub fn libraries() -> Libraries {
    Libraries::new(&std::env::var("CLICKPATH").unwrap_or_default())
}

fn graph(args: &GraphArgs) -> anyhow::Result<ExitCode> {
    let (source, variables) = args.config.read()?;
    match thruway_lang::load(source, &CATALOG, &variables, &libraries()) {
        Ok(loaded) => {
            tell(&loaded.warnings);
            let draw = if args.svg { thruway_lang::svg } else { thruway_lang::dot };
            out!("{}", draw(&loaded.graph, &loaded.checked));
            Ok(ExitCode::SUCCESS)
        }
        Err(diagnostics) => {
            tell(&diagnostics);
            Ok(ExitCode::FAILURE)
        }
    }
}

fn elements(name: Option<&str>) -> anyhow::Result<ExitCode> {
    let Some(name) = name else {
        out!("{}", manual::list());
        return Ok(ExitCode::SUCCESS);
    };
    let Some(entry) = CATALOG.entry(name) else {
        let meant = nearest(name, CATALOG.names());
        let meant = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
        anyhow::bail!("no element class '{name}'{meant}");
    };
    out!("{}", manual::page(&entry.spec));
    Ok(ExitCode::SUCCESS)
}

fn fmt(args: &FmtArgs) -> anyhow::Result<ExitCode> {
    let source = Origin::File(args.file.clone()).read()?;
    let text = match thruway_lang::format(&source) {
        Ok(text) => text,
        Err(diagnostics) => {
            tell(&diagnostics);
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
