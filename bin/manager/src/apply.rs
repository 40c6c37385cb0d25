//! `apply`: the chains of files are checked, all of them, and then declared.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use hyper::Method;
use thruway::errln;
use thruway_client::shown;
use thruway_manager::api::views::ChangeView;
use thruway_manager::client::{Client, ClientError, Content};
use thruway_manager::{ChainName, ChainSpec};

use crate::change::{ChangeArgs, Done, chain_path, print_changes};
use crate::file;

/// Arguments of `apply`.
#[derive(Args)]
pub struct ApplyArgs {
    /// File of chains (YAML, JSON or TOML by its suffix), a directory of such files, or `-`
    #[arg(value_name = "FILE|DIR")]
    path: PathBuf,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Runs the command.
pub async fn main(client: &Client, args: &ApplyArgs) -> anyhow::Result<ExitCode> {
    let chains = file::read(&args.path)?;
    // First all are only tried: a file with an error changes nothing.
    let Some(tried) = put_all(client, &chains, true).await? else { return Ok(ExitCode::FAILURE) };
    let done = match args.change.dry_run {
        true => Some(tried),
        false => put_all(client, &chains, false).await?,
    };
    let Some(views) = done else { return Ok(ExitCode::FAILURE) };
    let what = |view: &ChangeView| if view.generation == 1 { "created" } else { "changed" };
    let done = views.into_iter().map(|view| Done { what: what(&view).to_owned(), view });
    print_changes(&done.collect::<Vec<_>>(), &args.change)?;
    Ok(ExitCode::SUCCESS)
}

/// Declares chains; tells every refusal, and returns `None` if there was one.
async fn put_all(
    client: &Client,
    chains: &BTreeMap<ChainName, ChainSpec>,
    dry_run: bool,
) -> anyhow::Result<Option<Vec<ChangeView>>> {
    let (mut views, mut refused) = (Vec::new(), false);
    for (name, spec) in chains {
        let target = format!("{}?dry_run={dry_run}", chain_path(name.as_str()));
        let content = Content { body: serde_json::to_vec(spec)?, ..Content::default() };
        match client.json(Method::PUT, &target, content).await {
            Ok(view) => views.push(view),
            Err(ClientError::Refused(problem)) => {
                refused = true;
                let field = problem.field.as_deref().map_or(String::new(), |at| format!(" ({at})"));
                errln!("chain/{name}{field}: {}", shown(problem.detail.trim_end()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if refused && dry_run {
        errln!("nothing was changed");
    }
    Ok((!refused).then_some(views))
}
