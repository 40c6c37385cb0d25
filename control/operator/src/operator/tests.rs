//! Decisions against a plain model of an API server and of agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use proptest::prelude::*;

use super::decide::{Held, Version};
use super::world::{Heartbeat, World};
use super::{Action, decide};
use crate::names::{Key, host_namespace};
use crate::resource::{
    AGENT_FINALIZER, ChainHost, ChainHostSpec, ChainPlacement, ChainPlacementSpec,
    ChainPlacementStatus, Condition, Conditions as _, Demand, MANAGED_BY, NetworkFunction,
    NetworkFunctionSpec, OPERATOR, OPERATOR_FINALIZER, OnHostLoss, PlacementRules, ServiceChain,
    ServiceChainSpec, Spread,
};

/// A cluster as the API server has it, with agents that do what they should.
#[derive(Clone)]
struct Model {
    world: World,
    number: u64,
    /// Placements of others, which must stay.
    foreign: Vec<Key>,
}

fn deleted_now() -> Option<Time> {
    Some(Time(Timestamp::from_second(1_000).expect("a time")))
}

impl Model {
    fn new() -> Model {
        let world = World { now: "2026-01-01T00:00:00Z".into(), ..World::default() };
        Model { world, number: 0, foreign: Vec::new() }
    }

    /// The next resource version.
    fn next(&mut self) -> String {
        self.number += 1;
        self.number.to_string()
    }

    fn host(&mut self, name: &str, spec: ChainHostSpec, heartbeat: Heartbeat) {
        let mut host = ChainHost::new(name, spec);
        self.born(&mut host.metadata);
        self.world.hosts.insert(name.into(), Arc::new(host));
        self.world.heartbeats.insert(name.into(), heartbeat);
    }

    fn chain(&mut self, name: &str, spec: ServiceChainSpec) {
        let key = Key::new("default", name);
        let before = self.world.chains.get(&key).cloned();
        let mut chain = ServiceChain::new(name, spec);
        chain.metadata.namespace = Some("default".into());
        self.born(&mut chain.metadata);
        if let Some(before) = before {
            chain.metadata.uid = before.metadata.uid.clone();
            chain.metadata.finalizers = before.metadata.finalizers.clone();
            chain.metadata.generation = before.metadata.generation.map(|number| number + 1);
            chain.status = before.status.clone();
        }
        self.world.chains.insert(key, Arc::new(chain));
    }

    fn born(&mut self, metadata: &mut ObjectMeta) {
        let number = self.next();
        metadata.uid = Some(format!("uid-{number}"));
        metadata.resource_version = Some(number);
        metadata.generation = Some(1);
    }

    /// A placement that somebody else made.
    fn foreign(&mut self, host: &str, name: &str, label: Option<&str>) {
        let spec = ChainPlacementSpec::default();
        let mut placement = ChainPlacement::new(name, spec);
        placement.metadata.namespace = Some(host_namespace(host));
        placement.metadata.labels =
            label.map(|label| [(MANAGED_BY.to_owned(), label.to_owned())].into());
        self.born(&mut placement.metadata);
        let key = Key::new(&host_namespace(host), name);
        self.foreign.push(key.clone());
        self.world.placements.insert(key, Arc::new(placement));
    }

    /// Deletes a chain, as kubectl does.
    fn delete_chain(&mut self, key: &Key) {
        let Some(chain) = self.world.chains.get(key) else { return };
        let mut chain = (**chain).clone();
        match chain.finalizers().is_empty() {
            true => _ = self.world.chains.remove(key),
            false => {
                chain.metadata.deletion_timestamp = deleted_now();
                chain.metadata.resource_version = Some(self.next());
                self.world.chains.insert(key.clone(), Arc::new(chain));
            }
        }
    }

