//! `capture`: packets of a chain that runs, written to a file.

use std::fs::File;
use std::io::{IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use http_body_util::BodyExt as _;
use hyper::Method;
use thruway::errln;
use thruway_manager::capture::CaptureRequest;
use thruway_manager::client::{Answer, Client, Content};

use crate::target::Target;

/// Arguments of `capture`.
#[derive(Args)]
pub struct CaptureArgs {
    /// Name of the chain
    chain: String,
    /// Filter, written as for FlowDispatcher: 'tcp dst port 80' [default: all packets]
    filter: Option<String>,
    /// Capture at the input of this element [default: at the input of the chain]
    #[arg(long, value_name = "NAME")]
    element: Option<String>,
    /// Number of packets, 1 to 100000 [default: 1000]
    #[arg(long, value_name = "N")]
    count: Option<u32>,
    /// Time limit in seconds, 1 to 600 [default: 60]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u32>,
    /// Output file (pcapng); `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    write: PathBuf,
}

/// Runs the command.
pub async fn main(client: &Client, args: &CaptureArgs) -> anyhow::Result<()> {
    let request = CaptureRequest {
        element: args.element.clone(),
        filter: args.filter.clone(),
        count: args.count,
        seconds: args.seconds,
    };
    let to_stdout = args.write == Path::new("-");
    if to_stdout && std::io::stdout().is_terminal() {
        bail!("a capture is no text; name a file with --write, or pipe it: | tcpdump -r -");
    }
    let path = format!("{}/capture", Target::chain(&args.chain).path());
    let content = Content { body: serde_json::to_vec(&request)?, ..Content::default() };
    let answer = client.open(Method::POST, &path, content).await?;
    let (head, mut body) = answer.into_parts();
    if !head.status.is_success() {
        let body = body.collect().await?.to_bytes();
        let refused = Answer { status: head.status.as_u16(), headers: head.headers, body };
        refused.accept::<serde_json::Value>()?;
        bail!("the manager answers {}", head.status);
    }
    let name = || args.write.display().to_string();
    let mut output: Box<dyn Write> = match to_stdout {
        true => Box::new(std::io::stdout()),
        false => Box::new(File::create(&args.write).with_context(name)?),
    };
    let mut len = 0;
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame?.into_data() {
            output.write_all(&bytes).and_then(|()| output.flush()).with_context(name)?;
            len += bytes.len();
        }
    }
    if !to_stdout {
        errln!("{}: {len} bytes", args.write.display());
    }
    Ok(())
}
