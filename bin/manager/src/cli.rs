//! The command line of `thruway-manager`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hyper::Method;
use serde_json::json;
use thruway::{errln, out};
use thruway_manager::api::default_path;
use thruway_manager::api::views::{ChangeView, DiffView, GenerationList};
use thruway_manager::client::{Client, ClientError, Content};
use thruway_port::run_directory;

use crate::change::{ChangeArgs, OutputArgs, chain_path, changed};
use crate::{apply, daemon, follow, show};

/// Keeps the chains that this host is to run, and declares them
#[derive(Parser)]
#[command(name = "thruway-manager", version, about)]
struct Cli {
    /// Unix socket of the manager [default: manager/api.sock in the run directory]
    #[arg(long, value_name = "FILE", global = true)]
    socket: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the manager in the foreground until SIGTERM or Ctrl-C
    Daemon(daemon::DaemonArgs),
    /// Declare the chains of a file, or of all files of a directory
    Apply(apply::ApplyArgs),
    /// List chains, or show those that are named
    Get {
        /// Names of chains
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show a chain: what is asked for, what is observed, and its history
    Describe {
        /// Name of the chain
        name: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Compare two generations of a chain
    Diff {
        /// Name of the chain
        name: String,
        /// Older generation [default: the one before the newer one]
        #[arg(long)]
        from: Option<u64>,
        /// Newer generation [default: the last one]
        #[arg(long)]
        to: Option<u64>,
    },
    /// Take chains back; their history stays
    Delete {
        /// Names of chains
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Declare an earlier generation of a chain again
    Rollback {
        /// Name of the chain
        name: String,
        /// Generation [default: the one before the last one]
        #[arg(long)]
        to: Option<u64>,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Print what happened, and with --follow what happens
    Events(follow::EventsArgs),
    /// Print the description of the API (OpenAPI 3.1)
    #[command(name = "openapi")]
    OpenApi,
}

/// Runs the command line.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A reader that is gone ends it quietly, as everywhere.
            match error.use_stderr() {
                true => thruway::err!("{}", error.render()),
                false => out!("{}", error.render()),
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let socket = cli.socket.unwrap_or_else(|| default_path(&run_directory::path()));
    let result = match cli.command {
        Command::Daemon(args) => daemon::main(args, &socket),
        Command::OpenApi => {
            out!("{}", thruway_manager::api::openapi_text());
            Ok(ExitCode::SUCCESS)
        }
        command => daemon::runtime().and_then(|runtime| {
            let client = Client::new(&socket);
            runtime.block_on(remote(&client, command))
        }),
    };
    result.unwrap_or_else(|error| {
        errln!("thruway-manager: {error:#}");
        ExitCode::FAILURE
    })
}

/// A command that the manager carries out.
async fn remote(client: &Client, command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Daemon(_) | Command::OpenApi => unreachable!("needs no manager"),
        Command::Apply(args) => return apply::main(client, &args).await,
        Command::Events(args) => return follow::main(client, &args).await,
        Command::Get { names, output } => show::get(client, &names, output.output).await?,
        Command::Describe { name, output } => show::describe(client, &name, output.output).await?,
        Command::Diff { name, from, to } => diff(client, &name, from, to).await?,
        Command::Delete { names, change } => return delete(client, &names, &change).await,
        Command::Rollback { name, to, change } => rollback(client, &name, to, &change).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn diff(
    client: &Client,
    name: &str,
    from: Option<u64>,
    to: Option<u64>,
) -> anyhow::Result<()> {
    let part = |name: &str, value: Option<u64>| value.map(|value| format!("{name}={value}"));
    let query: Vec<String> = [part("from", from), part("to", to)].into_iter().flatten().collect();
    let target = format!("{}/diff?{}", chain_path(name), query.join("&"));
    let view: DiffView = client.json(Method::GET, &target, Content::default()).await?;
    out!("{}", view.diff);
    Ok(())
}

async fn delete(client: &Client, names: &[String], args: &ChangeArgs) -> anyhow::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for name in names {
        let target = format!("{}?dry_run={}", chain_path(name), args.dry_run);
        match client.json(Method::DELETE, &target, Content::default()).await {
            Ok(view) => changed(&view, "deleted", args)?,
            Err(error @ ClientError::Unreachable { .. }) => return Err(error.into()),
            // The others are deleted all the same.
            Err(error) => {
                errln!("thruway-manager: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

async fn rollback(
    client: &Client,
    name: &str,
    to: Option<u64>,
    args: &ChangeArgs,
) -> anyhow::Result<()> {
    let path = chain_path(name);
    let to = match to {
        Some(to) => to,
        None => {
            let target = format!("{path}/generations?limit=2");
            let list: GenerationList =
                client.json(Method::GET, &target, Content::default()).await?;
            let before = list.items.get(1).map(|one| one.generation);
            before.ok_or_else(|| anyhow::anyhow!("chain '{name}' has one generation only"))?
        }
    };
    let target = format!("{path}/rollback?dry_run={}", args.dry_run);
    let content = Content { body: json!({ "to": to }).to_string().into(), ..Content::default() };
    let view: ChangeView = client.json(Method::POST, &target, content).await?;
    changed(&view, &format!("rolled back to generation {to}"), args)
}
