//! `thruway-bench takeover`: two hosts with `Replicate`, many TCP connections through the one that
//! serves, and `kill -9`, again and again: how many connections go on, how long the traffic rests,
//! and how much of that is detection.
//!
//! Hosts, client and server are network namespaces. Connections ask and are answered all the time;
//! a probe of a packet each millisecond measures the rest.

mod committing;
mod connections;
mod networks;
mod options;
mod outcome;
mod pair;
mod probe;
mod report;
mod server;
mod watch;

use std::time::{Duration, Instant};

use anyhow::bail;

use super::goal;
use super::machine::{self, Machine};
use connections::Connections;
pub use options::Options;
use outcome::Taken;
use pair::Pair;
use probe::Probe;
pub use server::{ServerArgs, serve};

/// How long traffic flows before the kill, once the backup has all sessions.
const BEFORE: Duration = Duration::from_millis(500);
/// How long a connection may take to be answered once more: TCP repeats after 0.2, 0.4, 0.8 s and
/// so on what was lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the bench; false when a goal was to be met and was not.
///
/// # Errors
/// Missing privileges or programs, a host that does not start; a file that cannot be written.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    if !rustix::process::geteuid().is_root() {
        bail!("it makes network namespaces; run it as root");
    }
    watch::raise_file_limit(options.connections)?;
    let machine = Machine::look(machine::allowed().len(), None);
    out!("{}", report::heading(&machine, options));
    let mut all = Vec::new();
    for repeat in 0..options.repeats {
        err!("\rkill {} of {}  ", repeat + 1, options.repeats);
        all.push(kill(options)?);
    }
    err!("\r{:30}\r", "");
    out!("{}", report::text(&all));
    let is_met = goal::judge(&report::goals(&all, options.commit), options.goals);
    if let Some(file) = &options.json {
        super::report::write(file, &report::json(&machine, options, &all))?;
    }
    Ok(is_met)
}

/// A new pair, traffic, and the end of the host that serves.
fn kill(options: &Options) -> anyhow::Result<Taken> {
    let pair = Pair::start(options)?;
    let mut connections = Connections::open(&pair.client, options.connections)?;
    let probe = Probe::start(&pair.client, &pair.server)?;
    connections.ask_for(BEFORE, options.rate)?;
    pair.wait_synchronized(options.connections)?;
    connections.ask_for(BEFORE, options.rate)?;
    let begin = Instant::now();
    pair.kill()?;
    let detection = connections.ask_until(options.rate, PATIENCE, || pair.has_taken_over())?;
    // Each is asked once more after that, and has time to be answered.
    connections.ask_all(options.rate, PATIENCE)?;
    let (lost, why) = connections.lost_since(begin);
    let taken = Taken {
        detection: detection.duration_since(begin),
        gap: probe.longest_gap(begin),
        connections: connections.len(),
        lost,
        why,
    };
    Ok(taken)
}
