//! Counters of sessions, by the class of their packets.

use crate::life::Ended;
use crate::manager::counts::ClassCounts;
use crate::manager::flow_manager::Manager;
use crate::plan::LeafId;

impl Manager {
    /// A session has begun.
    pub(super) fn count_begun(&mut self, leaf: LeafId) {
        if let Some(class) = self.classes.get_mut(usize::from(leaf)) {
            class.now += 1;
            class.counts.created += 1;
        }
    }

    /// A session's packet is of another class than the one before, which may not be known.
    #[cold]
    pub(super) fn count_moved(&mut self, from: LeafId, to: LeafId) {
        if let Some(class) = self.classes.get_mut(usize::from(from)) {
            class.now = class.now.saturating_sub(1);
        }
        if let Some(class) = self.classes.get_mut(usize::from(to)) {
            class.now += 1;
        }
    }

    /// A session has ended.
    pub(super) fn count_ended(&mut self, leaf: LeafId, why: Ended) {
        if let Some(class) = self.classes.get_mut(usize::from(leaf)) {
            class.now = class.now.saturating_sub(1);
            class.counts.count(why);
        }
    }

    /// Counters by leaf of the plan. Sessions that only exist for the sake of finer ones have no
    /// class.
    pub fn classes(&self) -> &[ClassCounts] {
        &self.classes
    }
}
