//! Resources as tables, one for each kind.

use std::time::{Duration, SystemTime};

use thruway::table::Table;
use thruway_manager::api::views::{ChainView, HostView, ResourceView};
use thruway_manager::{ChainStatus, Condition, ConditionKind};

use crate::fetch::Resource;
use crate::output::one_line;

/// Tables of resources, of one kind after the other.
pub fn render(found: &[Resource], wide: bool) -> String {
    let (mut chains, mut functions, mut groups, mut hosts) = (vec![], vec![], vec![], vec![]);
    for one in found {
        match one {
            Resource::Chain(chain) => chains.push(chain),
            Resource::Function(function) => functions.push(function),
            Resource::Group(group) => groups.push(group),
            Resource::Host(host) => hosts.push(host),
        }
    }
    use ConditionKind::{Kept, Present, Verified};
    let tables = [
        (!chains.is_empty()).then(|| of_chains(&chains, wide)),
        (!functions.is_empty())
            .then(|| of_resources("function", &[Present, Verified, Kept], &functions, wide)),
        (!groups.is_empty()).then(|| of_resources("group", &[Verified], &groups, wide)),
        (!hosts.is_empty()).then(|| of_hosts(&hosts, wide)),
    ];
    let tables = tables.iter().flatten().map(Table::render);
    tables.collect::<Vec<_>>().join("\n")
}

fn dash() -> String {
    "-".to_owned()
}

fn find(conditions: &[Condition], kind: ConditionKind) -> Option<&Condition> {
    conditions.iter().find(|one| one.kind == kind)
}

fn holds(condition: Option<&Condition>) -> String {
    condition.map_or("unknown", |one| if one.holds { "yes" } else { "no" }).to_owned()
}

fn of_chains(chains: &[&ChainView], wide: bool) -> Table {
    let mut head = vec!["chain", "generation", "ready", "reason", "restarts", "age"];
    if wide {
        head.extend(["running", "pid", "author", "control", "message"]);
    }
    let mut table = Table::new(&head);
    let none = ChainStatus::default();
    for chain in chains {
        let status = chain.status.as_ref().unwrap_or(&none);
        let ready = find(&status.conditions, ConditionKind::Ready);
        let mut cells = vec![
            chain.name.clone(),
            chain.generation.to_string(),
            holds(ready),
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

/// A column for each kind of condition, and the reason of the first false one.
fn of_resources<S>(
    title: &str,
    kinds: &[ConditionKind],
    found: &[&ResourceView<S>],
    wide: bool,
) -> Table {
    let names: Vec<String> = kinds.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect();
    let mut head = vec![title, "generation"];
    head.extend(names.iter().map(String::as_str));
    head.extend(["reason", "age"]);
    if wide {
        head.extend(["author", "message"]);
    }
    let mut table = Table::new(&head);
    for one in found {
        let conditions = &one.status.conditions;
        let telling = conditions.iter().find(|one| !one.holds).or(conditions.last());
        let mut cells = vec![one.name.clone(), one.generation.to_string()];
        cells.extend(kinds.iter().map(|kind| holds(find(conditions, *kind))));
        cells.push(telling.map_or_else(dash, |one| one.reason.clone()));
        cells.push(age(one.time));
        if wide {
            cells.push(one.author.clone());
            cells.push(telling.map_or_else(dash, |one| one_line(&one.message)));
        }
        table.row(cells);
    }
    table
}

fn of_hosts(hosts: &[&HostView], wide: bool) -> Table {
    let mut head = vec!["host", "kernel", "processors", "memory", "available", "interfaces"];
    if wide {
        head.extend(["online", "model", "names"]);
    }
    let mut table = Table::new(&head);
    for host in hosts {
        let status = &host.status;
        let mut cells = vec![
            host.name.clone(),
            status.kernel.clone().unwrap_or_else(dash),
            status.processors.count.to_string(),
            size(status.memory.total_bytes),
            size(status.memory.available_bytes),
            status.interfaces.len().to_string(),
        ];
        if wide {
            let names: Vec<&str> = status.interfaces.iter().map(|one| one.name.as_str()).collect();
            cells.extend([
                status.processors.online.clone().unwrap_or_else(dash),
                status.processors.model.clone().unwrap_or_else(dash),
                names.join(","),
            ]);
        }
        table.row(cells);
    }
    table
}

/// Bytes, in MiB.
pub fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(dash, |bytes| format!("{} MiB", bytes >> 20))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let ago = |seconds| age(SystemTime::now() - Duration::from_secs(seconds));
        assert_eq!([ago(5), ago(600), ago(10_000), ago(700_000)], ["5s", "10m", "2h", "8d"]);
        assert_eq!(age(SystemTime::now() + Duration::from_secs(60)), "0s");
    }

    #[test]
    fn sizes_have_their_unit() {
        assert_eq!([size(Some(3 << 20)), size(None)], ["3 MiB", "-"]);
    }
}
