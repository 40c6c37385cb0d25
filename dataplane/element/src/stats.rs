//! Counters of every node, cheap enough to stay on.

use thruway_sync::Counter;

use crate::reason::Reason;
use crate::spec::Spec;

/// One node's counters in one thread. The thread writes, anyone reads.
#[derive(Debug)]
pub struct NodeStats {
    /// Packets that entered; of a source, packets it made.
    pub packets: Counter,
    /// Packets that it made of its own, of an element that takes some: parts, copies, answers.
    pub made: Counter,
    /// Batches dispatched.
    pub batches: Counter,
    /// Clock cycles (of the time stamp counter) spent in the node; the engine measures a sample of
    /// the work, scaled up.
    pub cycles: Counter,
    /// Dropped packets by reason, in the order of [`Spec::reasons`].
    pub drops: Box<[Counter]>,
    /// Packets that left by another, connected output: not lost.
    pub diverted: Box<[Counter]>,
    /// Reasons of the spec itself.
    own: usize,
}

impl NodeStats {
    /// Zeroed counters for an element of this spec.
    pub fn new(spec: &Spec) -> NodeStats {
        let counters = || spec.reasons().map(|_| Counter::new());
        NodeStats {
            packets: Counter::new(),
            made: Counter::new(),
            batches: Counter::new(),
            cycles: Counter::new(),
            drops: counters().collect(),
            diverted: counters().collect(),
            own: spec.drops.len(),
        }
    }

    /// Counts `n` drops.
    #[inline]
    pub fn dropped(&self, reason: Reason, n: u64) {
        if let Some(counter) = self.drops.get(reason.index(self.own)) {
            counter.add(n);
        }
    }

    /// Counts a packet as dropped, and where it left by another output as diverted.
    #[inline]
    pub fn rejected(&self, reason: Reason, is_diverted: bool) {
        self.dropped(reason, 1);
        let counter = self.diverted.get(reason.index(self.own));
        if let Some(counter) = counter.filter(|_| is_diverted) {
            counter.add(1);
        }
    }
}

/// All nodes' counters of one thread, by element index.
pub type Stats = Vec<NodeStats>;
