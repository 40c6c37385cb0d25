//! `logs`: what the data plane of a chain wrote.

use std::process::ExitCode;

use clap::Args;
use hyper::Method;
use thruway::{errln, outln};
use thruway_client::shown;
use thruway_manager::api::LOG_LINES_MAX;
use thruway_manager::api::views::{LogLine, LogView};
use thruway_manager::client::{Client, Content};

use crate::output::OutputArgs;
use crate::sse;
use crate::target::Target;

/// Arguments of `logs`.
#[derive(Args)]
pub struct LogsArgs {
    /// Name of the chain
    name: String,
    /// Continue with new lines, until Ctrl-C or until the chain is deleted
    #[arg(short, long)]
    follow: bool,
    /// Maximum number of last lines, 0 to 10000
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, value_parser = lines)]
    lines: usize,
    #[command(flatten)]
    output: OutputArgs,
}

/// A number of lines.
fn lines(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number <= LOG_LINES_MAX);
    number.ok_or_else(|| format!("give a number from 0 to {LOG_LINES_MAX}"))
}

/// Runs the command.
pub async fn main(client: &Client, args: &LogsArgs) -> anyhow::Result<ExitCode> {
    let target = format!("{}/log?lines={}", Target::chain(&args.name).path(), args.lines);
    if args.follow {
        let target = format!("{target}&follow=true");
        let each = |data: &str| print_next(&serde_json::from_str(data)?, args);
        sse::read(client, &target, &[], each).await?;
        errln!("thruway-manager: the manager ended, or the chain was deleted");
        return Ok(ExitCode::FAILURE);
    }
    let view: LogView = client.json(Method::GET, &target, Content::default()).await?;
    match args.output.data() {
        Some(data) => data.print(&view)?,
        None => view.lines.iter().for_each(|line| outln!("{}", text(line, args))),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a new line of `--follow`.
fn print_next(view: &LogLine, args: &LogsArgs) -> anyhow::Result<()> {
    match args.output.data() {
        Some(data) => data.print_next(view)?,
        None => outln!("{}", text(&view.line, args)),
    }
    Ok(())
}

/// A printed line, with the name of its chain in wide output.
fn text(line: &str, args: &LogsArgs) -> String {
    let name = if args.output.is_wide() { format!("{}  ", args.name) } else { String::new() };
    name + &shown(line)
}
