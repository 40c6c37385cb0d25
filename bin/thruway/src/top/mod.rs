//! `thruway top`: what a running Thruway does, as it does it.

mod frame;
mod json;
mod keys;
mod sample;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use console::Term;
use serde_json::json;
use thruway_client::shown;

use crate::reach::{address, reach};
use crate::signals::{end_flag, wait};
use keys::Keys;
pub use sample::Sample;

/// Arguments of `thruway top`.
#[derive(Args)]
pub struct TopArgs {
    /// Address of a ControlSocket (HOST:PORT, PORT or PATH); optional if this user runs exactly one
    /// instance
    #[arg(value_name = "ADDRESS")]
    address: Option<String>,
    /// Print one view as text and exit [default if standard output is not a terminal]
    #[arg(long)]
    once: bool,
    /// Print one view as JSON and exit: counters now and at the beginning of the interval
    #[arg(long)]
    json: bool,
    /// Interval of a view, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
}

/// Shortest and longest interval, in seconds.
const INTERVALS: std::ops::RangeInclusive<f64> = 0.05..=3600.0;

/// Runs the command.
pub fn main(args: &TopArgs) -> anyhow::Result<ExitCode> {
    if !INTERVALS.contains(&args.interval) {
        bail!("--interval {}: give 0.05 to 3600 seconds", args.interval);
    }
    let interval = Duration::from_secs_f64(args.interval);
    let address = address(args.address.as_deref())?;
    let mut client = reach(&address)?;
    let mut before = Sample::take(&mut client)?;
    if args.json || args.once || !std::io::stdout().is_terminal() {
        std::thread::sleep(interval);
        let now = Sample::take(&mut client)?;
        if args.json {
            outln!("{:#}", json!({ "before": before.json(), "now": now.json() }));
            return Ok(ExitCode::SUCCESS);
        }
        let text = shown(&frame::text(&address, (&before, &now), None));
        out!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let over = end_flag()?;
    let screen = Screen::open()?;
    let keys = Keys::open();
    while wait(interval, &over, || keys.end()) {
        let now = match Sample::take(&mut client) {
            Ok(now) => now,
            // A hot swap closes the former configuration's connections.
            Err(_) => {
                client = reach(&address)?;
                Sample::take(&mut client)?
            }
        };
        let (rows, columns) = screen.term.size();
        let rows = usize::from(rows);
        let text = shown(&frame::text(&address, (&before, &now), Some(rows)));
        screen.show(&text, (rows, usize::from(columns)))?;
        before = now;
    }
    Ok(ExitCode::SUCCESS)
}

/// The terminal's other screen, without a cursor; as it was when dropped.
struct Screen {
    term: Term,
    /// Nothing is bold.
    plain: bool,
}

impl Screen {
    fn open() -> std::io::Result<Screen> {
        let term = Term::stdout();
        term.write_str("\x1b[?1049h\x1b[?25l\x1b[HOne moment...")?;
        Ok(Screen { term, plain: crate::log::no_colour() })
    }

    /// Shows a text, cut to the screen; headings are bold.
    fn show(&self, text: &str, (rows, columns): (usize, usize)) -> std::io::Result<()> {
        let lines = text.lines().take(rows).map(|line| {
            let cut: String = line.chars().take(columns).collect();
            match line.starts_with(|c: char| c.is_alphabetic()) && !self.plain {
                true => format!("\x1b[1m{cut}\x1b[0m\x1b[K"),
                false => format!("{cut}\x1b[K"),
            }
        });
        let lines: Vec<String> = lines.collect();
        // Over what is there, line by line: an emptied screen would flicker.
        self.term.write_str(&format!("\x1b[H{}\x1b[J", lines.join("\r\n")))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A closed terminal cannot show an error.
        let _ = self.term.write_str("\x1b[?25h\x1b[?1049l");
    }
}
