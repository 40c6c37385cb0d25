//! Other rules while sessions go on.

use std::sync::Arc;

use crate::patterns::SearchState;
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
            (side.payload, side.body) = (SearchState::default(), SearchState::default());
            if let Some(slot) = self.slots.slot(side.slot) {
                slot.pending.clear();
                slot.lost = side.stream;
                slot.lost_head = side.in_message != 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Facts, Found, Kind, Limits, Piece, Variables};

    fn set(rules: &str) -> Arc<RuleSet> {
        Arc::new(RuleSet::load(rules.as_bytes(), &Variables::usual()).unwrap())
    }

    /// TCP from 10.0.0.1:1024 to 192.0.2.1:80.
    fn facts() -> Facts {
        let mut packet = vec![0u8; 40];
        (packet[0], packet[9], packet[32]) = (0x45, 6, 0x50);
        packet[12..24].copy_from_slice(&[10, 0, 0, 1, 192, 0, 2, 1, 4, 0, 0, 80]);
        Facts { established: true, ..Facts::of(&packet).unwrap() }
    }

    /// Numbers of the rules that are reported, wherever rules are exchanged while this flows.
    fn alerts(stream: &[u8], exchanged_at: usize) -> Vec<u32> {
        let before = set("alert tcp any any -> any any (content:\"zzz\"; sid:1;)\n\
             alert tcp any any -> any any (content:\"yyy\"; sid:2;)");
        let after = set("alert tcp any any -> any any (content:\"attack\"; sid:3;)\n\
             alert tcp any any -> any any (content:\"one\"; content:\"two\"; distance:0; sid:4;)");
        let mut inspector = Inspector::new(before, Limits { slots: 2, ..Limits::default() });
        let (mut session, mut found, facts) = (Session::default(), Found::default(), facts());
        let mut show = |inspector: &mut Inspector, session: &mut Session, bytes: &[u8]| {
            let piece = Piece { facts: &facts, bytes, kind: Kind::Plain, now: 0 };
            inspector.stream(session, piece, &mut found);
        };
        show(&mut inspector, &mut session, &stream[..exchanged_at]);
        inspector.replace(after);
        inspector.renew(&mut session);
        for byte in &stream[exchanged_at..] {
            show(&mut inspector, &mut session, &[*byte]);
        }
        let sid = |rule: &u32| inspector.set().rules()[*rule as usize].about.sid;
        let mut alerts: Vec<u32> = found.alerts.iter().map(sid).collect();
        alerts.sort_unstable();
        alerts
    }

    /// What began before the exchange is found when it ends behind it.
    #[test]
    fn new_rules_see_what_is_remembered() {
        let stream = b"an attack: one, and two.";
        for at in 0..stream.len() {
            let wanted: &[u32] = match at {
                0..=8 => &[3, 4],
                9..=22 => &[4],
                _ => &[],
            };
            let alerts = alerts(stream, at);
            assert!(wanted.iter().all(|sid| alerts.contains(sid)), "at {at}: {alerts:?}");
        }
    }
}
