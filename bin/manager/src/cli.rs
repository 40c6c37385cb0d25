//! The command line of `thruway-manager`.

use std::cmp::Reverse;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use hyper::Method;
use serde_json::json;
use thruway::shell::ShellCommand;
use thruway::{errln, out};
use thruway_client::shown;
use thruway_manager::api::views::{ChangeView, DiffView, GenerationList};
use thruway_manager::client::{Client, ClientError, Content};

use crate::change::{ChangeArgs, Done, print_change, print_changes};
use crate::connect::ServerArgs;
use crate::output::OutputArgs;
use crate::target::{Target, select, target, targets};
use crate::{apply, capture, daemon, description, drain, follow, logs, replicas, show, token};

/// Manages the declared chains of this host
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
    /// Declare the functions, groups and chains of a file, or of all files of a directory
    Apply(apply::ApplyArgs),
    /// List chains, functions, groups or hosts, or show named ones
    Get {
        /// Kind (chains, functions, groups, hosts), names of that kind, or KIND/NAME; a name
        /// without a kind is a chain
        #[arg(value_name = "KIND|NAME")]
        words: Vec<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show a resource: its specification, observed state and history
    Describe {
        /// Name of a chain, KIND/NAME, or a kind and a name: function words@1.0
        #[arg(value_name = "KIND|NAME", required = true, num_args = 1..=2)]
        words: Vec<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Compare two generations of a resource
    Diff {
        /// Name of a chain, KIND/NAME, or a kind and a name: function words@1.0
        #[arg(value_name = "KIND|NAME", required = true, num_args = 1..=2)]
        words: Vec<String>,
        /// Older generation [default: the one before the newer one]
        #[arg(long)]
        from: Option<u64>,
        /// Newer generation [default: the last one]
        #[arg(long)]
        to: Option<u64>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Delete chains, groups and functions; their history stays
    Delete {
        /// Names of chains, KIND/NAME, or a kind and names of that kind
        #[arg(value_name = "KIND|NAME", required = true)]
        words: Vec<String>,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Declare an earlier generation of a resource again
    Rollback {
        /// Name of a chain, KIND/NAME, or a kind and a name: function words@1.0
        #[arg(value_name = "KIND|NAME", required = true, num_args = 1..=2)]
        words: Vec<String>,
        /// Generation [default: the one before the last one]
        #[arg(long)]
        to: Option<u64>,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Print past events; with --follow also future ones
    Events(follow::EventsArgs),
    /// Print the last output lines of a chain's data plane; with --follow also future ones
    Logs(logs::LogsArgs),
    /// Capture packets of a running chain, as pcapng
    Capture(capture::CaptureArgs),
    /// Set the number of replicas of a chain's functions, or its bounds
    Scale(replicas::ScaleArgs),
    /// Take chains out of service: no more sessions begin, and each ends when its last one has
    Drain(drain::DrainArgs),
    /// Replace versions of a chain's functions, and show the progress
    #[command(subcommand)]
    Rollout(replicas::Rollout),
    /// Grant and revoke access to the API over the network
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
            // A closed output ends the program quietly, as in all commands.
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

/// Runs a command through the manager's API.
async fn remote(client: &Client, command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Daemon(_) | Command::OpenApi { .. } | Command::Shell(_) => {
            unreachable!("needs no manager")
        }
        Command::Apply(args) => return apply::main(client, &args).await,
        Command::Token(args) => return token::main(client, args).await,
        Command::Events(args) => return follow::main(client, &args).await,
        Command::Logs(args) => return logs::main(client, &args).await,
        Command::Capture(args) => capture::main(client, &args).await?,
        Command::Scale(args) => replicas::scale(client, &args).await?,
        Command::Drain(args) => drain::drain(client, &args).await?,
        Command::Rollout(command) => replicas::roll_out(client, &command).await?,
        Command::Get { words, output } => show::get(client, select(&words)?, output).await?,
        Command::Describe { words, output } => {
            show::describe(client, &target(&words)?, output).await?;
        }
        Command::Diff { words, from, to, output } => {
            diff(client, &target(&words)?.declared()?, (from, to), output).await?;
        }
        Command::Delete { words, change } => {
            let all = targets(&words)?.into_iter().map(Target::declared);
            return delete(client, all.collect::<anyhow::Result<_>>()?, &change).await;
        }
        Command::Rollback { words, to, change } => {
            rollback(client, target(&words)?.declared()?, to, &change).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn diff(
    client: &Client,
    target: &Target,
    (from, to): (Option<u64>, Option<u64>),
    output: OutputArgs,
) -> anyhow::Result<()> {
    let part = |name: &str, value: Option<u64>| value.map(|value| format!("{name}={value}"));
    let query: Vec<String> = [part("from", from), part("to", to)].into_iter().flatten().collect();
    let path = format!("{}/diff?{}", target.path(), query.join("&"));
    let view: DiffView = client.json(Method::GET, &path, Content::default()).await?;
    match output.data() {
        Some(data) => data.print(&view)?,
        None => out!("{}", shown(&view.diff)),
    }
    Ok(())
}

async fn delete(
    client: &Client,
    mut targets: Vec<Target>,
    args: &ChangeArgs,
) -> anyhow::Result<ExitCode> {
    // Chains first: what they name may be deleted then.
    targets.sort_by_key(|target| Reverse(target.kind));
    let count = targets.len();
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for target in targets {
        let path = format!("{}?dry_run={}", target.path(), args.dry_run);
        match client.json(Method::DELETE, &path, Content::default()).await {
            Ok(view) => done.push(Done { target, view, what: "deleted".to_owned() }),
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
    match (count, done.as_slice()) {
        (_, []) => {}
        (1, [one]) => print_change(one, args)?,
        (_, all) => print_changes(all, args)?,
    }
    failed.iter().for_each(|error| errln!("thruway-manager: {}", shown(&error.to_string())));
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn rollback(
    client: &Client,
    target: Target,
    to: Option<u64>,
    args: &ChangeArgs,
) -> anyhow::Result<()> {
    let to = match to {
        Some(to) => to,
        None => {
            let path = format!("{}/generations?limit=2", target.path());
            let list: GenerationList = client.json(Method::GET, &path, Content::default()).await?;
            let before = list.items.get(1).map(|one| one.generation);
            before.ok_or_else(|| anyhow::anyhow!("{target} has one generation only"))?
        }
    };
    let path = format!("{}/rollback?dry_run={}", target.path(), args.dry_run);
    let content = Content { body: json!({ "to": to }).to_string().into(), ..Content::default() };
    let view: ChangeView = client.json(Method::POST, &path, content).await?;
    let what = format!("rolled back to generation {to}");
    print_change(&Done { target, view, what }, args)
}
