//! `thruway doctor`: what this host offers, what is missing, and what to do for more speed.
//!
//! Everything is read from files below a root, which tests make up; but for what the kernel reports
//! on interfaces by other means, on the host itself.

mod dpdk;
mod finding;
mod functions;
mod host;
mod interfaces;
mod memory;
mod processor;
mod rights;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::table::wrap;
use finding::{Finding, Rating};
use host::Host;

/// Arguments of `thruway doctor`.
#[derive(Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Directory that holds the /proc, /sys, /dev and /usr to read
    #[arg(long, value_name = "DIRECTORY", default_value = "/", hide = true)]
    root: PathBuf,
}

/// Runs the command.
pub fn main(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    if !args.root.is_dir() {
        anyhow::bail!("--root {}: no directory", args.root.display());
    }
    let found = examine(&args.root);
    if args.json {
        let values: Vec<_> = found.iter().map(Finding::value).collect();
        outln!("{}", json!({ "findings": values }));
    } else {
        out!("{}", report(&found));
    }
    Ok(ExitCode::SUCCESS)
}

/// All findings, most useful first: broken features, then performance, each by its usual benefit.
fn examine(root: &Path) -> Vec<Finding> {
    let host = Host::new(root);
    let mut found = rights::findings(&host);
    found.extend(interfaces::findings(&host));
    found.extend(processor::findings(&host));
    found.extend(memory::findings(&host));
    found.extend(functions::findings(&host));
    found.extend(dpdk::findings(&host));
    // The sort is stable: the order above stays.
    found.sort_by_key(|finding| finding.state);
    found
}

/// Columns of the checked items.
const WIDTH: usize = 24;

/// For people.
fn report(found: &[Finding]) -> String {
    let mut text = String::new();
    for (state, title) in [
        (Rating::Missing, "Missing"),
        (Rating::Better, "Could be better, most useful first"),
        (Rating::Unknown, "Unknown"),
        (Rating::Good, "OK"),
    ] {
        let of_it: Vec<&Finding> = found.iter().filter(|finding| finding.state == state).collect();
        if of_it.is_empty() {
            continue;
        }
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}{title}");
        for finding in of_it {
            let _ = writeln!(text, "  {:<WIDTH$} {}", finding.what, indented(&finding.status, ""));
            if let Some(remedy) = &finding.remedy {
                let _ = writeln!(text, "  {:<WIDTH$} -> {}", "", indented(remedy, "   "));
            }
        }
    }
    text
}

/// Broken into lines, those after the first under the first.
fn indented(words: &str, more: &str) -> String {
    let margin = format!("\n{}{more}", " ".repeat(WIDTH + 3));
    wrap(words).trim_end().replace('\n', &margin)
}

#[cfg(test)]
mod tests;
