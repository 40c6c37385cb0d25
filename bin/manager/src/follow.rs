//! `events`: what happened, and what happens.

use std::process::ExitCode;

use clap::Args;
use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::Incoming;
use thruway::{errln, outln};
use thruway_manager::api::views::EventView;
use thruway_manager::client::{Answer, Client, ClientError, Content, escape};
use thruway_manager::timestamp;

use crate::output::Format;

/// Longest event that is read, in bytes.
const EVENT_LEN_MAX: usize = 1 << 20;

/// Arguments of `events`.
#[derive(Args)]
pub struct EventsArgs {
    /// Events of this chain alone
    #[arg(long, value_name = "NAME")]
    chain: Option<String>,
    /// Go on with what happens, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Only what came after this event (its id is in the JSON)
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// What is printed, a line for each event [default: time, chain, reason, message]
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

/// Runs the command.
pub async fn main(client: &Client, args: &EventsArgs) -> anyhow::Result<ExitCode> {
    let chain =
        args.chain.as_deref().map_or(String::new(), |chain| format!("&chain={}", escape(chain)));
    let target = format!("/v1/events?follow={}{chain}", args.follow);
    let headers: Vec<_> = args.after.iter().map(|id| ("last-event-id", id.as_str())).collect();
    let content = Content { headers: &headers, body: Vec::new() };
    let (head, body) = client.open(Method::GET, &target, content).await?.into_parts();
    let status = head.status.as_u16();
    if status >= 400 {
        let body = body.collect().await?.to_bytes();
        return Err(Answer { status, headers: head.headers, body }.refusal().into());
    }
    print_all(body, args.output).await?;
    match args.follow {
        false => Ok(ExitCode::SUCCESS),
        true => {
            errln!("thruway-manager: the manager ended");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Prints events until the stream ends.
async fn print_all(mut body: Incoming, format: Option<Format>) -> anyhow::Result<()> {
    let mut bytes: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        bytes.extend_from_slice(&data);
        // An event ends with an empty line.
        while let Some(end) = bytes.windows(2).position(|pair| pair == b"\n\n") {
            print_one(&String::from_utf8_lossy(&bytes[..end]), format)?;
            bytes.drain(..end + 2);
        }
        if bytes.len() > EVENT_LEN_MAX {
            return Err(ClientError::Broken("an event is too long".to_owned()).into());
        }
    }
    Ok(())
}

/// Prints one event.
fn print_one(text: &str, format: Option<Format>) -> anyhow::Result<()> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if field("event:") == Some("gap") {
        errln!("thruway-manager: some events before these are not kept any more");
        return Ok(());
    }
    // What has no data is a comment that keeps the connection.
    let Some(data) = field("data:") else { return Ok(()) };
    match format {
        Some(Format::Json) => outln!("{data}"),
        Some(Format::Yaml) => {
            let view: EventView = serde_json::from_str(data)?;
            outln!("---\n{}", serde_saphyr::to_string(&view)?.trim_end());
        }
        Some(Format::Wide) | None => {
            let EventView { event, id } = serde_json::from_str(data)?;
            let id = if format.is_some() { format!("{id}  ") } else { String::new() };
            let time = timestamp::text(event.time);
            outln!("{id}{time}  {}  {}  {}", event.chain, event.reason, event.message);
        }
    }
    Ok(())
}
