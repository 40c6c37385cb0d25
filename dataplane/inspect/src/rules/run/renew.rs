//! Other rules while sessions go on.

use std::sync::Arc;

use crate::patterns::State;
use crate::rules::eval::Scratch;
use crate::rules::run::memory::Session;
use crate::rules::run::{Inspector, Thresholds};
use crate::rules::set::RuleSet;

impl Inspector {
    /// From now on these rules count. What is remembered of sessions stays; each is to be handed to
    /// [`Inspector::renew`] before the next look at it.
    pub fn replace(&mut self, set: Arc<RuleSet>) {
        let rules = set.rules().len();
        self.candidates = Vec::with_capacity(rules);
        self.marks = vec![(0, 0); rules];
        (self.step, self.scratch) = (0, Scratch::default());
        self.thresholds = Thresholds::new(self.slots.limits.counters);
        self.set = set;
    }

    /// Prepares a session that other rules looked at: what is remembered of it is searched again
    /// for the present ones, together with what comes next. Flow bits are cleared, because they are
    /// known by numbers of the other rules.
    pub fn renew(&mut self, session: &mut Session) {
        session.clear_bits();
        session.passed = 0;
        for side in &mut session.sides {
            (side.payload, side.body) = (State::default(), State::default());
            if let Some(slot) = self.slots.slot(side.slot) {
                slot.pending.clear();
                slot.lost = side.stream;
                slot.lost_head = side.in_message != 0;
            }
        }
    }
}
