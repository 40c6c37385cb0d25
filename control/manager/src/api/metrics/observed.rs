//! What is known of a chain when metrics are asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::recent::Seen;
use crate::graph::ChainGraph;
use crate::{ChainStatus, ConditionKind};

/// What is known of a chain.
#[derive(Debug)]
pub(super) struct Observed {
    /// Its name.
    pub(super) name: String,
    /// Whether it is declared and not to run.
    pub(super) stopped: bool,
    /// What the manager observes.
    pub(super) status: ChainStatus,
    /// What its data plane reports, if it does.
    pub(super) seen: Option<Arc<Seen>>,
}

impl Observed {
    /// Whether a condition holds.
    pub(super) fn holds(&self, kind: ConditionKind) -> bool {
        self.status.conditions.iter().any(|one| one.kind == kind && one.holds)
    }

    /// What its data plane reports.
    pub(super) fn graph(&self) -> Option<&ChainGraph> {
        self.seen.as_deref().map(|seen| &seen.graph)
    }
}

/// Packets by class of the elements that were given them.
pub(super) fn packets(graph: &ChainGraph) -> BTreeMap<&str, u64> {
    let mut packets = BTreeMap::<&str, u64>::new();
    for element in &graph.elements {
        let sum = packets.entry(&element.class).or_default();
        *sum = sum.saturating_add(element.packets);
    }
    packets
}

/// Packets that did not go on, by class of the element, reason and fate.
pub(super) fn drops(graph: &ChainGraph) -> BTreeMap<[&str; 3], u64> {
    let mut drops = BTreeMap::<[&str; 3], u64>::new();
    for element in &graph.elements {
        for drop in &element.drops {
            let key = [element.class.as_str(), &drop.reason, &drop.fate];
            let sum = drops.entry(key).or_default();
            *sum = sum.saturating_add(drop.packets);
        }
    }
    drops
}
