//! The command line of `thruway-bench exchange`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use thruway_region::Pages;

use super::cell::{Choices, Span};
use super::duty::Wait;
use super::figures;

/// What the thresholds' time is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Time {
    /// Rounds of the Master's loop (the paper's)
    Rounds,
    /// The time stamp counter
    Tsc,
}

/// Pages under the rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PageKind {
    /// Of 4 KB
    Normal,
    /// Of 2 MB
    Huge,
    /// Of 2 MB where there are enough, else of 4 KB
    Prefer,
}

/// Arguments of `thruway-bench exchange`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = figures::list())]
pub struct Options {
    /// Figures to redo; `all` is every one
    #[arg(long, value_name = "FIGURE,..", value_delimiter = ',')]
    pub figure: Vec<String>,
    /// Measure the ratios that we want to reach, and show each goal; exit 1 if one is missed
    #[arg(long)]
    pub goals: bool,
    /// Measure what the machine itself gives: lines between cores, copies
    #[arg(long)]
    pub bounds: bool,
    /// Length of one measurement, seconds
    #[arg(long = "duration", alias = "seconds", value_name = "S", default_value_t = 1.0)]
    pub seconds: f64,
    /// Measurements of each point; the row is their median
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Write FIGURE.csv and FIGURE.svg to DIR
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Only points with these numbers of Workers
    #[arg(long, value_name = "N,..", value_delimiter = ',')]
    pub workers: Vec<usize>,
    /// Only points with packets of these lengths
    #[arg(long, value_name = "BYTES,..", value_delimiter = ',')]
    pub len: Vec<usize>,
    /// Packets in memory, where a figure has a million
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub memory: u32,
    #[command(flatten)]
    pub choices: ChoiceArgs,
}

impl Options {
    /// How long to measure.
    pub fn span(&self) -> Span {
        Span {
            warm_up: Duration::from_secs_f64((self.seconds / 5.0).max(0.05)),
            time: Duration::from_secs_f64(self.seconds),
            packets: None,
        }
    }
}

/// Implementation choices.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Implementation choices (section 5 of the paper)")]
pub struct ChoiceArgs {
    /// What Workers do when they have no packets; those of the zero-copy baseline always poll
    /// [default: block; with --goals hybrid where each has a core]
    #[arg(long, value_enum)]
    pub wait: Option<Wait>,
    /// Workers are threads, not processes
    #[arg(long)]
    pub threads: bool,
    /// Slots of a ring, a power of two [default: 1024; with many chains 256]
    #[arg(long, value_name = "N")]
    pub slots: Option<u32>,
    /// Packets that the Master makes at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub burst: u32,
    /// With many chains: packets in all of them together, at most
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = clap::value_parser!(u64).range(1..))]
    pub window: u64,
    /// MASTER_PKT_THRESHOLD: a sleeping Worker is woken when more than N packets wait
    #[arg(long, value_name = "N")]
    pub master_threshold: Option<u32>,
    /// WORKER_PKT_THRESHOLD: a Worker publishes after N packets
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    pub worker_threshold: u32,
    /// TS_THRESHOLD: or when the oldest waits for so many rounds (or ticks)
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub age: u64,
    /// How long a hybrid Worker looks again before it sleeps, microseconds
    #[arg(long, value_name = "US", default_value_t = 50)]
    pub spin: u32,
    /// Time of the age threshold
    #[arg(long, value_enum, default_value_t = Time::Rounds)]
    pub time: Time,
    /// Publish each packet, not each batch
    #[arg(long)]
    pub publish_each: bool,
    /// Read the peer's index for each packet, not a private copy of it
    #[arg(long)]
    pub shared_indices: bool,
    /// Shared indices side by side, not each on lines of its own
    #[arg(long)]
    pub packed_indices: bool,
    /// Slots do not begin on lines
    #[arg(long)]
    pub unaligned_slots: bool,
    /// Pages under the rings
    #[arg(long, value_enum, default_value_t = PageKind::Prefer)]
    pub pages: PageKind,
}

/// Slots of a ring of one chain, and of a ring of many chains: a thousand Workers' regions must fit
/// in memory.
const SLOTS: [u32; 2] = [1024, 256];

impl ChoiceArgs {
    /// The choices for one chain, or for many.
    pub fn choices(&self, is_many: bool) -> Choices {
        let slots = self.slots.unwrap_or(SLOTS[usize::from(is_many)]);
        Choices {
            wait: self.wait.unwrap_or(Wait::Block),
            is_process: !self.threads,
            slots,
            burst: self.burst,
            window: self.window,
            master_threshold: self.master_threshold.unwrap_or(if is_many { 0 } else { slots / 4 }),
            worker_threshold: self.worker_threshold,
            age: self.age,
            spin_us: self.spin,
            tsc: self.time == Time::Tsc,
            publish_each: self.publish_each,
            shared_indices: self.shared_indices,
            packed_indices: self.packed_indices,
            unaligned_slots: self.unaligned_slots,
            pages: match self.pages {
                PageKind::Normal => Pages::Normal,
                PageKind::Huge => Pages::Huge,
                PageKind::Prefer => Pages::PreferHuge,
            },
        }
    }
}
