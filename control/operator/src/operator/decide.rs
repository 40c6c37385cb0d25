//! What the operator does: a function of what is asked for and what is observed.
//!
//! Decisions are of a whole and consistent moment, may be made again at any time, and come to
//! nothing once what is observed is what is asked for. Nothing is deleted but placements that the
//! operator made ([`World::own_placements`]), by their UID and resource version: one that changed
//! since it was observed stays.

use std::collections::BTreeMap;

use kube::ResourceExt as _;

use super::assign::{Assigner, Assignment};
use super::resolve::{Refusal, resolve};
use super::status::{self, Outcome};
use super::world::{Placed, World};
use crate::calls::Version;
use crate::names::{Key, host_namespace};
use crate::resource::{
    AGENT_FINALIZER, ChainHost, ChainHostStatus, ChainPlacementSpec, Condition, Conditions as _,
    NetworkFunctionStatus, OPERATOR_FINALIZER, OnHostDrain, ServiceChain, ServiceChainStatus,
    TrustGroupStatus,
};

/// A kind that the operator holds by a finalizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// A chain, until its placements are gone.
    Chain,
    /// A function, until no chain uses it.
    Function,
    /// A host, until its placements are gone.
    Host,
}

/// Something to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Make the namespace of a host, and let its agent use it.
    Admit(String, Version),
    /// Have a host run a chain.
    Assign(String, Box<ChainPlacementSpec>),
    /// Have a host run a chain no more.
    Withdraw(Key, Version),
    /// The same, of a chain that is gone: if it surely is.
    Sweep(Key, Version, Key),
    /// Do not wait for the agent of a host that is deleted.
    Abandon(Key, Version),
    /// Report of a chain.
    ReportChain(Key, Box<ServiceChainStatus>),
    /// Report of a function.
    ReportFunction(Key, NetworkFunctionStatus),
    /// Report of a group.
    ReportGroup(Key, TrustGroupStatus),
    /// Report of a host.
    ReportHost(String, Box<ChainHostStatus>),
    /// Keep a resource from being deleted before the operator saw it.
    Hold(Held, Key, Version),
    /// Let a resource be deleted.
    Release(Held, Key, Version),
}

/// What is to be done; nothing if all is as it should be.
pub fn decide(world: &World) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut placed: BTreeMap<Key, Vec<Placed>> = BTreeMap::new();
    for one in world.own_placements() {
        placed.entry(one.chain()).or_default().push(one);
    }
    let all: Vec<Placed> = placed.values().flatten().cloned().collect();
    let mut assigner = Assigner::new(world, &all);
    // Placements first: reports can wait for them, traffic cannot.
    let mut reports = Vec::new();
    for (key, chain) in &world.chains {
        let mine = placed.remove(key).unwrap_or_default();
        match chain.metadata.deletion_timestamp {
            Some(_) => {
                end_chain(key, chain, &mine, &mut actions);
                let status = status::of_ending(chain, &mine, &world.now);
                if !mine.is_empty() && chain.status.as_ref() != Some(&status) {
                    reports.push(Action::ReportChain(key.clone(), Box::new(status)));
                }
            }
            None => {
                run_chain((key, chain), &mine, (world, &mut assigner), (&mut actions, &mut reports))
            }
        }
    }
    // What is left belongs to chains that are gone, or that this copy does not have yet.
    for orphan in placed.values().flatten().filter(|one| !one.is_ending()) {
        let (key, version) = (status::name_of(&*orphan.placement), Version::of(&*orphan.placement));
        actions.push(Action::Sweep(key, version, orphan.chain()));
    }
    for (name, host) in &world.hosts {
        let here: Vec<&Placed> = all.iter().filter(|one| one.host == *name).collect();
        run_host((name, host), &here, world, (&mut actions, &mut reports));
    }
    abandon(world, &all, &mut actions);
    functions(world, &mut actions, &mut reports);
    groups(world, &mut reports);
    actions.extend(reports);
    actions
}