    /// Does what the API server does; what was decided of another version is refused.
    fn carry_out(&mut self, action: &Action) {
        match action {
            Action::Admit(host, _) => _ = self.world.admitted.insert(host.clone()),
            Action::Assign(host, spec) => self.assign(host, spec),
            Action::Withdraw(key, version) => self.end(key, version),
            Action::Sweep(key, version, chain) => {
                if !self.world.chains.contains_key(chain) {
                    self.end(key, version);
                }
            }
            Action::Abandon(key, version) => self.release_placement(key, version),
            Action::ReportChain(key, status) => {
                if let Some(chain) = self.world.chains.get_mut(key) {
                    Arc::make_mut(chain).status = Some((**status).clone());
                }
            }
            Action::ReportHost(name, status) => {
                if let Some(host) = self.world.hosts.get_mut(name) {
                    Arc::make_mut(host).status = Some((**status).clone());
                }
            }
            Action::ReportFunction(key, status) => {
                if let Some(function) = self.world.functions.get_mut(key) {
                    Arc::make_mut(function).status = Some(status.clone());
                }
            }
            Action::ReportGroup(..) => {}
            Action::Hold(held, key, _) => self.hold(*held, key),
            Action::Release(held, key, _) => self.release(*held, key),
        }
    }

    fn assign(&mut self, host: &str, spec: &ChainPlacementSpec) {
        let key = Key::new(&spec.chain.namespace, &spec.chain.name);
        let key = Key::new(&host_namespace(host), &key.local().expect("a name"));
        let mut placement = match self.world.placements.get(&key) {
            Some(found) => (**found).clone(),
            None => {
                let mut new = ChainPlacement::new(&key.name, spec.clone());
                new.metadata.namespace = Some(key.namespace.clone());
                self.born(&mut new.metadata);
                new
            }
        };
        if placement.spec != *spec {
            placement.metadata.generation = placement.metadata.generation.map(|one| one + 1);
        }
        placement.spec = spec.clone();
        placement.metadata.labels = Some([(MANAGED_BY.into(), OPERATOR.into())].into());
        placement.metadata.finalizers = Some(vec![AGENT_FINALIZER.into()]);
        placement.metadata.resource_version = Some(self.next());
        self.world.placements.insert(key, Arc::new(placement));
    }

    fn end(&mut self, key: &Key, version: &Version) {
        let Some(found) = self.world.placements.get(key) else { return };
        if found.resource_version().as_ref() != Some(&version.resource_version) {
            return;
        }
        let mut ending = (**found).clone();
        ending.metadata.deletion_timestamp = deleted_now();
        ending.metadata.resource_version = Some(self.next());
        self.world.placements.insert(key.clone(), Arc::new(ending));
    }

    fn release_placement(&mut self, key: &Key, version: &Version) {
        let found = self.world.placements.get(key).and_then(|found| found.resource_version());
        if found.as_ref() == Some(&version.resource_version) {
            self.world.placements.remove(key);
        }
    }

    fn hold(&mut self, held: Held, key: &Key) {
        let finalizers = || Some(vec![OPERATOR_FINALIZER.to_owned()]);
        match held {
            Held::Chain => {
                if let Some(chain) = self.world.chains.get_mut(key) {
                    Arc::make_mut(chain).metadata.finalizers = finalizers();
                }
            }
            Held::Host => {
                if let Some(host) = self.world.hosts.get_mut(&key.name) {
                    Arc::make_mut(host).metadata.finalizers = finalizers();
                }
            }
            Held::Function => {
                if let Some(function) = self.world.functions.get_mut(key) {
                    Arc::make_mut(function).metadata.finalizers = finalizers();
                }
            }
        }
    }

    fn release(&mut self, held: Held, key: &Key) {
        match held {
            Held::Chain => _ = self.world.chains.remove(key),
            Held::Host => _ = self.world.hosts.remove(&key.name),
            Held::Function => _ = self.world.functions.remove(key),
        }
    }

    /// Agents that are heard of do what they should.
    fn agents(&mut self) {
        let all: Vec<(Key, Arc<ChainPlacement>)> =
            self.world.placements.iter().map(|(key, one)| (key.clone(), one.clone())).collect();
        for (key, placement) in all {
            let host = crate::names::host_of(&key.namespace).unwrap_or_default();
            if self.world.heartbeat(host) != Heartbeat::Fresh || self.foreign.contains(&key) {
                continue;
            }
            if placement.metadata.deletion_timestamp.is_some() {
                self.world.placements.remove(&key);
                continue;
            }
            let generation = placement.metadata.generation.unwrap_or_default();
            let mut placement = (*placement).clone();
            let conditions = vec![
                Condition::new("Declared", true, "Declared", ""),
                Condition::new("Ready", true, "Running", ""),
            ];
            let status = ChainPlacementStatus {
                observed_generation: generation,
                conditions,
                ..ChainPlacementStatus::default()
            };
            if placement.status.as_ref() != Some(&status) {
                placement.status = Some(status);
                placement.metadata.resource_version = Some(self.next());
                self.world.placements.insert(key, Arc::new(placement));
            }
        }
    }

