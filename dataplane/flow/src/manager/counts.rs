//! Counters of sessions.

use std::ops::AddAssign;

use crate::life::Ended;

/// Counters of events of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Begun.
    pub created: u64,
    /// Ended for lack of packets.
    pub timed_out: u64,
    /// Ended by their protocol or a function.
    pub closed: u64,
    /// Ended because another needed the place.
    pub evicted: u64,
    /// Ended by a handler or a new configuration.
    pub removed: u64,
    /// Not begun, for lack of room.
    pub refused: u64,
}

impl Counts {
    pub(super) fn count(&mut self, why: Ended) {
        *match why {
            Ended::TimedOut => &mut self.timed_out,
            Ended::Closed => &mut self.closed,
            Ended::Evicted => &mut self.evicted,
            Ended::Removed => &mut self.removed,
        } += 1;
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        let Counts { created, timed_out, closed, evicted, removed, refused } = other;
        self.created += created;
        self.timed_out += timed_out;
        self.closed += closed;
        self.evicted += evicted;
        self.removed += removed;
        self.refused += refused;
    }
}

/// Sessions of one class: the class of the last packet counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Sessions now.
    pub now: u32,
    /// Their counters.
    pub counts: Counts,
}
