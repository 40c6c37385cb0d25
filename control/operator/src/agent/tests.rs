//! Decisions against a plain model of a manager.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use thruway_manager::replicas::{ReplicaStatus, ReplicasStatus, RolloutStatus};
use thruway_manager::{ChainSpec, ChainStatus, Condition, ConditionKind};

use super::decide::{Act, CLUSTER, Host, LocalChain, RETRY, Refused, decide, unknown};
use crate::resource::{
    AGENT_FINALIZER, ChainPlacement, ChainPlacementSpec, Conditions as _, DeclaredFunction,
    DeclaredGroup, FunctionReplicas, FunctionScaling, OnDemand, OnHostLoss,
};

fn empty() -> Host {
    Host {
        placements: BTreeMap::new(),
        chains: BTreeMap::new(),
        functions: BTreeMap::new(),
        groups: BTreeMap::new(),
        refused: BTreeMap::new(),
        ending: BTreeMap::new(),
        is_leased: true,
        now: Instant::now(),
        clock: "2026-01-01T00:00:00Z".into(),
    }
}

fn placement(name: &str, spec: ChainPlacementSpec) -> Arc<ChainPlacement> {
    let mut one = ChainPlacement::new(name, spec);
    one.metadata.generation = Some(1);
    one.metadata.finalizers = Some(vec![AGENT_FINALIZER.into()]);
    Arc::new(one)
}

fn asked(text: &str) -> ChainPlacementSpec {
    ChainPlacementSpec { configuration: text.into(), threads: 1, ..Default::default() }
}

fn of_people(text: &str) -> LocalChain {
    let spec = ChainSpec { configuration: text.into(), ..ChainSpec::default() };
    LocalChain { generation: 1, spec, status: None }
}

impl Host {
    fn assign(&mut self, name: &str, spec: ChainPlacementSpec) {
        self.placements.insert(name.into(), placement(name, spec));
    }

    /// Does what the manager and the API server do.
    fn carry_out(&mut self, act: &Act) {
        match act {
            Act::DeclareFunction(name, spec) => {
                self.functions.insert(name.clone(), (**spec).clone());
            }
            Act::DeclareGroup(name, spec) => {
                for one in &spec.functions {
                    assert!(self.functions.contains_key(one.as_str()), "{one} is not declared");
                }
                self.groups.insert(name.clone(), (**spec).clone());
            }
            Act::TakeBackGroup(name) => {
                let mut named = self.chains.values().flat_map(|chain| &chain.spec.groups);
                assert!(named.all(|one| one.as_str() != name), "{name} is named by a chain");
                self.groups.remove(name);
            }
            Act::Declare(name, spec, over) => {
                for one in &spec.groups {
                    assert!(self.groups.contains_key(one.as_str()), "{one} is not declared");
                }
                let generation = self.chains.get(name).map_or(0, |chain| chain.generation);
                assert_eq!(generation, *over, "it is for the generation that was looked at");
                let next = generation + 1;
                let condition = |kind| Condition {
                    kind,
                    holds: true,
                    reason: "Started".into(),
                    message: String::new(),
                    since: std::time::SystemTime::UNIX_EPOCH,
                };
                let conditions =
                    [ConditionKind::Ready, ConditionKind::UpToDate].map(condition).to_vec();
                let status =
                    ChainStatus { observed_generation: next, conditions, ..ChainStatus::default() };
                let chain =
                    LocalChain { generation: next, spec: (**spec).clone(), status: Some(status) };
                self.chains.insert(name.clone(), chain);
            }
            Act::TakeBack(name, _) => _ = self.chains.remove(name),
            Act::TakeBackFunction(name) => {
                let mut members = self.groups.values().flat_map(|group| &group.functions);
                assert!(members.all(|one| one.as_str() != name), "{name} is in a group");
                self.functions.remove(name);
            }
            Act::Report(name, status) => {
                let placement = self.placements.get_mut(name).expect("it is there");
                Arc::make_mut(placement).status = Some((**status).clone());
            }
            Act::Release(name, _) => _ = self.placements.remove(name),
        }
    }

    #[track_caller]
    fn converge(&mut self) {
        for _ in 0..8 {
            let acts = decide(self);
            if acts.is_empty() {
                return;
            }
            acts.iter().for_each(|act| self.carry_out(act));
        }
        panic!("it does not converge: {:#?}", decide(self));
    }

