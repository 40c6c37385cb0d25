//! What commands that change chains have in common.

use clap::Args;
use thruway::{errln, out, outln};
use thruway_manager::api::views::ChangeView;
use thruway_manager::client::escape;

use crate::output::{self, Format};

/// How something is printed.
#[derive(Args)]
pub struct OutputArgs {
    /// What is printed [default: a table]
    #[arg(short, long, value_enum)]
    pub output: Option<Format>,
}

/// How a change is made.
#[derive(Args)]
pub struct ChangeArgs {
    /// Only check, and print what would change
    #[arg(long)]
    pub dry_run: bool,
    /// What is printed [default: a line for each chain]
    #[arg(short, long, value_enum)]
    pub output: Option<Format>,
}

/// The resource of a chain.
pub fn chain_path(name: &str) -> String {
    format!("/v1/chains/{}", escape(name))
}

/// Prints what a change did.
pub fn changed(view: &ChangeView, what: &str, args: &ChangeArgs) -> anyhow::Result<()> {
    if let Some(format) = args.output {
        return output::print(view, format);
    }
    let what = if view.changed { what } else { "unchanged" };
    let dry = if view.dry_run { " (dry run)" } else { "" };
    outln!("chain/{} {what}, generation {}{dry}", view.name, view.generation);
    if view.dry_run {
        out!("{}", view.diff);
    }
    if !view.warnings.is_empty() {
        errln!("{}", view.warnings.trim_end());
    }
    Ok(())
}