/// A chain that is asked for.
fn run_chain(
    (key, chain): (&Key, &ServiceChain),
    placed: &[Placed],
    (world, assigner): (&World, &mut Assigner<'_>),
    (actions, reports): (&mut Vec<Action>, &mut Vec<Action>),
) {
    if !is_held(chain) {
        actions.push(Action::Hold(Held::Chain, key.clone(), Version::of(chain)));
    }
    let resolved = resolve(key, chain, world);
    let assignment = match &resolved {
        Ok(spec) => assigner.assign((key, chain), spec, placed),
        // What runs goes on as it is.
        Err(_) => as_it_is(placed),
    };
    if let Ok(spec) = &resolved {
        let specs = assignment.hosts.iter().map(|host| (host, on_host(spec, chain, host, world)));
        assign(specs, placed, actions);
    }
    let dropped = placed.iter().filter(|one| assignment.dropped.contains(&one.host));
    actions.extend(dropped.filter(|one| !one.is_ending()).map(withdraw));
    let refusal: Option<&Refusal> = resolved.as_ref().err();
    let outcome = Outcome { refusal, assignment: &assignment, placed };
    let status = status::of_chain(chain, &outcome, &world.now);
    if chain.status.as_ref() != Some(&status) {
        reports.push(Action::ReportChain(key.clone(), Box::new(status)));
    }
}

/// Placements of a chain whose new specification is refused.
fn as_it_is(placed: &[Placed]) -> Assignment {
    let hosts = placed.iter().filter(|one| !one.is_ending()).map(|one| one.host.clone());
    Assignment { hosts: hosts.collect(), ..Assignment::default() }
}

/// What a host is to run of a chain: on one that drains, it ends with its sessions.
fn on_host(
    spec: &ChainPlacementSpec,
    chain: &ServiceChain,
    host: &str,
    world: &World,
) -> ChainPlacementSpec {
    let drains = world.hosts.get(host).is_some_and(|host| host.spec.drain);
    let drain = drains && chain.spec.placement.on_host_drain == OnHostDrain::Stop;
    ChainPlacementSpec { drain, ..spec.clone() }
}

/// Has hosts run a chain as it is now. A host that it leaves keeps what it has: two hosts do not
/// change at once.
fn assign<'a>(
    specs: impl Iterator<Item = (&'a String, ChainPlacementSpec)>,
    placed: &[Placed],
    actions: &mut Vec<Action>,
) {
    for (host, spec) in specs {
        let mut here = placed.iter().filter(|one| one.host == *host);
        let is_so = here.any(|one| !one.is_ending() && one.placement.spec == spec);
        // One that is ending is made again when it is gone.
        let is_ending = placed.iter().any(|one| one.host == *host && one.is_ending());
        if !is_so && !is_ending {
            actions.push(Action::Assign(host.clone(), Box::new(spec)));
        }
    }
}

/// A chain that is being deleted: it goes when all hosts took it back.
fn end_chain(key: &Key, chain: &ServiceChain, placed: &[Placed], actions: &mut Vec<Action>) {
    actions.extend(placed.iter().filter(|one| !one.is_ending()).map(withdraw));
    if placed.is_empty() && is_held(chain) {
        actions.push(Action::Release(Held::Chain, key.clone(), Version::of(chain)));
    }
}

/// A host.
fn run_host(
    (name, host): (&str, &ChainHost),
    here: &[&Placed],
    world: &World,
    (actions, reports): (&mut Vec<Action>, &mut Vec<Action>),
) {
    let key = Key::new("", name);
    let is_deleted = host.metadata.deletion_timestamp.is_some();
    if is_deleted && here.is_empty() && is_held(host) {
        actions.push(Action::Release(Held::Host, key.clone(), Version::of(host)));
    }
    if !is_deleted && !is_held(host) {
        actions.push(Action::Hold(Held::Host, key, Version::of(host)));
    }
    let before = host.status.clone().unwrap_or_default();
    let is_admitted = world.admitted.contains(name);
    if !is_deleted && !is_admitted {
        actions.push(Action::Admit(name.to_owned(), Version::of(host)));
    }
    let generation = host.metadata.generation.unwrap_or_default();
    let conditions = vec![status::of_host(name, host, world)];
    let status = ChainHostStatus {
        observed_generation: generation,
        namespace: if is_admitted { host_namespace(name) } else { before.namespace.clone() },
        chains: i32::try_from(here.iter().filter(|one| !one.is_ending()).count()).unwrap_or(0),
        conditions: conditions.since(&before.conditions, generation, &world.now),
        agent: before.agent.clone(),
    };
    if status != before {
        let status = ChainHostStatus { agent: None, ..status };
        reports.push(Action::ReportHost(name.to_owned(), Box::new(status)));
    }
}

/// Placements on hosts that are gone, or are being deleted and not heard of: nobody will take
/// them back.
fn abandon(world: &World, placed: &[Placed], actions: &mut Vec<Action>) {
    for one in placed.iter().filter(|one| one.is_ending()) {
        let is_waited_for = one.placement.finalizers().iter().any(|name| name == AGENT_FINALIZER);
        let is_gone = match world.hosts.get(&one.host) {
            None => true,
            Some(host) => {
                let is_deleted = host.metadata.deletion_timestamp.is_some();
                is_deleted && world.heartbeat(&one.host) != super::Heartbeat::Fresh
            }
        };
        if is_waited_for && is_gone {
            let version = Version::of(&*one.placement);
            actions.push(Action::Abandon(status::name_of(&*one.placement), version));
        }
    }
}

/// Functions are kept for as long as chains use them.
fn functions(world: &World, actions: &mut Vec<Action>, reports: &mut Vec<Action>) {
    for (key, function) in &world.functions {
        let users: Vec<String> = status::users(world, key).map(|one| one.name.clone()).collect();
        let is_deleted = function.metadata.deletion_timestamp.is_some();
        if is_deleted && users.is_empty() && is_held(&**function) {
            actions.push(Action::Release(Held::Function, key.clone(), Version::of(&**function)));
        }
        if !is_deleted && !is_held(&**function) {
            actions.push(Action::Hold(Held::Function, key.clone(), Version::of(&**function)));
        }
        let condition = match (users.is_empty(), is_deleted) {
            (true, _) => Condition::new("InUse", false, "NotUsed", "no chain uses it"),
            (false, true) => {
                let message = format!(
                    "it is deleted when no chain uses it any more; change or delete {}",
                    users.join(", ")
                );
                Condition::new("InUse", true, "DeletionWaits", message)
            }
            (false, false) => Condition::new("InUse", true, "Used", users.join(", ")),
        };
        let before = function.status.clone().unwrap_or_default();
        let generation = function.metadata.generation.unwrap_or_default();
        let conditions = vec![condition].since(&before.conditions, generation, &world.now);
        let status =
            NetworkFunctionStatus { observed_generation: generation, used_by: users, conditions };
        if function.status.as_ref() != Some(&status) {
            reports.push(Action::ReportFunction(key.clone(), status));
        }
    }
}

/// Whether the functions of groups are there.
fn groups(world: &World, reports: &mut Vec<Action>) {
    for (key, group) in &world.groups {
        let is_there = |name: &String| world.version(&key.namespace, name).is_some();
        let missing: Vec<&str> = group
            .spec
            .functions
            .iter()
            .filter(|name| !is_there(name))
            .map(String::as_str)
            .collect();
        let condition = match missing.is_empty() {
            true => Condition::new("Resolved", true, "Resolved", "all functions are declared"),
            false => {
                let missing = missing.join(", ");
                let message = format!(
                    "there is no {missing}; declare it as a NetworkFunction, or write NAME@VERSION"
                );
                Condition::new("Resolved", false, "FunctionUnknown", message)
            }
        };
        let before = group.status.clone().unwrap_or_default();
        let generation = group.metadata.generation.unwrap_or_default();
        let conditions = vec![condition].since(&before.conditions, generation, &world.now);
        let status = TrustGroupStatus { observed_generation: generation, conditions };
        if group.status.as_ref() != Some(&status) {
            reports.push(Action::ReportGroup(key.clone(), status));
        }
    }
}

fn withdraw(placed: &Placed) -> Action {
    Action::Withdraw(status::name_of(&*placed.placement), Version::of(&*placed.placement))
}

/// Whether the operator holds a resource by its finalizer.
fn is_held(object: &impl kube::ResourceExt) -> bool {
    object.finalizers().iter().any(|name| name == OPERATOR_FINALIZER)
}
