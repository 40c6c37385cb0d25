//! `token`: access to the API over the network.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use hyper::Method;
use serde::Serialize;
use thruway::table::Table;
use thruway::{errln, out, outln};
use thruway_client::shown;
use thruway_manager::access::Role;
use thruway_manager::api::views::{NewToken, TokenList, TokenMade, TokenView};
use thruway_manager::client::{Client, Content, escape};
use thruway_manager::timestamp;

use crate::output::OutputArgs;

/// Arguments of `token`.
#[derive(Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Create a token and print it once; or grant access to a client certificate
    Create {
        /// Name: a DNS label
        name: String,
        /// Role: view, operate or administer
        #[arg(long)]
        role: Role,
        /// Time until it expires: 12h, 30d [default: never]
        #[arg(long, value_name = "TIME", value_parser = time)]
        expires: Option<Duration>,
        /// Grant access to this client certificate (PEM) instead of creating a token
        #[arg(long, value_name = "FILE")]
        certificate: Option<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List tokens and client certificates
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Revoke tokens and client certificates, and end their event streams
    Revoke {
        /// Names
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// Runs the command.
pub async fn main(client: &Client, args: TokenArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        TokenCommand::List { output } => list(client, output).await?,
        TokenCommand::Revoke { names, output } => return revoke(client, &names, output).await,
        TokenCommand::Create { name, role, expires, certificate, output } => {
            let read = |path: PathBuf| {
                std::fs::read_to_string(&path).with_context(|| path.display().to_string())
            };
            let expires = expires.map(|time| SystemTime::now() + time);
            let certificate = certificate.map(read).transpose()?;
            let new = NewToken { name, role, expires, certificate };
            create(client, &new, output).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn create(client: &Client, new: &NewToken, output: OutputArgs) -> anyhow::Result<()> {
    let content = Content { body: serde_json::to_vec(new)?, ..Content::default() };
    let made: TokenMade = client.json(Method::POST, "/v1/tokens", content).await?;
    if let Some(data) = output.data() {
        return data.print(&made);
    }
    match (&made.token, &made.made.fingerprint) {
        (Some(token), _) => {
            // Alone on standard output: `thruway token create ... > FILE`.
            outln!("{token}");
            errln!(
                "thruway-manager: this token is not shown again; keep it in a file of mode 0600"
            );
        }
        (None, Some(hash)) => outln!("certificate {} ({hash}) may {}", made.made.name, new.role),
        (None, None) => bail!("the manager's answer has no token"),
    }
    Ok(())
}

async fn list(client: &Client, output: OutputArgs) -> anyhow::Result<()> {
    let list: TokenList = client.json(Method::GET, "/v1/tokens", Content::default()).await?;
    if let Some(data) = output.data() {
        return data.print(&list.items);
    }
    if list.items.is_empty() {
        outln!("there are no tokens; make one with `thruway token create NAME --role view`");
        return Ok(());
    }
    out!("{}", shown(&table(list.items, output.is_wide()).render()));
    Ok(())
}

fn table(tokens: Vec<TokenView>, wide: bool) -> Table {
    let mut head = vec!["name", "kind", "role", "created", "expires", "author"];
    if wide {
        head.push("certificate");
    }
    let mut table = Table::new(&head);
    for one in tokens {
        let expires = one.expires.map_or("never".to_owned(), timestamp::text);
        let (created, role) = (timestamp::text(one.created), one.role.to_string());
        let mut cells = vec![one.name, one.kind, role, created, expires, one.author];
        if wide {
            cells.push(one.fingerprint.unwrap_or_else(|| "-".to_owned()));
        }
        table.row(cells);
    }
    table
}

/// A revoked credential, for programs.
#[derive(Serialize)]
struct Revoked<'a> {
    name: &'a str,
    revoked: bool,
}

async fn revoke(client: &Client, names: &[String], output: OutputArgs) -> anyhow::Result<ExitCode> {
    let mut done = Vec::new();
    for name in names {
        let target = format!("/v1/tokens/{}", escape(name));
        let answer = client.call(Method::DELETE, &target, Content::default()).await?;
        let revoked = answer.status == 204;
        done.push(Revoked { name, revoked });
        match (revoked, output.data()) {
            (true, None) => outln!("token/{name} revoked"),
            (true, Some(_)) => {}
            // The others are revoked all the same.
            (false, _) => errln!("thruway-manager: {}", shown(&answer.refusal().to_string())),
        }
    }
    if let Some(data) = output.data() {
        data.print(&done)?;
    }
    let all = done.iter().all(|one| one.revoked);
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A time of whole seconds, minutes, hours or days: `90s`, `30d`.
fn time(text: &str) -> Result<Duration, String> {
    let refused = || format!("'{text}' is no time; use a number with s, m, h or d: 12h, 30d");
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        _ => return Err(refused()),
    };
    let number: u32 = text[..text.len() - 1].parse().map_err(|_| refused())?;
    match number {
        0 => Err(refused()),
        number => Ok(Duration::from_secs(u64::from(number) * unit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(time("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        for text in ["", "d", "30", "0h", "-1d", "1.5h", "1\u{e9}", "99999999999d", "1w"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
