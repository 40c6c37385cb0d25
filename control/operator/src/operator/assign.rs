//! Which hosts a chain runs on.
//!
//! What runs stays where it is as long as it may. A chain that must leave a host is first assigned
//! to another one, and leaves when it is ready there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt as _;

use super::capacity::{NoRoom, has_room};
use super::world::{Heartbeat, Placed, World};
use crate::names::Key;
use crate::resource::{
    ChainHost, ChainPlacementSpec, Conditions as _, Demand, OnHostDrain, OnHostLoss, ServiceChain,
    Spread,
};

/// Where a chain is to run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignment {
    /// Hosts that run it, or are to.
    pub hosts: BTreeSet<String>,
    /// Hosts that it leaves once it is ready elsewhere.
    pub leaving: BTreeSet<String>,
    /// Hosts that it leaves at once.
    pub dropped: BTreeSet<String>,
    /// Why no further host can take it, if one is missing.
    pub missing: Option<String>,
}

/// Why a host cannot take a chain, in words that can be counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    Runs,
    Taken,
    NotNamed,
    OtherZone,
    OtherLabels,
    Draining,
    NotReady,
    Deleted,
    Apart(String),
    SameZone(String),
    NotCalibrated,
    Description(String),
    Full(u8),
}

impl Obstacle {
    fn describe(&self, hosts: &[&str]) -> String {
        let hosts = hosts.join(", ");
        match self {
            Obstacle::Runs => format!("{hosts}: runs it already; add hosts, or lower replicas"),
            Obstacle::Taken => {
                format!("{hosts}: has a ChainPlacement that the operator did not make; delete it")
            }
            Obstacle::NotNamed => format!("{hosts}: not in placement.hosts"),
            Obstacle::OtherZone => format!("{hosts}: not in placement.zones"),
            Obstacle::OtherLabels => format!("{hosts}: without placement.hostLabels"),
            Obstacle::Draining => format!("{hosts}: drains; set spec.drain to false"),
            Obstacle::Deleted => format!("{hosts}: is being deleted"),
            Obstacle::NotReady => {
                format!("{hosts}: its agent is not heard of; start `thruway-operator agent` there")
            }
            Obstacle::Apart(chain) => {
                format!("{hosts}: runs '{chain}', which it must be apart from")
            }
            Obstacle::SameZone(zone) => {
                format!("{hosts}: zone '{zone}' has a replica already; add hosts in other zones")
            }
            Obstacle::NotCalibrated => {
                format!(
                    "{hosts}: not calibrated; run `thruway calibrate` and give the agent \
                         --hardware, or leave out spec.demand"
                )
            }
            Obstacle::Description(why) => format!("{hosts}: its description of hardware: {why}"),
            Obstacle::Full(percent) => {
                format!(
                    "{hosts}: has room for {percent} % of the packets; lower spec.demand, or \
                         add hosts"
                )
            }
        }
    }
}

/// Which chains run on which hosts, while hosts are assigned chain by chain.
pub struct Assigner<'a> {
    world: &'a World,
    /// By host, the chains assigned to it.
    on: BTreeMap<String, BTreeSet<Key>>,
    /// By host, the chains that leave it once they are ready elsewhere.
    leaving: BTreeMap<String, BTreeSet<Key>>,
}

