//! The page of a resource: its specification, observed state and history.

use std::time::SystemTime;

use thruway::table::Table;
use thruway_manager::api::views::{GenerationList, HostView};
use thruway_manager::kind::Spec;
use thruway_manager::replicas::ReplicasStatus;
use thruway_manager::store::render;
use thruway_manager::{ChainStatus, Condition, timestamp};

use crate::fetch::Resource;
use crate::tables::size;

/// The page of a resource.
pub fn page(resource: &Resource, history: &GenerationList) -> String {
    let declared = match resource {
        Resource::Host(host) => return of_host(host),
        Resource::Chain(one) => {
            let status = one.status.as_ref().map_or("  nothing yet\n".to_owned(), of_chain);
            let title = title("chain", (&one.name, one.generation), (one.time, &one.author));
            title + &asked_for(one.spec.as_ref()) + "\nobserved\n" + &status
        }
        Resource::Function(one) => {
            let title = title("function", (&one.name, one.generation), (one.time, &one.author));
            title + &asked_for(one.spec.as_ref()) + "\nobserved\n" + &lines(&one.status.conditions)
        }
        Resource::Group(one) => {
            let title = title("group", (&one.name, one.generation), (one.time, &one.author));
            title + &asked_for(one.spec.as_ref()) + "\nobserved\n" + &lines(&one.status.conditions)
        }
    };
    declared + "\nhistory\n" + &of_history(history)
}

fn title(
    kind: &str,
    (name, generation): (&str, u64),
    (time, author): (SystemTime, &str),
) -> String {
    let declared = timestamp::text(time);
    format!("{kind}: {name}\ngeneration: {generation}, declared at {declared} by {author}\n")
}

fn asked_for<S: Spec>(spec: Option<&S>) -> String {
    spec.map_or(String::new(), |spec| format!("\n{}", render(spec)))
}

/// The observed state of a chain.
fn of_chain(status: &ChainStatus) -> String {
    let pid = status.pid.map_or("none".to_owned(), |pid| pid.to_string());
    let text = format!(
        "  data plane: process {pid}, generation {}\n  control socket: {}\n  restarts: {}\n",
        status.observed_generation,
        status.control.as_deref().unwrap_or("none"),
        status.restarts
    );
    let replicas = of_replicas(&status.replicas);
    let replicas = if status.replicas.is_empty() { String::new() } else { replicas };
    text + &lines(&status.conditions) + &replicas
}

/// Replicas of functions, as a table.
pub fn of_replicas(all: &[ReplicasStatus]) -> String {
    let head = ["function", "replica", "version", "state", "weight", "sessions", "waiting"];
    let head: Vec<&str> = head.into_iter().chain(["packets", "lost", "failures"]).collect();
    let mut table = Table::new(&head);
    for of in all {
        for one in &of.replicas {
            let version = one.version.split(' ').next().unwrap_or_default();
            let mut cells = [&of.function, version, &one.state].map(str::to_owned).to_vec();
            cells.insert(1, one.number.to_string());
            let numbers = [one.weight.into(), one.sessions, one.waiting, one.packets, one.lost];
            cells.extend(numbers.map(|number: u64| number.to_string()));
            cells.push(one.failures.to_string());
            table.row(cells);
        }
    }
    table.render()
}

/// Conditions, a line each.
fn lines(conditions: &[Condition]) -> String {
    let line = |one: &Condition| {
        let holds = if one.holds { "yes" } else { "no" };
        let since = timestamp::text(one.since);
        let (kind, reason, message) = (one.kind, &one.reason, &one.message);
        format!("  {kind:?}: {holds}, {reason}, since {since}: {message}\n")
    };
    conditions.iter().map(line).collect()
}

fn of_history(history: &GenerationList) -> String {
    let mut table = Table::new(&["generation", "time", "author", "what"]);
    for one in &history.items {
        let what = if one.deleted { "deleted" } else { "declared" };
        let time = timestamp::text(one.time);
        let generation = one.generation.to_string();
        table.row(vec![generation, time, one.author.clone(), what.to_owned()]);
    }
    table.render()
}

fn of_host(host: &HostView) -> String {
    let status = &host.status;
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let mut page = format!(
        "host: {}\nkernel: {}\nprocessors: {} ({}), {}\nmemory: {}, {} available\n",
        host.name,
        text(&status.kernel),
        status.processors.count,
        text(&status.processors.online),
        text(&status.processors.model),
        size(status.memory.total_bytes),
        size(status.memory.available_bytes)
    );
    for pool in &status.huge_pages {
        let (total, free) = (pool.total, pool.free);
        page += &format!("huge pages of {} KiB: {total}, {free} free\n", pool.page_bytes >> 10);
    }
    let mut table =
        Table::new(&["interface", "state", "address", "mtu", "speed", "queues", "driver"]);
    for one in &status.interfaces {
        let number = |value: Option<u32>| value.map_or("-".to_owned(), |value| value.to_string());
        table.row(vec![
            one.name.clone(),
            text(&one.state),
            text(&one.address),
            number(one.mtu),
            number(one.speed_mbps),
            one.receive_queues.to_string(),
            text(&one.driver),
        ]);
    }
    page + "\ninterfaces\n" + &table.render()
}
