//! `get` and `describe`: chains as tables and pages.

use std::time::{Duration, SystemTime};

use hyper::Method;
use thruway::table::Table;
use thruway::{out, outln};
use thruway_client::shown;
use thruway_manager::api::views::{ChainList, ChainView, GenerationList};
use thruway_manager::client::{Client, ClientError, Content, escape};
use thruway_manager::store::render;
use thruway_manager::timestamp;
use thruway_manager::{ChainStatus, Condition, ConditionKind};

use crate::change::chain_path;
use crate::output::{OutputArgs, one_line};

/// Generations that `describe` shows.
const HISTORY_LEN: usize = 5;

/// Generations that it shows where more is asked for: a page.
const HISTORY_LEN_WIDE: usize = 500;

/// How often a chain is asked for where calls are too many: each waits a second.
const TRIES_MAX: u32 = 60;

/// Lists chains. As data they have their specifications: `apply` takes what this prints.
pub async fn get(client: &Client, names: &[String], output: OutputArgs) -> anyhow::Result<()> {
    if let Some(data) = output.data() {
        return match names {
            [] => data.print(&all_whole(client).await?),
            [name] => data.print(&one(client, name).await?),
            names => data.print(&named(client, names).await?),
        };
    }
    let chains = if names.is_empty() { all(client).await? } else { named(client, names).await? };
    match chains.is_empty() {
        true => outln!("no chain is declared; declare some with `thruway apply FILE`"),
        false => out!("{}", shown(&table(&chains, output.is_wide()).render())),
    }
    Ok(())
}

/// All chains, page by page.
async fn all(client: &Client) -> anyhow::Result<Vec<ChainView>> {
    let (mut chains, mut after) = (Vec::new(), String::new());
    loop {
        let target = format!("/v1/chains?limit=500&after={}", escape(&after));
        let page: ChainList = client.json(Method::GET, &target, Content::default()).await?;
        chains.extend(page.items);
        match page.next {
            Some(next) => after = next,
            None => return Ok(chains),
        }
    }
}

/// All chains with their specifications.
async fn all_whole(client: &Client) -> anyhow::Result<Vec<ChainView>> {
    let mut chains = Vec::new();
    for listed in all(client).await? {
        match one(client, &listed.name).await {
            // It was deleted meanwhile.
            Err(ClientError::Refused(problem)) if problem.status == 404 => {}
            found => chains.push(found?),
        }
    }
    Ok(chains)
}

async fn named(client: &Client, names: &[String]) -> anyhow::Result<Vec<ChainView>> {
    let mut chains = Vec::new();
    for name in names {
        chains.push(one(client, name).await?);
    }
    Ok(chains)
}

/// A chain; waits where the manager says that this address calls too often.
async fn one(client: &Client, name: &str) -> Result<ChainView, ClientError> {
    let mut tries = 1;
    loop {
        let found = client.json(Method::GET, &chain_path(name), Content::default()).await;
        match found {
            Err(ClientError::Refused(problem)) if problem.status == 429 && tries < TRIES_MAX => {
                tries += 1;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            found => return found,
        }
    }
}

fn table(chains: &[ChainView], wide: bool) -> Table {
    let mut head = vec!["chain", "generation", "ready", "reason", "restarts", "age"];
    if wide {
        head.extend(["running", "pid", "author", "control", "message"]);
    }
    let mut table = Table::new(&head);
    let none = ChainStatus::default();
    for chain in chains {
        let status = chain.status.as_ref().unwrap_or(&none);
        let ready = condition(status, ConditionKind::Ready);
        let dash = || "-".to_owned();
        let mut cells = vec![
            chain.name.clone(),
            chain.generation.to_string(),
            ready.map_or("unknown", |one| if one.holds { "yes" } else { "no" }).to_owned(),
            ready.map_or_else(dash, |one| one.reason.clone()),
            status.restarts.to_string(),
            age(chain.time),
        ];
        if wide {
            cells.extend([
                status.observed_generation.to_string(),
                status.pid.map_or_else(dash, |pid| pid.to_string()),
                chain.author.clone(),
                status.control.clone().unwrap_or_else(dash),
                ready.map_or_else(dash, |one| one_line(&one.message)),
            ]);
        }
        table.row(cells);
    }
    table
}

fn condition(status: &ChainStatus, kind: ConditionKind) -> Option<&Condition> {
    status.conditions.iter().find(|one| one.kind == kind)
}

/// `40s`, `12m`, `3h`, `8d`, as kubectl writes it.
fn age(time: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(time).unwrap_or(Duration::ZERO).as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Shows a chain.
pub async fn describe(client: &Client, name: &str, output: OutputArgs) -> anyhow::Result<()> {
    let chain = one(client, name).await?;
    if let Some(data) = output.data() {
        return data.print(&chain);
    }
    let limit = if output.is_wide() { HISTORY_LEN_WIDE } else { HISTORY_LEN };
    let target = format!("{}/generations?limit={limit}", chain_path(name));
    let history: GenerationList = client.json(Method::GET, &target, Content::default()).await?;
    out!("{}", shown(&page(&chain, &history)));
    Ok(())
}

/// The page of a chain.
fn page(chain: &ChainView, history: &GenerationList) -> String {
    let declared = timestamp::text(chain.time);
    let mut text = format!(
        "chain: {}\ngeneration: {}, declared at {declared} by {}\n",
        chain.name, chain.generation, chain.author
    );
    if let Some(spec) = &chain.spec {
        text += &format!("\n{}", render(spec));
    }
    text += "\nobserved\n";
    text += &chain.status.as_ref().map_or("  nothing yet\n".to_owned(), observed);
    let mut table = Table::new(&["generation", "time", "author", "what"]);
    for one in &history.items {
        let what = if one.deleted { "deleted" } else { "declared" };
        let time = timestamp::text(one.time);
        let generation = one.generation.to_string();
        table.row(vec![generation, time, one.author.clone(), what.to_owned()]);
    }
    text + "\nhistory\n" + &table.render()
}

/// What is observed of a chain.
fn observed(status: &ChainStatus) -> String {
    let pid = status.pid.map_or("none".to_owned(), |pid| pid.to_string());
    let mut text = format!(
        "  data plane: process {pid}, generation {}\n  control socket: {}\n  restarts: {}\n",
        status.observed_generation,
        status.control.as_deref().unwrap_or("none"),
        status.restarts
    );
    for one in &status.conditions {
        let holds = if one.holds { "yes" } else { "no" };
        let since = timestamp::text(one.since);
        let (kind, reason, message) = (one.kind, &one.reason, &one.message);
        text += &format!("  {kind:?}: {holds}, {reason}, since {since}: {message}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let ago = |seconds| age(SystemTime::now() - Duration::from_secs(seconds));
        assert_eq!([ago(5), ago(600), ago(10_000), ago(700_000)], ["5s", "10m", "2h", "8d"]);
        assert_eq!(age(SystemTime::now() + Duration::from_secs(60)), "0s");
    }
}
