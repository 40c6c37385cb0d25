//! What an agent does: a function of what is assigned to its host and what its manager keeps.
//!
//! It changes and deletes only what its manager keeps as the cluster's
//! ([`thruway_manager::ChainSpec::managed_by`]). Everything else is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::ResourceExt as _;
use thruway_manager::{
    ChainSpec, ChainStatus, ConditionKind, FunctionName, FunctionSpec, FunctionUse, GroupName,
    GroupSpec, Limits,
};

use crate::calls::Version;
use crate::resource::{
    AGENT_FINALIZER, ChainPlacement, ChainPlacementStatus, Condition, Conditions as _,
    DeclaredFunction, DeclaredGroup, OnHostLoss, Status,
};

/// By whom a manager knows that the cluster asked for something.
pub const CLUSTER: &str = "cluster";

/// What was refused is tried again after so long.
pub const RETRY: Duration = Duration::from_secs(10);

/// A chain as the manager keeps it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LocalChain {
    /// Number of its specification.
    pub generation: u64,
    /// The specification.
    pub spec: ChainSpec,
    /// What is observed of it.
    pub status: Option<ChainStatus>,
}

/// A refusal of the manager.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// What was refused.
    pub spec: ChainSpec,
    /// Why, one word.
    pub reason: String,
    /// Why, and what to do.
    pub message: String,
    /// When.
    pub time: Instant,
}

/// What is assigned to a host and what its manager keeps, at one moment.
#[derive(Debug, Clone)]
pub struct Host {
    /// What is assigned to it; all of it.
    pub placements: BTreeMap<String, Arc<ChainPlacement>>,
    /// What its manager keeps; all of it.
    pub chains: BTreeMap<String, LocalChain>,
    /// Functions that its manager keeps.
    pub functions: BTreeMap<String, FunctionSpec>,
    /// Groups of trust that its manager keeps.
    pub groups: BTreeMap<String, GroupSpec>,
    /// What the manager refused.
    pub refused: BTreeMap<String, Refused>,
    /// Since when placements are being taken back.
    pub ending: BTreeMap<String, Instant>,
    /// Whether the lease of the agent holds: if not, another host may run what may be moved.
    pub is_leased: bool,
    /// The time.
    pub now: Instant,
    /// The time, as conditions have it.
    pub clock: String,
}

/// Something to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Declare a function at the manager.
    DeclareFunction(String, Box<FunctionSpec>),
    /// Declare a group at the manager.
    DeclareGroup(String, Box<GroupSpec>),
    /// Declare a chain at the manager, over this generation of it (0: over none).
    Declare(String, Box<ChainSpec>, u64),
    /// Take a chain back from the manager, at this generation.
    TakeBack(String, u64),
    /// Take a group back that no chain names.
    TakeBackGroup(String),
    /// Take a function back that no chain uses.
    TakeBackFunction(String),
    /// Report of a placement.
    Report(String, Box<ChainPlacementStatus>),
    /// Let a placement go: its chain is taken back.
    Release(String, Version),
}

/// What is to be done; nothing if all is as it should be.
pub fn decide(host: &Host) -> Vec<Act> {
    let mut acts = Vec::new();
    let groups = groups(host);
    for (name, placement) in &host.placements {
        match placement.metadata.deletion_timestamp {
            Some(_) => end(name, placement, host, &mut acts),
            None => run(name, placement, (host, &groups), &mut acts),
        }
    }
    let is_orphan = |(name, chain): &(&String, &LocalChain)| {
        is_ours(chain) && !host.placements.contains_key(*name)
    };
    for (name, chain) in host.chains.iter().filter(is_orphan) {
        acts.push(Act::TakeBack(name.clone(), chain.generation));
    }
    // Before functions go: a function that a group names stays.
    change_groups(host, &groups, &mut acts);
    unused_functions(host, &mut acts);
    acts
}

/// Chains that the manager keeps and nobody in the cluster asked for.
pub fn unknown(host: &Host) -> Vec<String> {
    let others = host.chains.iter().filter(|(_, chain)| !is_ours(chain));
    others.map(|(name, _)| name.clone()).collect()
}

fn is_ours(chain: &LocalChain) -> bool {
    chain.spec.managed_by.as_deref() == Some(CLUSTER)
}

fn is_group_ours(group: &GroupSpec) -> bool {
    group.managed_by.as_deref() == Some(CLUSTER)
}

