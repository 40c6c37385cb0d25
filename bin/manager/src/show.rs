//! `get` and `describe`: chains as tables and pages.

use std::time::{Duration, SystemTime};

use hyper::Method;
use thruway::table::Table;
use thruway::{out, outln};
use thruway_manager::api::views::{ChainList, ChainView, GenerationList};
use thruway_manager::client::{Client, Content, escape};
use thruway_manager::store::render;
use thruway_manager::timestamp;
use thruway_manager::{ChainStatus, Condition, ConditionKind};

use crate::change::chain_path;
use crate::output::{self, Format};

/// Generations that `describe` shows.
const HISTORY_LEN: usize = 5;

/// Lists chains.
pub async fn get(client: &Client, names: &[String], format: Option<Format>) -> anyhow::Result<()> {
    let chains = if names.is_empty() { all(client).await? } else { named(client, names).await? };
    match (format, chains.as_slice()) {
        (Some(format @ (Format::Json | Format::Yaml)), [one]) if names.len() == 1 => {
            output::print(one, format)
        }
        (Some(format @ (Format::Json | Format::Yaml)), all) => output::print(&all, format),
        (_, []) => {
            outln!("no chain is declared; declare some with `thruway apply FILE`");
            Ok(())
        }
        (format, all) => {
            out!("{}", table(all, format == Some(Format::Wide)).render());
            Ok(())
        }
    }
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

async fn named(client: &Client, names: &[String]) -> anyhow::Result<Vec<ChainView>> {
    let mut chains = Vec::new();
    for name in names {
        chains.push(client.json(Method::GET, &chain_path(name), Content::default()).await?);
    }
    Ok(chains)
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
                ready.map_or_else(dash, |one| one.message.clone()),
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
pub async fn describe(client: &Client, name: &str, format: Option<Format>) -> anyhow::Result<()> {
    let path = chain_path(name);
    let chain: ChainView = client.json(Method::GET, &path, Content::default()).await?;
    if let Some(format) = format {
        return output::print(&chain, format);
    }
    outln!("chain: {}", chain.name);
    let declared = timestamp::text(chain.time);
    outln!("generation: {}, declared at {declared} by {}", chain.generation, chain.author);
    if let Some(spec) = &chain.spec {
        out!("\n{}", render(spec));
    }
    observed(chain.status.as_ref());
    let target = format!("{path}/generations?limit={HISTORY_LEN}");
    let history: GenerationList = client.json(Method::GET, &target, Content::default()).await?;
    let mut table = Table::new(&["generation", "time", "author", "what"]);
    for one in &history.items {
        let what = if one.deleted { "deleted" } else { "declared" };
        let time = timestamp::text(one.time);
        let generation = one.generation.to_string();
        table.row(vec![generation, time, one.author.clone(), what.to_owned()]);
    }
    outln!("\nhistory");
    out!("{}", table.render());
    Ok(())
}

/// What is observed of a chain.
fn observed(status: Option<&ChainStatus>) {
    outln!("\nobserved");
    let Some(status) = status else {
        outln!("  nothing yet");
        return;
    };
    let pid = status.pid.map_or("none".to_owned(), |pid| pid.to_string());
    outln!("  data plane: process {pid}, generation {}", status.observed_generation);
    outln!("  control socket: {}", status.control.as_deref().unwrap_or("none"));
    outln!("  restarts: {}", status.restarts);
    for one in &status.conditions {
        let holds = if one.holds { "yes" } else { "no" };
        let since = timestamp::text(one.since);
        outln!("  {:?}: {holds}, {}, since {since}: {}", one.kind, one.reason, one.message);
    }
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
