//! The log: one line an event, on standard error, with time (UTC), level and fields.
//!
//! Crates below write events with the macros of `tracing`; nothing does so on the packet path.
//! What elements print for the user (`Print`, `cx.log`) is output and no event: it stays as
//! it is with `--log-format text`, and becomes an event with `--log-format json`, so that every
//! line is JSON.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use thruway_engine::Options;
use tracing_subscriber::filter::LevelFilter;

/// How the log is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line of text
    #[default]
    Text,
    /// A JSON object a line
    Json,
}

/// The least severe events that are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Nothing
    Off,
    /// Failures: a function ended, a configuration was refused
    Error,
    /// Events that may need an operator
    Warn,
    /// Also successful events, e.g. a reload
    #[default]
    Info,
    /// Also each start and stop of a function
    Debug,
}

/// Arguments of the log.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct LogArgs {
    /// Format of the log on standard error
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub log_format: Format,
    /// Minimum severity of logged events
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    pub log_level: LogLevel,
}

impl LogArgs {
    /// Begins the log of this process. Before it, and in a process that does not call it, events
    /// go nowhere.
    pub fn begin(self) {
        let level = match self.log_level {
            LogLevel::Off => LevelFilter::OFF,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
        };
        let log = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_target(false)
            .with_writer(std::io::stderr);
        // There is one log: a second beginning changes nothing.
        let _ = match self.log_format {
            Format::Text => log.with_ansi(colour()).try_init(),
            Format::Json => log.json().flatten_event(true).try_init(),
        };
    }

    /// Has elements' lines written as the log is.
    pub fn apply(self, options: &mut Options) {
        options.log = match self.log_format {
            Format::Json => Arc::new(|line| tracing::info!(source = "element", "{line}")),
            // The user's terminal may be gone; packets go on.
            Format::Text => Arc::new(|line| drop(writeln!(std::io::stderr(), "{line}"))),
        };
    }
}

/// Whether standard error is coloured: it is a terminal, and the user did not disable colours.
pub fn colour() -> bool {
    std::io::stderr().is_terminal() && !no_colour()
}

/// Whether the user wants no colours and no bold text: `NO_COLOR` is set and not empty
/// (no-color.org).
pub fn no_colour() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty())
}
