//! What is asked for and what is observed, at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt as _;

use crate::names::{Key, host_namespace, host_of};
use crate::resource::{
    ChainHost, ChainPlacement, FunctionVersion, MANAGED_BY, NetworkFunction, OPERATOR,
    ServiceChain, TrustGroup,
};

/// When the agent of a host was heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Heartbeat {
    /// It never was.
    #[default]
    Never,
    /// Within the duration of its lease.
    Fresh,
    /// Later than that.
    Late,
    /// So late that it has fenced what may be moved.
    Lost,
}

/// What is asked for and what is observed.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// Chains that are asked for.
    pub chains: BTreeMap<Key, Arc<ServiceChain>>,
    /// Functions.
    pub functions: BTreeMap<Key, Arc<NetworkFunction>>,
    /// Groups of trust.
    pub groups: BTreeMap<Key, Arc<TrustGroup>>,
    /// Hosts.
    pub hosts: BTreeMap<String, Arc<ChainHost>>,
    /// Placements, those of the operator and others.
    pub placements: BTreeMap<Key, Arc<ChainPlacement>>,
    /// Agents that were heard of, by host.
    pub heartbeats: BTreeMap<String, Heartbeat>,
    /// Hosts whose namespace and rights were made.
    pub admitted: BTreeSet<String>,
    /// The time, as conditions have it.
    pub now: String,
}

/// A placement and where it is.
#[derive(Debug, Clone)]
pub struct Placed {
    /// Its host.
    pub host: String,
    /// The placement.
    pub placement: Arc<ChainPlacement>,
}

impl Placed {
    /// The chain that it belongs to.
    pub fn chain(&self) -> Key {
        let chain = &self.placement.spec.chain;
        Key::new(&chain.namespace, &chain.name)
    }

    /// Whether it is being taken back.
    pub fn is_ending(&self) -> bool {
        self.placement.metadata.deletion_timestamp.is_some()
    }
}

impl World {
    /// When the agent of a host was heard of.
    #[must_use]
    pub fn heartbeat(&self, host: &str) -> Heartbeat {
        self.heartbeats.get(host).copied().unwrap_or_default()
    }

    /// The version that resources of a namespace name NAME@VERSION, and its function.
    pub fn version(&self, namespace: &str, name: &str) -> Option<(Key, &FunctionVersion)> {
        let (function, version) = name.split_once('@')?;
        let function = Key::new(namespace, function);
        let versions = &self.functions.get(&function)?.spec.versions;
        Some((function, versions.iter().find(|one| one.version == version)?))
    }

    /// Placements that the operator made; it leaves all others alone.
    pub fn own_placements(&self) -> impl Iterator<Item = Placed> + '_ {
        self.placements.iter().filter_map(|(key, placement)| own(key, placement))
    }

    /// Whether somebody else made a placement on a host under the name of a chain.
    #[must_use]
    pub fn is_taken(&self, host: &str, chain: &Key) -> bool {
        let Ok(local) = chain.local() else { return false };
        let key = Key::new(&host_namespace(host), &local);
        self.placements.get(&key).is_some_and(|placement| own(&key, placement).is_none())
    }
}

/// A placement, if the operator made it: in the namespace of a host, under the name of its chain,
/// with its label.
fn own(key: &Key, placement: &Arc<ChainPlacement>) -> Option<Placed> {
    let host = host_of(&key.namespace)?.to_owned();
    let placed = Placed { host, placement: Arc::clone(placement) };
    let label = placement.labels().get(MANAGED_BY).map(String::as_str);
    let is_named = placed.chain().local().is_ok_and(|local| local == key.name);
    (label == Some(OPERATOR) && is_named).then_some(placed)
}