    fn delete(&mut self, name: &str) {
        if let Some(one) = self.placements.get_mut(name) {
            let time = Timestamp::from_second(1_000).expect("a time");
            Arc::make_mut(one).metadata.deletion_timestamp = Some(Time(time));
        }
    }

    fn reason(&self, name: &str) -> String {
        let status = self.placements[name].status.clone().expect("a status");
        status.conditions.of_type("Ready").expect("a condition").reason.clone()
    }
}

#[test]
fn what_is_refused_is_reported_and_tried_again_later() {
    let mut host = empty();
    host.assign("d--web", asked("Idel;"));
    let acts = decide(&host);
    let spec = acts.iter().find_map(|act| match act {
        Act::Declare(_, spec, 0) => Some((**spec).clone()),
        _ => None,
    });
    let refused = Refused {
        spec: spec.expect("it is declared"),
        reason: "ConfigurationRefused".into(),
        message: "no element Idel; did you mean Idle?".into(),
        time: host.now,
    };
    host.refused.insert("d--web".into(), refused);
    host.converge();
    assert_eq!(host.reason("d--web"), "ConfigurationRefused");
    host.now += RETRY;
    assert!(decide(&host).iter().any(|act| matches!(act, Act::Declare(..))));
    host.assign("d--web", asked("Idle -> Discard;"));
    host.converge();
    assert_eq!(host.reason("d--web"), "Running");
}

#[test]
fn functions_are_declared_before_their_chains_and_go_after_them() {
    let mut host = empty();
    let mut spec = asked("Idle -> Nf($w) -> Discard;");
    spec.functions.insert("w".into(), "d--words@1 hug".into());
    let function = DeclaredFunction { name: "d--words@1".into(), ..Default::default() };
    spec.declared.push(function);
    host.assign("d--web", spec);
    host.functions.insert("own@1".into(), Default::default());
    host.converge();
    assert_eq!(host.functions["d--words@1"].managed_by.as_deref(), Some(CLUSTER));
    host.delete("d--web");
    host.converge();
    assert_eq!(host.functions.keys().collect::<Vec<_>>(), ["own@1"]);
    assert!(host.chains.is_empty() && host.placements.is_empty());
}

