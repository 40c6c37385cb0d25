//! Rules that are worth a look because of some bytes.

use std::ops::ControlFlow;

use crate::patterns::SearchState;
use crate::rules::areas::Area;
use crate::rules::compiled::Scope;
use crate::rules::run::Facts;
use crate::rules::set::RuleSet;

/// A rule worth a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub rule: u32,
    /// Where its fast pattern ended last, if it was found in this step: place in the stream; the
    /// end of time where it is in a head.
    pub at: Option<u64>,
}

/// The candidates of a step, each once.
pub(super) struct Candidates<'a> {
    pub all: &'a mut Vec<Candidate>,
    pub marks: &'a mut [(u64, u32)],
    pub step: u64,
}

impl Candidates<'_> {
    pub(super) fn add(&mut self, rule: u32, at: Option<u64>) {
        let Some(mark) = self.marks.get_mut(rule as usize) else { return };
        if mark.0 == self.step {
            let known = &mut self.all[mark.1 as usize];
            known.at = known.at.max(at);
        } else {
            *mark = (self.step, self.all.len() as u32);
            self.all.push(Candidate { rule, at });
        }
    }

    /// Those whose fast patterns are in bytes that go on where `state` was left; `position` reports
    /// where in the stream a pattern is that ends so far in them.
    pub(super) fn search(
        &mut self,
        area: &Area,
        state: &mut SearchState,
        bytes: &[u8],
        position: impl Fn(usize) -> Option<u64>,
    ) {
        let all = area.patterns.feed(state, bytes, |pattern, end| {
            for rule in &area.rules[pattern] {
                self.add(*rule, position(end));
            }
            ControlFlow::Continue(())
        });
        debug_assert!(all.is_continue(), "nothing stops the search");
    }

    /// Those that have no fast pattern. What is said of ends only is said once for each direction.
    pub(super) fn without(
        &mut self,
        set: &RuleSet,
        facts: Option<&Facts>,
        is_wanted: impl Fn(&Scope) -> bool,
    ) {
        for number in set.always() {
            let rule = &set.rules()[*number as usize];
            if is_wanted(&rule.scope) && (facts.is_some() || !rule.is_of_ends()) {
                self.add(*number, None);
            }
        }
        if let Some(facts) = facts {
            let rules = set.by_address().of(facts.source, facts.destination);
            rules.for_each(|rule| self.add(rule, None));
        }
    }
}