    /// Decides and acts until nothing is left to do.
    #[track_caller]
    fn converge(&mut self) {
        for _ in 0..40 {
            let actions = decide(&self.world);
            if actions.is_empty() {
                return;
            }
            actions.iter().for_each(|action| self.carry_out(action));
            self.agents();
        }
        panic!("it does not converge: {:#?}", decide(&self.world));
    }

    /// Hosts that run a chain, or are to.
    fn hosts_of(&self, chain: &str) -> Vec<String> {
        let all = self.world.own_placements();
        let mine = all.filter(|one| one.chain().name == chain && !one.is_ending());
        mine.map(|one| one.host).collect()
    }

    /// Hosts that are heard of and run a chain.
    fn serving(&self, chain: &str) -> usize {
        let all = self.world.own_placements();
        let mine = all.filter(|one| one.chain().name == chain && !one.is_ending());
        let fresh = mine.filter(|one| self.world.heartbeat(&one.host) == Heartbeat::Fresh);
        fresh.filter(super::assign::is_ready).count()
    }

    fn condition(&self, chain: &str, type_: &str) -> (bool, String, String) {
        let status = self.world.chains[&Key::new("default", chain)].status.clone();
        let condition = status.expect("a status").conditions.of_type(type_).cloned();
        let one = condition.expect("a condition");
        (one.holds(), one.reason, one.message)
    }
}

fn chain() -> ServiceChainSpec {
    let configuration = "Idle -> Discard;".to_owned();
    ServiceChainSpec { configuration, threads: 1, replicas: 1, ..ServiceChainSpec::default() }
}

fn with_rules(rules: PlacementRules) -> ServiceChainSpec {
    ServiceChainSpec { placement: rules, ..chain() }
}

#[test]
fn a_drained_host_is_left_when_the_next_one_is_ready() {
    let mut model = Model::new();
    model.host("a", ChainHostSpec::default(), Heartbeat::Fresh);
    model.chain("web", chain());
    model.converge();
    assert_eq!(model.hosts_of("web"), ["a"]);
    model.host("a", ChainHostSpec { drain: true, ..ChainHostSpec::default() }, Heartbeat::Fresh);
    model.converge();
    let (holds, reason, message) = model.condition("web", "Placed");
    assert_eq!((holds, reason.as_str()), (false, "NoHost"));
    assert!(message.contains("drain"), "{message}");
    assert_eq!(model.hosts_of("web"), ["a"], "it stays where it is");
    model.host("b", ChainHostSpec::default(), Heartbeat::Fresh);
    let actions = decide(&model.world);
    actions.iter().for_each(|action| model.carry_out(action));
    assert_eq!(model.hosts_of("web"), ["a", "b"]);
    assert!(decide(&model.world).iter().all(|one| !matches!(one, Action::Withdraw(..))));
    model.agents();
    model.converge();
    assert_eq!(model.hosts_of("web"), ["b"]);
}

#[test]
fn a_lost_host_keeps_what_must_stay() {
    let mut model = Model::new();
    model.host("a", ChainHostSpec::default(), Heartbeat::Fresh);
    model.chain("stays", chain());
    let on_host_loss = OnHostLoss::Move;
    model.chain("moves", with_rules(PlacementRules { on_host_loss, ..Default::default() }));
    model.converge();
    model.host("b", ChainHostSpec::default(), Heartbeat::Fresh);
    for (heartbeat, host) in [(Heartbeat::Late, "a"), (Heartbeat::Lost, "b")] {
        model.world.heartbeats.insert("a".into(), heartbeat);
        model.converge();
        assert_eq!(model.hosts_of("stays"), ["a"]);
        assert_eq!(model.hosts_of("moves"), [host]);
    }
    // The one that was lost takes back what moved, once it is there.
    assert_eq!(model.world.placements.len(), 3);
    model.world.heartbeats.insert("a".into(), Heartbeat::Fresh);
    model.agents();
    assert_eq!(model.world.placements.len(), 2);
}