#[test]
fn groups_come_before_their_chains_and_name_what_the_host_has() {
    let mut host = empty();
    let function =
        |name: &str| DeclaredFunction { name: name.into(), ..DeclaredFunction::default() };
    let group = |members: &[&str]| DeclaredGroup {
        name: "d--edge".into(),
        functions: members.iter().map(|name| (*name).to_owned()).collect(),
    };
    let spec = |version: &str, groups: Vec<DeclaredGroup>| ChainPlacementSpec {
        functions: [("w".into(), format!("d--words@{version}"))].into(),
        declared: vec![function(&format!("d--words@{version}"))],
        groups,
        ..asked("Idle -> Nf($w) -> Discard;")
    };
    let all = group(&["d--words@1", "d--words@2", "d--other@1"]);
    host.assign("d--web", spec("1", vec![all.clone()]));
    host.converge();
    let members = |host: &Host| {
        let group = host.groups.get("d--edge").map(|group| group.functions.clone());
        group.unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(members(&host), ["d--words@1"]);
    assert_eq!(host.chains["d--web"].spec.groups.len(), 1);
    host.assign("d--web", spec("2", vec![all]));
    host.converge();
    assert_eq!(members(&host), ["d--words@2"]);
    assert_eq!(host.functions.keys().collect::<Vec<_>>(), ["d--words@2"]);
    // A group without any function of this host is none.
    host.assign("d--web", spec("2", vec![group(&["d--other@1"])]));
    host.converge();
    assert!(host.groups.is_empty() && host.chains["d--web"].spec.groups.is_empty());
    host.assign("d--web", spec("2", vec![group(&["d--words@2"])]));
    host.converge();
    assert_eq!(members(&host), ["d--words@2"]);
    host.delete("d--web");
    host.converge();
    assert!(host.groups.is_empty() && host.functions.is_empty());
}

/// Replicas that run a version, as a manager reports them.
fn running(versions: &[&str], from: Option<&str>) -> ReplicasStatus {
    let replica =
        |version: &&str| ReplicaStatus { version: (*version).into(), ..ReplicaStatus::default() };
    let rollout = from.map(|from| RolloutStatus {
        from: from.into(),
        to: versions[0].into(),
        phase: "canary".into(),
        percent: Some(10),
        since: std::time::SystemTime::UNIX_EPOCH,
        worse: None,
    });
    let replicas = versions.iter().map(replica).collect();
    ReplicasStatus { replicas, rollout, ..ReplicasStatus::default() }
}

#[test]
fn policies_go_to_the_manager_and_a_version_stays_while_replicas_run_it() {
    let mut host = empty();
    let function = |version: &str| DeclaredFunction {
        name: format!("d--words@{version}"),
        path: "/usr/lib/words".into(),
        ..DeclaredFunction::default()
    };
    let spec = |version: &str| {
        let scaling = FunctionScaling { min: 1, max: 4, waiting: Some(9), calm: None, ahead: None };
        let replicas = FunctionReplicas { scaling: Some(scaling), ..FunctionReplicas::default() };
        let needed = OnDemand { when: "d.flooded".into(), calm: Some("1s".into()) };
        ChainPlacementSpec {
            functions: [("words".into(), format!("d--words@{version} attack"))].into(),
            declared: vec![function(version)],
            function_replicas: [("words".into(), replicas)].into(),
            on_demand: [("words".into(), needed)].into(),
            ..asked("Idle;")
        }
    };
    host.assign("d--web", spec("1"));
    host.converge();
    let kept = &host.chains["d--web"].spec;
    let scaling = kept.replicas["words"].scaling.clone().expect("bounds");
    assert_eq!((scaling.min, scaling.max, scaling.waiting), (1, 4, Some(9)));
    assert_eq!(kept.on_demand["words"].when, "d.flooded");

    host.assign("d--web", spec("2"));
    let old = ["d--words@1", "d--words@2"];
    for (status, wanted) in [
        (running(&["d--words@2 attack", "d--words@1 attack"], None), &old[..]),
        (running(&["d--words@2 attack"], Some("d--words@1 attack")), &old[..]),
        (running(&["d--words@2 attack"], None), &old[1..]),
    ] {
        let report = |host: &mut Host| {
            let chain = host.chains.get_mut("d--web").expect("it is there");
            chain.status.as_mut().expect("a status").replicas = vec![status.clone()];
        };
        report(&mut host);
        // One change of the manager's chain empties the status of this model.
        for _ in 0..4 {
            decide(&host).iter().for_each(|act| host.carry_out(act));
            report(&mut host);
        }
        assert_eq!(host.functions.keys().collect::<Vec<_>>(), wanted);
    }
}

/// A host with a chain that is being taken back and that has 10 s for its sessions.
fn ending() -> Host {
    let mut host = empty();
    host.assign("d--web", ChainPlacementSpec { drain_seconds: 10, ..asked("Idle;") });
    host.converge();
    host.delete("d--web");
    host.ending.insert("d--web".into(), host.now);
    host.converge();
    host
}

#[test]
fn a_chain_that_is_taken_back_drains_first() {
    let mut host = ending();
    assert!(host.chains["d--web"].spec.drain, "it is not taken back");
    assert_eq!(host.reason("d--web"), "Draining");
    let drained = Condition {
        kind: ConditionKind::Drained,
        holds: true,
        reason: "Drained".into(),
        message: String::new(),
        since: std::time::SystemTime::UNIX_EPOCH,
    };
    let status = host.chains.get_mut("d--web").and_then(|chain| chain.status.as_mut());
    status.expect("a status").conditions.push(drained);
    host.converge();
    assert!(host.chains.is_empty() && host.placements.is_empty());
}

#[test]
fn a_chain_that_does_not_drain_in_time_is_taken_back() {
    let mut host = ending();
    host.now += Duration::from_millis(9_999);
    assert_eq!(decide(&host), []);
    host.now += Duration::from_millis(1);
    host.converge();
    assert!(host.chains.is_empty() && host.placements.is_empty());
}

#[test]
fn a_chain_that_the_manager_does_not_drain_is_taken_back() {
    let mut host = ending();
    let chain = host.chains.get_mut("d--web").expect("it is there");
    chain.spec.drain = false;
    let refused = Refused {
        spec: ChainSpec { drain: true, ..chain.spec.clone() },
        reason: "Malformed".into(),
        message: "no field `drain`".into(),
        time: host.now,
    };
    host.refused.insert("d--web".into(), refused);
    host.converge();
    assert!(host.chains.is_empty() && host.placements.is_empty());
}

#[test]
fn without_a_lease_what_may_move_is_stopped() {
    let mut host = empty();
    host.assign("d--stays", asked("Idle -> Discard;"));
    let on_host_loss = OnHostLoss::Move;
    host.assign("d--moves", ChainPlacementSpec { on_host_loss, ..asked("Idle -> Discard;") });
    host.converge();
    host.is_leased = false;
    host.converge();
    assert!(host.chains["d--moves"].spec.stopped && !host.chains["d--stays"].spec.stopped);
    assert_eq!(host.reason("d--moves"), "Fenced");
    assert_eq!(host.reason("d--stays"), "Running");
    host.is_leased = true;
    host.converge();
    assert!(!host.chains["d--moves"].spec.stopped);
}

/// What happens to a host.
#[derive(Debug, Clone)]
enum Change {
    Assign(u8, u8, bool),
    Delete(u8),
    /// The placement is gone without a word: its finalizer was taken.
    Vanish(u8),
    /// Somebody declares a chain there.
    Declare(u8),
    Lease(bool),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..4_u8, 0..3_u8, any::<bool>())
            .prop_map(|(at, text, moves)| { Change::Assign(at, text, moves) }),
        (0..4_u8).prop_map(Change::Delete),
        (0..4_u8).prop_map(Change::Vanish),
        (0..6_u8).prop_map(Change::Declare),
        any::<bool>().prop_map(Change::Lease),
    ]
}