/// Which name of a placement somebody of this host has given away, and what to do.
fn taken(name: &str, placement: &ChainPlacement, host: &Host) -> Option<String> {
    if host.chains.get(name).is_some_and(|chain| !is_ours(chain)) {
        return Some(format!(
            "the manager of this host has a chain '{name}' that was declared there; take it back \
             (`thruway delete {name}`), or give the ServiceChain another name"
        ));
    }
    let is_taken = |group: &&DeclaredGroup| {
        host.groups.get(&group.name).is_some_and(|group| !is_group_ours(group))
    };
    let group = placement.spec.groups.iter().find(is_taken)?;
    Some(format!(
        "the manager of this host has a group '{0}' that was declared there; take it back \
         (`thruway delete group/{0}`), or give the TrustGroup another name",
        group.name
    ))
}

/// A placement that holds.
fn run(
    name: &str,
    placement: &ChainPlacement,
    (host, groups): (&Host, &Groups),
    acts: &mut Vec<Act>,
) {
    let mut report = |declared, ready| report((name, placement), host, vec![declared, ready], acts);
    let wanted = match spec(placement, groups, host.is_leased) {
        Ok(wanted) => wanted,
        Err(why) => {
            let ready = Condition::new("Ready", false, "FunctionMalformed", why.clone());
            return report(Condition::new("Declared", false, "FunctionMalformed", why), ready);
        }
    };
    let local = host.chains.get(name);
    if let Some(message) = taken(name, placement, host) {
        let ready = Condition::new("Ready", false, "NameTaken", message.clone());
        return report(Condition::new("Declared", false, "NameTaken", message), ready);
    }
    let is_so = local.is_some_and(|chain| chain.spec == wanted);
    let refused = host.refused.get(name).filter(|refused| refused.spec == wanted && !is_so);
    let declared = match refused {
        Some(refused) => {
            Condition::new("Declared", false, &refused.reason, refused.message.clone())
        }
        None if is_so => Condition::new("Declared", true, "Declared", "the manager keeps it"),
        None => {
            let message = "the manager has not taken it yet";
            Condition::new("Declared", Status::Unknown, "Waiting", message)
        }
    };
    let ready = match (refused, is_so) {
        (Some(refused), _) => {
            Condition::new("Ready", false, &refused.reason, refused.message.clone())
        }
        (None, true) => ready(local, host.is_leased || wanted.stopped == placement.spec.stopped),
        (None, false) => Condition::new("Ready", false, "Waiting", declared.message.clone()),
    };
    report(declared, ready);
    let is_due =
        refused.is_none_or(|refused| host.now.saturating_duration_since(refused.time) >= RETRY);
    if !is_so && is_due {
        for function in &placement.spec.declared {
            let spec = function_spec(function);
            if host.functions.get(&function.name) != Some(&spec) {
                acts.push(Act::DeclareFunction(function.name.clone(), Box::new(spec)));
            }
        }
        let named = placement.spec.groups.iter().filter_map(|one| groups.get_key_value(&one.name));
        for (group, spec) in named.filter(|(group, spec)| host.groups.get(*group) != Some(*spec)) {
            acts.push(Act::DeclareGroup(group.clone(), Box::new(spec.clone())));
        }
        let generation = local.map_or(0, |chain| chain.generation);
        acts.push(Act::Declare(name.to_owned(), Box::new(wanted), generation));
    }
}

/// A placement that is being taken back.
fn end(name: &str, placement: &ChainPlacement, host: &Host, acts: &mut Vec<Act>) {
    if let Some(chain) = host.chains.get(name).filter(|chain| is_ours(chain)) {
        let wanted = ChainSpec { drain: true, ..chain.spec.clone() };
        if !may_drain(name, placement, host, (chain, &wanted)) {
            return acts.push(Act::TakeBack(name.to_owned(), chain.generation));
        }
        let why = match condition(chain, ConditionKind::Drained) {
            Some(drained) => drained.message.clone(),
            None => "it begins no more sessions".to_owned(),
        };
        let conditions = ["Declared", "Ready"]
            .map(|type_| Condition::new(type_, false, "Draining", why.clone()))
            .to_vec();
        report((name, placement), host, conditions, acts);
        if chain.spec != wanted {
            acts.push(Act::Declare(name.to_owned(), Box::new(wanted), chain.generation));
        }
    } else if placement.finalizers().iter().any(|one| one == AGENT_FINALIZER) {
        let version = Version::of(placement);
        acts.push(Act::Release(name.to_owned(), version));
    }
}

