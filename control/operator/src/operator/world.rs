//! What is asked for and what is observed, at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt as _;

use crate::names::{Key, host_of};
use crate::resource::{
    ChainHost, ChainPlacement, NetworkFunction, OPERATOR, ServiceChain, TrustGroup,
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

    /// Placements that the operator made: in the namespace of a host, under the name of their
    /// chain, with its label. It leaves all others alone.
    pub fn own_placements(&self) -> impl Iterator<Item = Placed> + '_ {
        self.placements.iter().filter_map(|(key, placement)| {
            let host = host_of(&key.namespace)?.to_owned();
            let placed = Placed { host, placement: Arc::clone(placement) };
            let labels = placement.labels();
            let is_own = labels.get(crate::resource::MANAGED_BY).map(String::as_str)
                == Some(OPERATOR)
                && placed.chain().local().is_ok_and(|local| local == key.name);
            is_own.then_some(placed)
        })
    }
}