impl<'a> Assigner<'a> {
    /// Of what is observed.
    pub fn new(world: &'a World, placed: &[Placed]) -> Assigner<'a> {
        let mut on: BTreeMap<String, BTreeSet<Key>> = BTreeMap::new();
        for one in placed.iter().filter(|one| !one.is_ending()) {
            on.entry(one.host.clone()).or_default().insert(one.chain());
        }
        Assigner { world, on, leaving: BTreeMap::new() }
    }

    /// Assigns a chain to hosts, which are to run `spec`; `placed` are its placements.
    pub fn assign(
        &mut self,
        (key, chain): (&Key, &ServiceChain),
        spec: &ChainPlacementSpec,
        placed: &[Placed],
    ) -> Assignment {
        let wanted = usize::try_from(chain.spec.replicas).unwrap_or(1);
        let mut assignment = Assignment::default();
        let mut leaving = Vec::new();
        for one in by_merit(placed) {
            match self.may_stay(key, chain, &one.host, &assignment.hosts) {
                Stay::Yes if assignment.hosts.len() < wanted => {
                    assignment.hosts.insert(one.host.clone());
                }
                Stay::Yes => _ = assignment.dropped.insert(one.host.clone()),
                Stay::Until => {
                    leaving.push(one.host.clone());
                    self.on.entry(one.host.clone()).or_default().remove(key);
                    self.leaving.entry(one.host.clone()).or_default().insert(key.clone());
                }
                Stay::No => _ = assignment.dropped.insert(one.host.clone()),
            }
        }
        while assignment.hosts.len() < wanted {
            match self.next_host(key, chain, &assignment.hosts) {
                Ok(host) => {
                    self.on.entry(host.clone()).or_default().insert(key.clone());
                    assignment.hosts.insert(host);
                }
                Err(why) => {
                    assignment.missing = Some(why);
                    break;
                }
            }
        }
        self.leave(&mut assignment, leaving, spec, placed);
        for host in &assignment.dropped {
            self.on.entry(host.clone()).or_default().remove(key);
        }
        assignment
    }

    /// Divides the hosts that a chain leaves: until all of the others are ready, it stays there.
    fn leave(
        &self,
        assignment: &mut Assignment,
        leaving: Vec<String>,
        spec: &ChainPlacementSpec,
        placed: &[Placed],
    ) {
        // One that runs what it ran before is going to change.
        let is_ready = |one: &Placed| one.placement.spec == *spec && is_ready(one);
        let is_ready = |host: &String| {
            let mut here = placed.iter().filter(|one| one.host == *host && !one.is_ending());
            here.any(|one| is_ready(one) && self.world.heartbeat(host) == Heartbeat::Fresh)
        };
        let others_run = assignment.missing.is_none() && assignment.hosts.iter().all(is_ready);
        let to = if others_run { &mut assignment.dropped } else { &mut assignment.leaving };
        to.extend(leaving);
    }

    /// Whether a chain may stay on a host where it is.
    fn may_stay(
        &self,
        key: &Key,
        chain: &ServiceChain,
        name: &str,
        others: &BTreeSet<String>,
    ) -> Stay {
        let Some(host) = self.world.hosts.get(name) else { return Stay::No };
        let heartbeat = self.world.heartbeat(name);
        if heartbeat == Heartbeat::Lost && chain.spec.placement.on_host_loss == OnHostLoss::Move {
            return Stay::No;
        }
        if host.metadata.deletion_timestamp.is_some() && heartbeat != Heartbeat::Fresh {
            return Stay::No;
        }
        let rules = self.rules(key, chain, (host, self.on.get(name)));
        match rules.or_else(|| self.zones(chain, host, others)) {
            None => Stay::Yes,
            Some(_) => Stay::Until,
        }
    }

    /// The best host for one more replica.
    fn next_host(
        &self,
        key: &Key,
        chain: &ServiceChain,
        taken: &BTreeSet<String>,
    ) -> Result<String, String> {
        let mut obstacles: BTreeMap<Obstacle, Vec<&str>> = BTreeMap::new();
        let mut hosts: Vec<(&String, &Arc<ChainHost>)> = self.world.hosts.iter().collect();
        // Those with the fewest chains first: so chains are spread.
        hosts.sort_by_key(|(name, _)| (self.on.get(*name).map_or(0, BTreeSet::len), *name));
        for (name, host) in hosts {
            match self.obstacle(key, chain, host, taken) {
                None => return Ok(name.clone()),
                Some(obstacle) => obstacles.entry(obstacle).or_default().push(name),
            }
        }
        match obstacles.is_empty() {
            true => Err("there is no host; declare a ChainHost for each".to_owned()),
            false => {
                let all = obstacles.iter().map(|(obstacle, hosts)| obstacle.describe(hosts));
                Err(all.collect::<Vec<_>>().join("; "))
            }
        }
    }

    /// Why a host cannot take one more replica.
    fn obstacle(
        &self,
        key: &Key,
        chain: &ServiceChain,
        host: &ChainHost,
        taken: &BTreeSet<String>,
    ) -> Option<Obstacle> {
        let name = host.name_any();
        let here = |map: &BTreeMap<String, BTreeSet<Key>>| map.get(&name).cloned();
        let chains = here(&self.on).unwrap_or_default();
        let all = &chains | &here(&self.leaving).unwrap_or_default();
        let rules = self.rules(key, chain, (host, Some(&all)));
        let rules = rules.or_else(|| self.zones(chain, host, taken));
        if rules.is_some() {
            return rules;
        }
        if host.spec.drain {
            return Some(Obstacle::Draining);
        }
        if self.world.is_taken(&name, key) {
            return Some(Obstacle::Taken);
        }
        if taken.contains(&name) || all.contains(key) {
            return Some(Obstacle::Runs);
        }
        if self.world.heartbeat(&name) != Heartbeat::Fresh {
            return Some(Obstacle::NotReady);
        }
        self.room(key, chain, host)
    }

    /// Why the rules of a chain, or the host's own, forbid a host on which these chains are.
    fn rules(
        &self,
        key: &Key,
        chain: &ServiceChain,
        (host, here): (&ChainHost, Option<&BTreeSet<Key>>),
    ) -> Option<Obstacle> {
        let rules = &chain.spec.placement;
        let name = host.name_any();
        let labels = host.labels();
        if host.metadata.deletion_timestamp.is_some() {
            return Some(Obstacle::Deleted);
        }
        if !rules.hosts.is_empty() && !rules.hosts.contains(&name) {
            return Some(Obstacle::NotNamed);
        }
        let zone = host.spec.zone.clone().unwrap_or_default();
        if !rules.zones.is_empty() && !rules.zones.contains(&zone) {
            return Some(Obstacle::OtherZone);
        }
        if rules.host_labels.iter().any(|(label, value)| labels.get(label) != Some(value)) {
            return Some(Obstacle::OtherLabels);
        }
        if host.spec.drain && rules.on_host_drain == OnHostDrain::Move {
            return Some(Obstacle::Draining);
        }
        let mut chains = here.into_iter().flatten().filter(|other| *other != key);
        chains
            .find(|other| self.are_apart(key, chain, other))
            .map(|other| Obstacle::Apart(other.name.clone()))
    }

    /// Whether two chains must share no host.
    fn are_apart(&self, key: &Key, chain: &ServiceChain, other: &Key) -> bool {
        if key.namespace != other.namespace {
            return false;
        }
        let of_other = self.world.chains.get(other);
        chain.spec.placement.apart_from.contains(&other.name)
            || of_other.is_some_and(|other| other.spec.placement.apart_from.contains(&key.name))
    }

    /// Why the zone of a host is taken.
    fn zones(
        &self,
        chain: &ServiceChain,
        host: &ChainHost,
        taken: &BTreeSet<String>,
    ) -> Option<Obstacle> {
        if chain.spec.placement.spread != Spread::Zones {
            return None;
        }
        let zone = host.spec.zone.clone().unwrap_or_default();
        let mut others = taken.iter().filter_map(|name| self.world.hosts.get(name));
        let is_taken = others.any(|other| other.spec.zone.clone().unwrap_or_default() == zone);
        is_taken.then_some(Obstacle::SameZone(zone))
    }

    /// Why a host has no room.
    fn room(&self, key: &Key, chain: &ServiceChain, host: &ChainHost) -> Option<Obstacle> {
        let demand = chain.spec.demand.clone()?;
        let here = self.on.get(&host.name_any());
        let others = here.into_iter().flatten().filter_map(|other| {
            let demand = self.world.chains.get(other)?.spec.demand.clone()?;
            Some((other.to_string(), demand))
        });
        let mut demands: BTreeMap<String, Demand> = others.collect();
        demands.insert(key.to_string(), demand);
        match has_room(host, &demands) {
            Ok(()) => None,
            Err(NoRoom::NotCalibrated) => Some(Obstacle::NotCalibrated),
            Err(NoRoom::Description(why)) => Some(Obstacle::Description(why)),
            Err(NoRoom::Full(percent)) => Some(Obstacle::Full(percent)),
        }
    }
}

/// Whether a chain stays on a host.
enum Stay {
    Yes,
    /// Until it is ready elsewhere.
    Until,
    No,
}

/// Placements that are not being taken back: those that are ready first.
fn by_merit(placed: &[Placed]) -> Vec<&Placed> {
    let mut all: Vec<&Placed> = placed.iter().filter(|one| !one.is_ending()).collect();
    all.sort_by_key(|one| (!is_ready(one), one.host.clone()));
    all
}

/// Whether a placement runs what it is to run.
pub fn is_ready(placed: &Placed) -> bool {
    let generation = placed.placement.metadata.generation.unwrap_or_default();
    let status = placed.placement.status.as_ref();
    status.is_some_and(|status| {
        status.observed_generation == generation && status.conditions.holds("Ready")
    })
}
