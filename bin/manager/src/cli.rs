//! The command line of `thruway-manager`.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use hyper::Method;
use serde_json::json;
use thruway::shell::ShellCommand;
use thruway::{errln, out};
use thruway_client::shown;
use thruway_manager::api::views::{ChangeView, DiffView, GenerationList};
use thruway_manager::client::{Client, ClientError, Content};

use crate::change::{ChangeArgs, Done, chain_path, print_change, print_changes};
use crate::connect::ServerArgs;
use crate::output::OutputArgs;
use crate::{apply, daemon, description, follow, logs, show, token};

/// Keeps the chains that this host is to run, and declares them
#[derive(Parser)]
#[command(name = "thruway-manager", version, about)]
struct Cli {
    #[command(flatten)]
    server: ServerArgs,
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
        #[command(flatten)]
        output: OutputArgs,
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
    /// Print the last lines that a chain's data plane wrote, and with --follow what it writes
    Logs(logs::LogsArgs),
    /// Give and revoke access to the API over the network
    Token(token::TokenArgs),
    /// Print the description of the API (OpenAPI 3.1)
    #[command(name = "openapi")]
    OpenApi {
        #[command(flatten)]
        output: OutputArgs,
    },
    #[command(flatten)]
    Shell(ShellCommand),
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
    let result = match cli.command {
        Command::Daemon(_) if cli.server.is_remote() => {
            Err(anyhow::anyhow!("`daemon` runs the manager here: --server is for other commands"))
        }
        Command::Daemon(args) => daemon::main(args, &cli.server.socket()),
        Command::OpenApi { output } => description::main(output),
        Command::Shell(command) => command.run(Cli::command()),
        command => run_remote(&cli.server, command),
    };
    result.unwrap_or_else(|error| {
        errln!("thruway-manager: {}", shown(&format!("{error:#}")));
        ExitCode::FAILURE
    })
}

fn run_remote(server: &ServerArgs, command: Command) -> anyhow::Result<ExitCode> {
    let client = server.client()?;
    daemon::runtime()?.block_on(remote(&client, command))
}

/// A command that the manager carries out.
async fn remote(client: &Client, command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Daemon(_) | Command::OpenApi { .. } | Command::Shell(_) => {
            unreachable!("needs no manager")
        }
        Command::Apply(args) => return apply::main(client, &args).await,
        Command::Token(args) => return token::main(client, args).await,
        Command::Events(args) => return follow::main(client, &args).await,
        Command::Logs(args) => return logs::main(client, &args).await,
        Command::Get { names, output } => show::get(client, &names, output).await?,
        Command::Describe { name, output } => show::describe(client, &name, output).await?,
        Command::Diff { name, from, to, output } => {
            diff(client, &name, (from, to), output).await?;
        }
        Command::Delete { names, change } => return delete(client, &names, &change).await,
        Command::Rollback { name, to, change } => rollback(client, &name, to, &change).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn diff(
    client: &Client,
    name: &str,
    (from, to): (Option<u64>, Option<u64>),
    output: OutputArgs,
) -> anyhow::Result<()> {
    let part = |name: &str, value: Option<u64>| value.map(|value| format!("{name}={value}"));
    let query: Vec<String> = [part("from", from), part("to", to)].into_iter().flatten().collect();
    let target = format!("{}/diff?{}", chain_path(name), query.join("&"));
    let view: DiffView = client.json(Method::GET, &target, Content::default()).await?;
    match output.data() {
        Some(data) => data.print(&view)?,
        None => out!("{}", shown(&view.diff)),
    }
    Ok(())
}

async fn delete(client: &Client, names: &[String], args: &ChangeArgs) -> anyhow::Result<ExitCode> {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for name in names {
        let target = format!("{}?dry_run={}", chain_path(name), args.dry_run);
        match client.json(Method::DELETE, &target, Content::default()).await {
            Ok(view) => done.push(Done { view, what: "deleted".to_owned() }),
            Err(error) => {
                let is_refused = matches!(error, ClientError::Refused(_));
                failed.push(error);
                // The others are deleted all the same, if the manager answers.
                if !is_refused {
                    break;
                }
            }
        }
    }
    match (names, done.as_slice()) {
        (_, []) => {}
        ([_], [one]) => print_change(one, args)?,
        (_, all) => print_changes(all, args)?,
    }
    failed.iter().for_each(|error| errln!("thruway-manager: {}", shown(&error.to_string())));
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
    print_change(&Done { view, what: format!("rolled back to generation {to}") }, args)
}