#[test]
fn a_host_takes_what_it_has_room_for() {
    let mut model = Model::new();
    let hardware = include_str!("../../../../examples/plan/edge.toml").to_owned();
    let spec = ChainHostSpec { hardware: Some(hardware), cores: Some(2), ..Default::default() };
    model.host("a", spec, Heartbeat::Fresh);
    let demand = |packets_per_second: i64| {
        let demand =
            Demand { packets_per_second, cycles: 500, packet_bytes: 512, ..Demand::default() };
        ServiceChainSpec { demand: Some(demand), ..chain() }
    };
    model.chain("a-small", demand(1_000_000));
    model.chain("b-large", demand(100_000_000));
    model.chain("c-any", chain());
    model.converge();
    assert_eq!(model.hosts_of("a-small"), ["a"]);
    assert_eq!(model.hosts_of("c-any"), ["a"]);
    let (_, _, message) = model.condition("b-large", "Placed");
    assert!(message.contains("% of the packets"), "{message}");
}

#[test]
fn a_function_that_is_used_is_not_let_go() {
    let mut model = Model::new();
    model.host("a", ChainHostSpec::default(), Heartbeat::Fresh);
    let functions = [("w".to_owned(), "words@1".to_owned())].into();
    model.chain("web", ServiceChainSpec { functions, ..chain() });
    model.converge();
    let (holds, reason, message) = model.condition("web", "Accepted");
    assert_eq!((holds, reason.as_str()), (false, "FunctionUnknown"));
    assert!(message.contains("functions.w") && message.contains("NetworkFunction"), "{message}");
    assert_eq!(model.hosts_of("web"), [""; 0]);
    let version = crate::resource::FunctionVersion { version: "1".into(), ..Default::default() };
    let mut words = NetworkFunction::new("words", NetworkFunctionSpec { versions: vec![version] });
    words.metadata.namespace = Some("default".into());
    model.born(&mut words.metadata);
    let key = Key::new("default", "words");
    model.world.functions.insert(key.clone(), Arc::new(words));
    model.converge();
    assert_eq!(model.hosts_of("web"), ["a"]);
    let words = model.world.functions.get_mut(&key).expect("there");
    Arc::make_mut(words).metadata.deletion_timestamp = deleted_now();
    model.converge();
    assert!(model.world.functions.contains_key(&key));
    model.delete_chain(&Key::new("default", "web"));
    model.converge();
    assert!(!model.world.functions.contains_key(&key));
}

/// What happens to a cluster.
#[derive(Debug, Clone)]
enum Change {
    Heartbeat(usize, Heartbeat),
    Drain(usize, bool),
    Chain(usize, ServiceChainSpec),
    DeleteChain(usize),
}

const HOSTS: usize = 4;
const CHAINS: usize = 4;

fn rules() -> impl Strategy<Value = PlacementRules> {
    let zones = proptest::collection::vec((0..3_usize).prop_map(|at| format!("z{at}")), 0..2);
    let apart = proptest::collection::vec((0..CHAINS).prop_map(|at| format!("c{at}")), 0..2);
    let spread = prop_oneof![Just(Spread::Hosts), Just(Spread::Zones)];
    let loss = prop_oneof![Just(OnHostLoss::Stay), Just(OnHostLoss::Move)];
    (zones, apart, spread, loss).prop_map(|(zones, apart_from, spread, on_host_loss)| {
        PlacementRules { zones, apart_from, spread, on_host_loss, ..PlacementRules::default() }
    })
}

fn specs() -> impl Strategy<Value = ServiceChainSpec> {
    (rules(), 1..3_i32, 0..3_u8).prop_map(|(placement, replicas, text)| ServiceChainSpec {
        configuration: format!("Idle -> Discard; // {text}"),
        placement,
        replicas,
        ..chain()
    })
}

fn change() -> impl Strategy<Value = Change> {
    let heartbeat = prop_oneof![
        3 => Just(Heartbeat::Fresh),
        1 => Just(Heartbeat::Late),
        1 => Just(Heartbeat::Lost),
        1 => Just(Heartbeat::Never),
    ];
    prop_oneof![
        (0..HOSTS, heartbeat).prop_map(|(at, heartbeat)| Change::Heartbeat(at, heartbeat)),
        (0..HOSTS, any::<bool>()).prop_map(|(at, drain)| Change::Drain(at, drain)),
        (0..CHAINS, specs()).prop_map(|(at, spec)| Change::Chain(at, spec)),
        (0..CHAINS).prop_map(Change::DeleteChain),
    ]
}

