//! What `thruway run` is asked for, and what `thruway check` looks at in its place.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedI64ValueParser;
use thruway_engine::{ClockKind, Idle, Placement, named_cores};

use crate::config_args::ConfigArgs;
use crate::log::LogArgs;

/// Most threads of a run.
pub const THREADS_MAX: u16 = 256;

/// Takes the value of an option that is a number of threads.
pub fn thread_count() -> RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=i64::from(THREADS_MAX))
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
    pub variables_file: Option<PathBuf>,
    /// Begin a session of its own, without the terminal (given by the manager)
    #[arg(long, hide = true)]
    pub own_session: bool,
    /// Threads [default: as many as --cores names, else 1]
    #[arg(short = 'j', long, value_parser = thread_count())]
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
    /// Stop after this many seconds
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
    pub files: Option<PathBuf>,
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
    #[arg(short = 'j', long, default_value_t = 1, value_parser = thread_count())]
    pub threads: u16,
    /// How threads share the work
    #[arg(long, value_enum, default_value_t = PlacementArg::Balanced)]
    pub placement: PlacementArg,
}
