//! A plain model of an API server and of agents.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;

use crate::calls::Version;
use crate::names::{Key, host_namespace};
use crate::operator::assign::is_ready;
use crate::operator::decide::Held;
use crate::operator::world::{Heartbeat, World};
use crate::operator::{Action, decide};
use crate::resource::{
    AGENT_FINALIZER, ChainHost, ChainHostSpec, ChainPlacement, ChainPlacementSpec,
    ChainPlacementStatus, Condition, Conditions as _, MANAGED_BY, OPERATOR, OPERATOR_FINALIZER,
    ServiceChain, ServiceChainSpec,
};

/// A cluster as the API server has it, with agents that do what they should.
#[derive(Clone)]
pub struct Model {
    pub world: World,
    number: u64,
    /// Placements of others, which must stay.
    pub foreign: Vec<Key>,
}

pub fn deleted_now() -> Option<Time> {
    Some(Time(Timestamp::from_second(1_000).expect("a time")))
}

impl Model {
    pub fn new() -> Model {
        let world = World { now: "2026-01-01T00:00:00Z".into(), ..World::default() };
        Model { world, number: 0, foreign: Vec::new() }
    }

    /// The next resource version.
    fn next(&mut self) -> String {
        self.number += 1;
        self.number.to_string()
    }

    pub fn host(&mut self, name: &str, spec: ChainHostSpec, heartbeat: Heartbeat) {
        let mut host = ChainHost::new(name, spec);
        self.born(&mut host.metadata);
        self.world.hosts.insert(name.into(), Arc::new(host));
        self.world.heartbeats.insert(name.into(), heartbeat);
    }

    pub fn chain(&mut self, name: &str, spec: ServiceChainSpec) {
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

    pub fn born(&mut self, metadata: &mut ObjectMeta) {
        let number = self.next();
        metadata.uid = Some(format!("uid-{number}"));
        metadata.resource_version = Some(number);
        metadata.generation = Some(1);
    }

    /// A placement that somebody else made.
    pub fn foreign(&mut self, host: &str, name: &str, label: Option<&str>) {
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
    pub fn delete_chain(&mut self, key: &Key) {
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
    pub fn carry_out(&mut self, action: &Action) {
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
            Action::ReportGroup(key, status) => {
                let group = self.world.groups.get_mut(key).expect("it is there");
                Arc::make_mut(group).status = Some(status.clone());
            }
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
    pub fn agents(&mut self) {
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
                match placement.spec.drain {
                    true => Condition::new("Ready", false, "Drained", ""),
                    false => Condition::new("Ready", true, "Running", ""),
                },
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
    pub fn converge(&mut self) {
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
    pub fn hosts_of(&self, chain: &str) -> Vec<String> {
        let all = self.world.own_placements();
        let mine = all.filter(|one| one.chain().name == chain && !one.is_ending());
        mine.map(|one| one.host).collect()
    }

    /// Hosts that are heard of and run a chain.
    pub fn serving(&self, chain: &str) -> usize {
        let all = self.world.own_placements();
        let mine = all.filter(|one| one.chain().name == chain && !one.is_ending());
        let fresh = mine.filter(|one| self.world.heartbeat(&one.host) == Heartbeat::Fresh);
        fresh.filter(is_ready).count()
    }

    pub fn condition(&self, chain: &str, type_: &str) -> (bool, String, String) {
        let status = self.world.chains[&Key::new("default", chain)].status.clone();
        let condition = status.expect("a status").conditions.of_type(type_).cloned();
        let one = condition.expect("a condition");
        (one.holds(), one.reason, one.message)
    }
}