impl Model {
    fn change(&mut self, change: &Change) {
        match change {
            Change::Heartbeat(at, heartbeat) => {
                self.world.heartbeats.insert(format!("h{at}"), *heartbeat);
            }
            Change::Drain(at, drain) => {
                let host = self.world.hosts.get_mut(&format!("h{at}")).expect("a host");
                Arc::make_mut(host).spec.drain = *drain;
            }
            Change::Chain(at, spec) => {
                let key = Key::new("default", &format!("c{at}"));
                let is_ending =
                    |chain: &Arc<ServiceChain>| chain.metadata.deletion_timestamp.is_some();
                if !self.world.chains.get(&key).is_some_and(is_ending) {
                    self.chain(&key.name, spec.clone());
                }
            }
            Change::DeleteChain(at) => {
                self.delete_chain(&Key::new("default", &format!("c{at}")));
            }
        }
    }

    /// What must hold of where chains are, once there is nothing left to do.
    fn check(&self) -> Result<(), TestCaseError> {
        let mut on: BTreeMap<String, Vec<Key>> = BTreeMap::new();
        for one in self.world.own_placements().filter(|one| !one.is_ending()) {
            on.entry(one.host.clone()).or_default().push(one.chain());
            prop_assert!(self.world.chains.contains_key(&one.chain()), "an orphan");
        }
        for key in &self.foreign {
            let found = self.world.placements.get(key);
            let is_whole = found.is_some_and(|one| one.metadata.deletion_timestamp.is_none());
            prop_assert!(is_whole, "{} of others is gone", key);
        }
        for (key, chain) in &self.world.chains {
            let hosts = self.hosts_of(&key.name);
            let status = chain.status.clone().unwrap_or_default();
            let wanted = usize::try_from(chain.spec.replicas).unwrap_or(0);
            let placed = status.conditions.of_type("Placed");
            // One that moves is on two hosts, and waits for as long as the next one is not ready.
            let is_right = placed.is_some_and(|one| match one.reason.as_str() {
                "Moving" => hosts.len() > wanted,
                _ => !one.holds() || hosts.len() == wanted,
            });
            prop_assert!(is_right, "{}: {:?}", key, hosts);
            let is_told = status
                .conditions
                .of_type("Placed")
                .is_some_and(|one| one.holds() || one.message.len() > 20);
            prop_assert!(is_told, "{}: no remedy", key);
        }
        Ok(())
    }

    /// A chain that could be served before is served now.
    fn serves(&self, before: &Model) -> Result<(), TestCaseError> {
        for (key, chain) in &self.world.chains {
            let is_asked = chain.metadata.deletion_timestamp.is_none();
            if is_asked && before.serving(&key.name) > 0 {
                prop_assert!(self.serving(&key.name) > 0, "{} is served no more", key);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Whatever happens, and whichever calls are lost or come from an older view, it converges, and
    /// deletes nothing of others. Draining serves all the time.
    #[test]
    fn it_converges_and_keeps_what_it_should(
        changes in proptest::collection::vec((change(), any::<u64>()), 1..12),
    ) {
        let mut model = Model::new();
        for at in 0..HOSTS {
            let zone = Some(format!("z{}", at % 3));
            let spec = ChainHostSpec { zone, ..ChainHostSpec::default() };
            model.host(&format!("h{at}"), spec, Heartbeat::Fresh);
        }
        model.foreign("h0", "default--c0", None);
        model.foreign("h1", "other", Some(OPERATOR));
        for (change, lost) in &changes {
            let before = model.clone();
            model.change(change);
            // Another operator that still has the old view acts, too.
            let stale = decide(&before.world);
            let fresh = decide(&model.world);
            let acts = fresh.iter().chain(&stale).enumerate();
            for (at, action) in acts {
                if (lost >> (at % 64)) & 1 == 0 {
                    model.carry_out(action);
                }
            }
            if let Change::Drain(..) = change {
                let mut drained = before.clone();
                drained.converge();
                let steady = drained.clone();
                drained.change(change);
                for _ in 0..6 {
                    let actions = decide(&drained.world);
                    actions.iter().for_each(|action| drained.carry_out(action));
                    drained.serves(&steady)?;
                    drained.agents();
                }
            }
            model.agents();
        }
        model.converge();
        model.check()?;
    }
}
