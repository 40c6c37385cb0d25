//! `events`: what happened, and what happens.

use std::process::ExitCode;

use clap::Args;
use thruway::{errln, outln};
use thruway_client::shown;
use thruway_manager::api::views::EventView;
use thruway_manager::client::{Client, escape};
use thruway_manager::timestamp;

use crate::output::OutputArgs;
use crate::sse;

/// Arguments of `events`.
#[derive(Args)]
pub struct EventsArgs {
    /// Only events of this chain
    #[arg(long, value_name = "NAME")]
    chain: Option<String>,
    /// Continue with new events until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Only events after this one (the JSON has its id)
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub async fn main(client: &Client, args: &EventsArgs) -> anyhow::Result<ExitCode> {
    let chain =
        args.chain.as_deref().map_or(String::new(), |chain| format!("&chain={}", escape(chain)));
    let target = format!("/v1/events?follow={}{chain}", args.follow);
    let headers: Vec<_> = args.after.iter().map(|id| ("last-event-id", id.as_str())).collect();
    sse::read(client, &target, &headers, |data| print_one(data, args.output)).await?;
    match args.follow {
        false => Ok(ExitCode::SUCCESS),
        true => {
            errln!("thruway-manager: the manager ended");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Prints one event.
fn print_one(data: &str, output: OutputArgs) -> anyhow::Result<()> {
    let view: EventView = serde_json::from_str(data)?;
    if let Some(format) = output.data() {
        return format.print_next(&view);
    }
    let EventView { event, id } = view;
    let id = if output.is_wide() { format!("{id}  ") } else { String::new() };
    let time = timestamp::text(event.time);
    let line = format!("{id}{time}  {}  {}  {}", event.chain, event.reason, event.message);
    outln!("{}", shown(&line));
    Ok(())
}
