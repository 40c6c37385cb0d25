//! What is known of a chain's functions on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::Asked;

/// Between two looks at whether functions are needed.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// How long nothing is changed after a change was refused.
const HOLD: Duration = Duration::from_secs(30);

/// The functions on demand of a chain, by variable.
#[derive(Default)]
pub(super) struct OnDemand {
    /// Those that are to run; kept in the record.
    pub(super) deployed: BTreeSet<String>,
    /// Those that come or go, and since when, until the data plane runs that.
    pub(super) pending: BTreeMap<String, Instant>,
    /// Those that run, as far as is known.
    running: BTreeSet<String>,
    /// When each was last needed; a manager that begins takes its first look for that time.
    needed: BTreeMap<String, Instant>,
    /// Until when nothing is changed, and why.
    held: Option<(Instant, String)>,
    pub(super) looked: Option<Instant>,
    /// What was asked for last, which of its functions were deployed, and what that is to run.
    pub(super) written: Option<(Asked, BTreeSet<String>, Asked)>,
}

impl OnDemand {
    /// Forgets what is not asked for any more.
    pub(super) fn retain(&mut self, is_asked: impl Fn(&str) -> bool) {
        self.deployed.retain(|variable| is_asked(variable));
        self.pending.retain(|variable, _| is_asked(variable));
        self.needed.retain(|variable, _| is_asked(variable));
        self.running.retain(|variable| is_asked(variable));
    }

    /// Decides whether a function is to run, of which `value` says that it is needed. True if that
    /// is another decision than before.
    pub(super) fn decide(
        &mut self,
        (variable, calm): (&str, Duration),
        value: f64,
        now: Instant,
    ) -> bool {
        let is_needed = value > 0.0;
        let last = self.needed.entry(variable.to_owned()).or_insert(now);
        if is_needed {
            *last = now;
        }
        let is_over = now.saturating_duration_since(*last) >= calm;
        let is_deployed = self.deployed.contains(variable);
        let changes = if is_deployed { !is_needed && is_over } else { is_needed };
        if !changes || self.why_held(now).is_some() {
            return false;
        }
        match is_deployed {
            true => self.deployed.remove(variable),
            false => self.deployed.insert(variable.to_owned()),
        };
        self.pending.insert(variable.to_owned(), now);
        true
    }

    /// Why nothing is changed now.
    pub(super) fn why_held(&self, now: Instant) -> Option<&str> {
        self.held.as_ref().filter(|(until, _)| now < *until).map(|(_, why)| why.as_str())
    }

    /// Whether the data plane is to run other functions than it runs.
    pub(super) fn is_changing(&self) -> bool {
        self.deployed != self.running
    }

    /// Takes changes back that the data plane refused; their functions.
    pub(super) fn take_back(&mut self, why: &str, now: Instant) -> Vec<String> {
        let changed = self.deployed.symmetric_difference(&self.running).cloned().collect();
        self.deployed.clone_from(&self.running);
        self.pending.clear();
        self.held = Some((now + HOLD, why.to_owned()));
        changed
    }

    /// Takes note that the data plane runs what was decided; what came or went by that.
    pub(super) fn confirm(&mut self) -> BTreeMap<String, Instant> {
        self.running.clone_from(&self.deployed);
        std::mem::take(&mut self.pending)
    }

    /// A data plane begins with none: what needed them is forgotten with the last one. Those that
    /// were deployed.
    pub(super) fn begin_anew(&mut self) -> Vec<String> {
        self.running.clear();
        self.pending.clear();
        self.needed.clear();
        std::mem::take(&mut self.deployed).into_iter().collect()
    }

    /// How long until it is time to look; `None` if it is.
    pub(super) fn until_look(&self) -> Option<Duration> {
        let left = LOOK.saturating_sub(self.looked?.elapsed());
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Duration = Duration::from_secs(5);

    #[test]
    fn a_function_comes_at_once_and_goes_when_it_was_needless_for_long_enough() {
        let (mut known, begin) = (OnDemand::default(), Instant::now());
        let mut at = |seconds: u64, value: f64| {
            known.decide(("x", CALM), value, begin + Duration::from_secs(seconds))
        };
        assert!(!at(0, 0.0) && at(1, 2.0) && !at(2, 2.0));
        // It is needed again before it goes.
        assert!(!at(6, 0.0) && !at(7, 1.0) && !at(11, 0.0) && at(12, 0.0));
        assert!(known.deployed.is_empty());
    }

    #[test]
    fn a_manager_that_finds_a_function_waits_as_long_again() {
        let mut known = OnDemand { deployed: ["x".to_owned()].into(), ..OnDemand::default() };
        let begin = Instant::now();
        assert!(!known.decide(("x", CALM), 0.0, begin));
        assert!(known.decide(("x", CALM), 0.0, begin + CALM));
    }

    #[test]
    fn what_is_refused_is_tried_again_later() {
        let (mut known, begin) = (OnDemand::default(), Instant::now());
        assert!(known.decide(("x", CALM), 1.0, begin));
        assert_eq!(known.take_back("no memory", begin), ["x"]);
        assert!(known.deployed.is_empty() && known.why_held(begin) == Some("no memory"));
        assert!(!known.decide(("x", CALM), 1.0, begin + HOLD / 2));
        assert!(known.decide(("x", CALM), 1.0, begin + HOLD));
        // What is refused next is that it goes.
        assert_eq!(known.confirm().len(), 1);
        assert!(known.decide(("x", CALM), 0.0, begin + HOLD + CALM) && known.is_changing());
        assert_eq!(known.take_back("no reason", begin), ["x"]);
        assert!(known.deployed.contains("x") && !known.is_changing());
    }

    #[test]
    fn what_another_manager_decided_is_taken_back_if_it_is_refused() {
        let mut known = OnDemand { deployed: ["x".to_owned()].into(), ..OnDemand::default() };
        assert!(known.is_changing());
        assert_eq!(known.take_back("no memory", Instant::now()), ["x"]);
        assert!(known.deployed.is_empty() && !known.is_changing());
    }

    #[test]
    fn a_data_plane_begins_without_functions() {
        let mut known = OnDemand::default();
        assert!(known.decide(("x", CALM), 1.0, Instant::now()));
        known.confirm();
        assert_eq!(known.begin_anew(), ["x"]);
        assert!(known.deployed.is_empty() && !known.is_changing());
    }
}