proptest! {
    /// Whatever happens and whichever acts are lost: what people declared stays as it is, and what
    /// is assigned runs.
    #[test]
    fn it_converges_and_never_changes_what_is_not_its_own(
        changes in proptest::collection::vec((change(), any::<u16>()), 1..16),
    ) {
        let mut host = empty();
        let mut people: BTreeMap<String, LocalChain> = BTreeMap::new();
        for (change, lost) in changes {
            match change {
                Change::Assign(at, text, moves) => {
                    let name = format!("d--c{at}");
                    let ending = host.placements.get(&name)
                        .is_some_and(|one| one.metadata.deletion_timestamp.is_some());
                    if !ending {
                        let on_host_loss = if moves { OnHostLoss::Move } else { OnHostLoss::Stay };
                        let text = format!("Idle -> Discard; // {text}");
                        let spec = ChainPlacementSpec { on_host_loss, ..asked(&text) };
                        host.assign(&name, spec);
                    }
                }
                Change::Delete(at) => host.delete(&format!("d--c{at}")),
                Change::Vanish(at) => _ = host.placements.remove(&format!("d--c{at}")),
                Change::Declare(at) => {
                    let name = format!("d--c{at}");
                    if !host.chains.contains_key(&name) {
                        people.insert(name.clone(), of_people("Idle -> Discard; // own"));
                        host.chains.insert(name.clone(), people[&name].clone());
                    }
                }
                Change::Lease(holds) => host.is_leased = holds,
            }
            for (at, act) in decide(&host).iter().enumerate() {
                if (lost >> (at % 16)) & 1 == 0 {
                    host.carry_out(act);
                }
            }
        }
        host.converge();
        for (name, chain) in &people {
            prop_assert_eq!(host.chains.get(name), Some(chain));
        }
        prop_assert_eq!(unknown(&host), people.keys().cloned().collect::<Vec<_>>());
        for (name, chain) in host.chains.iter().filter(|(name, _)| !people.contains_key(*name)) {
            let placement = host.placements.get(name);
            prop_assert!(placement.is_some(), "{} is nobody's", name);
            let asked = &placement.expect("checked").spec;
            prop_assert_eq!(&chain.spec.configuration, &asked.configuration);
            let is_fenced = !host.is_leased && asked.on_host_loss == OnHostLoss::Move;
            prop_assert_eq!(chain.spec.stopped, is_fenced);
        }
        for (name, placement) in &host.placements {
            let is_there = host.chains.contains_key(name);
            prop_assert!(is_there && placement.metadata.deletion_timestamp.is_none());
        }
    }
}