/// Whether a chain that is being taken back has sessions that it may wait for.
fn may_drain(
    name: &str,
    placement: &ChainPlacement,
    host: &Host,
    (chain, wanted): (&LocalChain, &ChainSpec),
) -> bool {
    let asked = &placement.spec;
    let begun = host.ending.get(name).copied().unwrap_or(host.now);
    let grace = Duration::from_secs(u64::try_from(asked.drain_seconds).unwrap_or(0));
    let is_over = host.now.saturating_duration_since(begun) >= grace;
    let drained = condition(chain, ConditionKind::Drained).is_some_and(|one| one.holds);
    let has_drained = chain.spec.drain && drained;
    let is_refused = host.refused.get(name).is_some_and(|refused| refused.spec == *wanted);
    let is_fenced = is_fenced(placement, host.is_leased);
    !(is_over || has_drained || is_refused || is_fenced || chain.spec.stopped)
}

/// Reports of a placement, if there is something new.
fn report(
    (name, placement): (&str, &ChainPlacement),
    host: &Host,
    conditions: Vec<Condition>,
    acts: &mut Vec<Act>,
) {
    let status = status_of(placement, host.chains.get(name), conditions, &host.clock);
    if placement.status.as_ref() != Some(&status) {
        acts.push(Act::Report(name.to_owned(), Box::new(status)));
    }
}

/// Groups that the placements name, with what this host has of their functions.
type Groups = BTreeMap<String, GroupSpec>;

/// The groups that placements name. One without a function that is used here is none.
fn groups(host: &Host) -> Groups {
    let used = used_functions(host);
    let holds = |one: &&Arc<ChainPlacement>| one.metadata.deletion_timestamp.is_none();
    let named = host.placements.values().filter(holds).flat_map(|one| &one.spec.groups);
    let mut groups = Groups::new();
    for group in named {
        let here = group.functions.iter().filter(|name| used.contains(name.as_str()));
        let functions: Vec<FunctionName> =
            here.filter_map(|name| FunctionName::new(name).ok()).collect();
        if !functions.is_empty() {
            let managed_by = Some(CLUSTER.to_owned());
            groups.insert(group.name.clone(), GroupSpec { functions, managed_by });
        }
    }
    groups
}

/// Makes the groups of the cluster that chains name equal to what is wanted, and takes back others.
fn change_groups(host: &Host, wanted: &Groups, acts: &mut Vec<Act>) {
    let named = host.chains.values().flat_map(|chain| &chain.spec.groups);
    let named: BTreeSet<&str> = named.map(GroupName::as_str).collect();
    for (name, group) in host.groups.iter().filter(|(_, group)| is_group_ours(group)) {
        match wanted.get(name) {
            Some(spec) if spec == group => {}
            Some(spec) => {
                let act = Act::DeclareGroup(name.clone(), Box::new(spec.clone()));
                if !acts.contains(&act) {
                    acts.push(act);
                }
            }
            None if named.contains(name.as_str()) => {}
            None => acts.push(Act::TakeBackGroup(name.clone())),
        }
    }
}

/// Functions that placements declare, chains name, or replicas run.
fn used_functions(host: &Host) -> BTreeSet<&str> {
    let declared = host.placements.values().flat_map(|one| &one.spec.declared);
    let mut used: BTreeSet<&str> = declared.map(|one| one.name.as_str()).collect();
    let by_chains = host.chains.values().flat_map(|chain| chain.spec.functions.values());
    used.extend(by_chains.map(|one| one.name.as_str()));
    used.extend(host.chains.values().flat_map(running_versions));
    used
}

/// Functions that the cluster declared and nothing uses any more.
fn unused_functions(host: &Host, acts: &mut Vec<Act>) {
    let used = used_functions(host);
    let kept = |name: &str| {
        let mut groups = host.groups.values().flat_map(|group| &group.functions);
        groups.any(|one| one.as_str() == name)
    };
    for (name, function) in &host.functions {
        let is_ours = function.managed_by.as_deref() == Some(CLUSTER);
        // A group that still names it is changed first.
        if is_ours && !used.contains(name.as_str()) && !kept(name) {
            acts.push(Act::TakeBackFunction(name.clone()));
        }
    }
}

