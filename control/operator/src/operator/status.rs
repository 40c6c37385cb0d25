//! What is reported of chains, functions, groups and hosts.

use super::assign::{Assignment, is_ready};
use super::resolve::Refusal;
use super::world::{Heartbeat, Placed, World};
use crate::names::{Key, host_namespace};
use crate::resource::{
    ChainHost, Condition, Conditions as _, ServiceChain, ServiceChainStatus, Status,
};

/// What became of a chain.
pub struct Outcome<'a> {
    /// Why it is refused, if it is.
    pub refusal: Option<&'a Refusal>,
    /// Where it is to run.
    pub assignment: &'a Assignment,
    /// Its placements.
    pub placed: &'a [Placed],
}

/// The status of a chain.
pub fn of_chain(chain: &ServiceChain, outcome: &Outcome<'_>, now: &str) -> ServiceChainStatus {
    let before = chain.status.clone().unwrap_or_default();
    let generation = chain.metadata.generation.unwrap_or_default();
    let active = || outcome.placed.iter().filter(|one| !one.is_ending());
    let hosts = &outcome.assignment.hosts;
    let assigned = || active().filter(|one| hosts.contains(&one.host));
    let ready = assigned().filter(|one| is_current(one, generation) && is_ready(one)).count();
    let conditions = vec![
        accepted(outcome, generation),
        assigned_to_hosts(chain, outcome.assignment),
        running(chain, outcome, ready),
    ];
    ServiceChainStatus {
        observed_generation: generation,
        hosts: hosts.union(&outcome.assignment.leaving).cloned().collect(),
        ready_replicas: i32::try_from(ready).unwrap_or(i32::MAX),
        conditions: conditions.since(&before.conditions, generation, now),
    }
}

/// The status of a chain that is being deleted.
pub fn of_ending(chain: &ServiceChain, placed: &[Placed], now: &str) -> ServiceChainStatus {
    let before = chain.status.clone().unwrap_or_default();
    let generation = chain.metadata.generation.unwrap_or_default();
    let hosts: Vec<String> = placed.iter().map(|one| one.host.clone()).collect();
    let message = format!(
        "it is deleted when its agents took it back from {}; delete the ChainHost of one that does \
         not come back",
        hosts.join(", ")
    );
    let conditions = vec![
        Condition::new("Placed", false, "Ending", message.clone()),
        Condition::new("Ready", false, "Ending", message),
    ];
    ServiceChainStatus {
        observed_generation: generation,
        hosts,
        ready_replicas: 0,
        conditions: conditions.since(&before.conditions, generation, now),
    }
}

/// Whether a placement is of the chain as it is now.
fn is_current(placed: &Placed, generation: i64) -> bool {
    placed.placement.spec.chain.generation == generation
}

/// What an agent reports of a placement by a type of condition, if that is of the placement as it
/// is now.
fn reported<'a>(placed: &'a Placed, type_: &str) -> Option<&'a Condition> {
    let generation = placed.placement.metadata.generation.unwrap_or_default();
    let status = placed.placement.status.as_ref()?;
    status.conditions.of_type(type_).filter(|_| status.observed_generation == generation)
}

/// Whether the specification is right: here, and at the manager of each host.
fn accepted(outcome: &Outcome<'_>, generation: i64) -> Condition {
    if let Some(refusal) = outcome.refusal {
        return Condition::new("Accepted", false, refusal.reason, refusal.message.clone());
    }
    let current = outcome.placed.iter().filter(|one| is_current(one, generation));
    let mut refused = current.filter_map(|one| {
        let condition = reported(one, "Declared")?;
        (condition.status == Status::False).then_some((one, condition))
    });
    match refused.next() {
        Some((one, condition)) => {
            let message = format!("host {}: {}", one.host, condition.message);
            Condition::new("Accepted", false, &condition.reason, message)
        }
        None => Condition::new("Accepted", true, "Accepted", "the chain can run"),
    }
}

