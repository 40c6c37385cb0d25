//! `thruway calibrate-function`: the function that `thruway calibrate` starts as an isolated one,
//! to measure what isolation costs. It does nothing with packets but let them pass, or, configured
//! with `change`, write their first byte.

use std::process::ExitCode;

use thruway_model::calibrate::Programs;
use thruway_nf::{Batch, Config, Verdict};

/// The hidden command.
const COMMAND: &str = "calibrate-function";
/// The configuration of a function that changes packets.
const CHANGE: &str = "change";

/// Runs the function.
pub fn main() -> ExitCode {
    let config = Config { name: "calibration", ..Config::DEFAULT };
    thruway_nf::run(&config, |start| {
        let is_changing = start.configuration()? == CHANGE;
        Ok(move |batch: &mut Batch<'_>| {
            batch.each(|packet| {
                if is_changing && let Some(first) = packet.bytes_mut().first_mut() {
                    *first = first.wrapping_add(1);
                }
                Verdict::Next(0)
            });
        })
    })
}

/// This program as what calibration starts.
///
/// # Errors
/// The path of this program is unknown.
pub fn programs() -> anyhow::Result<Programs> {
    let own = std::env::current_exe()
        .map_err(|error| anyhow::anyhow!("the path of this program is unknown: {error}"))?;
    let own = thruway_element::text::quote(own.to_string_lossy().as_bytes());
    Ok(Programs { function: format!("{own} {COMMAND}"), worker: format!("{own} worker") })
}