/// The versions of functions that replicas run: during a canary also the old one, which the chain
/// no longer names.
fn running_versions(chain: &LocalChain) -> impl Iterator<Item = &str> {
    let replicas = chain.status.iter().flat_map(|status| &status.replicas);
    let running = replicas.flat_map(|function| {
        let versions = function.replicas.iter().map(|one| one.version.as_str());
        versions.chain(function.rollout.as_ref().map(|rollout| rollout.from.as_str()))
    });
    running.map(|version| version.split(' ').next().unwrap_or(version))
}

/// The chain as it is declared at the manager. Without a lease, what another host may have taken
/// is stopped.
fn spec(placement: &ChainPlacement, groups: &Groups, is_leased: bool) -> Result<ChainSpec, String> {
    let asked = &placement.spec;
    let mut functions = BTreeMap::new();
    for (variable, text) in &asked.functions {
        let used =
            FunctionUse::parse(text).map_err(|why| format!("functions.{variable}: {why}"))?;
        functions.insert(variable.clone(), used);
    }
    let mut named = Vec::new();
    for group in asked.groups.iter().filter(|one| groups.contains_key(&one.name)) {
        named.push(GroupName::new(&group.name).map_err(|why| format!("groups: {why}"))?);
    }
    Ok(ChainSpec {
        configuration: asked.configuration.clone(),
        variables: asked.variables.clone(),
        functions,
        groups: named,
        threads: u16::try_from(asked.threads).ok().filter(|threads| *threads > 1),
        cores: None,
        stopped: asked.stopped || is_fenced(placement, is_leased),
        drain: asked.drain,
        replicas: of_manager(&asked.function_replicas),
        on_demand: of_manager(&asked.on_demand),
        managed_by: Some(CLUSTER.to_owned()),
    })
}

/// Whether another host may have taken the chain.
fn is_fenced(placement: &ChainPlacement, is_leased: bool) -> bool {
    !is_leased && placement.spec.on_host_loss == OnHostLoss::Move
}

/// Policies of functions as the manager takes them.
fn of_manager<'a, A, B: From<&'a A>>(policies: &'a BTreeMap<String, A>) -> BTreeMap<String, B> {
    policies.iter().map(|(variable, policy)| (variable.clone(), B::from(policy))).collect()
}

fn function_spec(function: &DeclaredFunction) -> FunctionSpec {
    let limits = function.limits.clone();
    FunctionSpec {
        path: function.path.clone(),
        sha256: function.sha256.clone(),
        limits: Limits {
            memory: limits.memory,
            cpus: limits.cpus,
            hang: limits.hang,
            attach_timeout: limits.attach_timeout,
        },
        managed_by: Some(CLUSTER.to_owned()),
    }
}

/// What the manager observes of a chain, of a kind.
fn condition(chain: &LocalChain, kind: ConditionKind) -> Option<&thruway_manager::Condition> {
    chain.status.as_ref()?.conditions.iter().find(|one| one.kind == kind)
}

/// Whether the chain runs what the manager keeps.
fn ready(local: Option<&LocalChain>, is_allowed: bool) -> Condition {
    let no = |reason: &str, message: &str| Condition::new("Ready", false, reason, message);
    if !is_allowed {
        return no("Fenced", "the agent cannot renew its lease: another host may have the chain");
    }
    let Some(chain) = local else { return no("Waiting", "the manager does not keep it yet") };
    let Some(status) = &chain.status else {
        return no("Waiting", "the manager has not started it yet");
    };
    for kind in [ConditionKind::UpToDate, ConditionKind::Ready] {
        match condition(chain, kind) {
            Some(one) if !one.holds => return no(&one.reason, &one.message),
            None => return no("Waiting", "the manager has not looked at it yet"),
            Some(_) => {}
        }
    }
    match status.observed_generation == chain.generation {
        true => Condition::new("Ready", true, "Running", "the chain runs and answers"),
        false => no("Waiting", "the data plane runs an earlier specification"),
    }
}

fn status_of(
    placement: &ChainPlacement,
    local: Option<&LocalChain>,
    conditions: Vec<Condition>,
    clock: &str,
) -> ChainPlacementStatus {
    let before = placement.status.clone().unwrap_or_default();
    let generation = placement.metadata.generation.unwrap_or_default();
    let restarts = local.and_then(|chain| chain.status.as_ref()).map_or(0, |one| one.restarts);
    ChainPlacementStatus {
        observed_generation: generation,
        local_generation: local
            .map_or(0, |chain| i64::try_from(chain.generation).unwrap_or(i64::MAX)),
        restarts: i32::try_from(restarts).unwrap_or(i32::MAX),
        conditions: conditions.since(&before.conditions, generation, clock),
    }
}