fn assigned_to_hosts(chain: &ServiceChain, assignment: &Assignment) -> Condition {
    let have = assignment.hosts.len();
    let wanted = chain.spec.replicas;
    if let Some(why) = &assignment.missing {
        let message = format!("{have} of {wanted} replicas have a host. {why}");
        return Condition::new("Placed", false, "NoHost", message);
    }
    let names = |hosts: &std::collections::BTreeSet<String>| {
        hosts.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    };
    match assignment.leaving.is_empty() {
        true => Condition::new("Placed", true, "Placed", names(&assignment.hosts)),
        false => {
            let (to, from) = (names(&assignment.hosts), names(&assignment.leaving));
            let message = format!("moves to {to}; leaves {from} when it is ready there");
            Condition::new("Placed", true, "Moving", message)
        }
    }
}

fn running(chain: &ServiceChain, outcome: &Outcome<'_>, ready: usize) -> Condition {
    let wanted = usize::try_from(chain.spec.replicas).unwrap_or(1);
    if chain.spec.stopped {
        return Condition::new("Ready", false, "Stopped", "spec.stopped is true");
    }
    if ready >= wanted {
        let message = format!("{ready} of {wanted} replicas run");
        return Condition::new("Ready", true, "Running", message);
    }
    if let Some(refusal) = outcome.refusal {
        return Condition::new("Ready", false, refusal.reason, refusal.message.clone());
    }
    let assigned = outcome
        .placed
        .iter()
        .filter(|one| outcome.assignment.hosts.contains(&one.host) && !one.is_ending());
    let causes = assigned.filter_map(|one| {
        let condition = reported(one, "Ready")?;
        (!condition.holds())
            .then(|| (condition, format!("host {}: {}", one.host, condition.message)))
    });
    let causes: Vec<(&Condition, String)> = causes.collect();
    let message = |why: &str| format!("{ready} of {wanted} replicas run; {why}");
    match (causes.as_slice(), &outcome.assignment.missing) {
        ([(condition, why), ..], _) => {
            Condition::new("Ready", false, &condition.reason, message(why))
        }
        ([], Some(why)) => Condition::new("Ready", false, "NoHost", message(why)),
        ([], None) => {
            Condition::new("Ready", false, "Waiting", message("the agents have not answered yet"))
        }
    }
}

/// Whether a host can take chains.
pub fn of_host(name: &str, host: &ChainHost, world: &World) -> Condition {
    let agent = host.status.as_ref().and_then(|status| status.agent.as_ref());
    let (holds, reason, message) = match world.heartbeat(name) {
        Heartbeat::Never => {
            let namespace = host_namespace(name);
            let remedy = format!(
                "start `thruway-operator agent --host {name}` there; it needs the namespace \
                 {namespace}"
            );
            (false, "NoAgent", remedy)
        }
        Heartbeat::Late | Heartbeat::Lost => {
            let remedy = "its agent renews its lease no more; look at the host. Delete the \
                          ChainHost if it does not come back: its chains then move";
            (false, "AgentLate", remedy.to_owned())
        }
        Heartbeat::Fresh => match agent.map(|agent| agent.manager.as_str()) {
            Some("" | "answers") | None if host.spec.drain => {
                (true, "Draining", "its chains move to other hosts, or stop".to_owned())
            }
            Some("" | "answers") | None => (true, "Ready", "takes chains".to_owned()),
            Some(why) => (false, "NoManager", format!("its manager: {why}")),
        },
    };
    Condition::new("Ready", holds, reason, message)
}

/// Chains of a namespace that use a function: all versions, or one (`words@1.0`).
pub fn users<'a>(world: &'a World, function: &Key) -> impl Iterator<Item = &'a Key> {
    let (namespace, name) = (function.namespace.clone(), function.name.clone());
    world.chains.iter().filter_map(move |(key, chain)| {
        let mut used = chain.spec.functions.values();
        let is_it = |text: &String| text.split(['@', ' ']).next() == Some(name.as_str());
        (key.namespace == namespace && used.any(is_it)).then_some(key)
    })
}

/// The name of an object, for messages.
pub fn name_of(object: &impl kube::ResourceExt) -> Key {
    Key::new(&object.namespace().unwrap_or_default(), &object.name_any())
}
