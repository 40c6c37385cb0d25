//! Sessions of a thread, over all sorts of sessions.

use thruway_flow::manager::{Counts, Manager};

/// Numbers of the sessions of one thread.
#[derive(Default)]
pub(super) struct Totals {
    /// Sessions now.
    pub sessions: u64,
    /// Of these, the ones that are not established.
    pub embryonic: u64,
    /// Sessions now of the sort that has most of them.
    pub fullest: u64,
    /// Counters of their events.
    pub counts: Counts,
}

impl Totals {
    /// The totals of a flow manager.
    pub(super) fn of(flows: &Manager) -> Totals {
        let mut totals = Totals::default();
        for level in 0..flows.plan().levels.len() as u8 {
            let (now, embryonic, counts) = flows.counts(level);
            totals.sessions += u64::from(now);
            totals.embryonic += u64::from(embryonic);
            totals.fullest = totals.fullest.max(u64::from(now));
            totals.counts += counts;
        }
        totals
    }
}
