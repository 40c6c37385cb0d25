//! Whatever happens.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::chain;
use super::model::Model;
use crate::names::Key;
use crate::operator::decide;
use crate::operator::world::Heartbeat;
use crate::resource::{
    ChainHostSpec, Conditions as _, OPERATOR, OnHostDrain, OnHostLoss, PlacementRules,
    ServiceChain, ServiceChainSpec, Spread,
};

/// What happens to a cluster.
#[derive(Debug, Clone)]
enum Change {
    Heartbeat(usize, Heartbeat),
    Drain(usize, bool),
    Chain(usize, Box<ServiceChainSpec>),
    DeleteChain(usize),
}

const HOSTS: usize = 4;
const CHAINS: usize = 4;

fn rules() -> impl Strategy<Value = PlacementRules> {
    let zones = proptest::collection::vec((0..3_usize).prop_map(|at| format!("z{at}")), 0..2);
    let apart = proptest::collection::vec((0..CHAINS).prop_map(|at| format!("c{at}")), 0..2);
    let spread = prop_oneof![Just(Spread::Hosts), Just(Spread::Zones)];
    let loss = prop_oneof![Just(OnHostLoss::Stay), Just(OnHostLoss::Move)];
    let drain = prop_oneof![Just(OnHostDrain::Move), Just(OnHostDrain::Stop)];
    (zones, apart, spread, loss, drain).prop_map(
        |(zones, apart_from, spread, on_host_loss, on_host_drain)| PlacementRules {
            zones,
            apart_from,
            spread,
            on_host_loss,
            on_host_drain,
            ..PlacementRules::default()
        },
    )
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
        (0..CHAINS, specs()).prop_map(|(at, spec)| Change::Chain(at, Box::new(spec))),
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
                    self.chain(&key.name, (**spec).clone());
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

    /// A chain that could be served before is served now, if it does not end with its host.
    fn serves(&self, before: &Model) -> Result<(), TestCaseError> {
        for (key, chain) in &self.world.chains {
            let ends = chain.spec.placement.on_host_drain == OnHostDrain::Stop;
            let is_asked = chain.metadata.deletion_timestamp.is_none() && !ends;
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
