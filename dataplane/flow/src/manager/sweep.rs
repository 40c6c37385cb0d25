//! Ends of sessions: a sweep over all records, a few at a time, finds the expired ones, and
//! functions are notified before a record is used again.

use crate::life::Ended;
use crate::manager::endings::EndedSession;
use crate::manager::flow_manager::Manager;
use crate::manager::level::{END_ASKED, ENDING, LINK_TURNED};
use crate::manager::settings::ticks;
use crate::plan::{LeafId, LevelId};

/// Time of one sweep over all records if there is time, in nanoseconds.
const ROUND_NS: i64 = 2_000_000_000;
/// Most records inspected in one go.
const RECORDS_MAX: i64 = 256;
/// Most sessions of a level ended in one go: for each, functions are called.
const ENDED_MAX: usize = 64;

impl Manager {
    /// Ends some of the expired sessions. Call it often; its work is bounded.
    pub fn sweep(&mut self, now: i64) {
        let since = (now - self.swept).clamp(0, ROUND_NS);
        if since == 0 {
            return;
        }
        self.swept = now;
        for level in 0..self.levels.len() {
            let records = i64::from(self.levels[level].pool.extent());
            let due = (records * since + ROUND_NS - 1) / ROUND_NS;
            self.sweep_level(level, due.min(RECORDS_MAX) as u32, ticks(now));
        }
    }

    fn sweep_level(&mut self, level: usize, records: u32, now: u32) {
        let most = self.ended.len() + ENDED_MAX;
        for _ in 0..records {
            if self.ended.len() >= most {
                return;
            }
            let state = &mut self.levels[level];
            if state.hand >= state.pool.extent() {
                state.hand = 0;
            }
            let index = state.hand;
            state.hand += 1;
            if self.is_over(level, index, now) {
                let state = &self.levels[level];
                let asked =
                    state.pool.head(index).flags & END_ASKED != 0 || state.is_retired(index);
                let why = if asked { Ended::Closed } else { Ended::TimedOut };
                self.end(level as LevelId, index, why);
            }
        }
    }

    fn is_over(&self, level: usize, index: u32, now: u32) -> bool {
        let state = &self.levels[level];
        if !state.pool.is_live(index) {
            return false;
        }
        let head = state.pool.head(index);
        if head.flags & ENDING != 0 {
            return false;
        }
        let children = state.extra.children.map_or(0, |at| state.pool.extra(index, at));
        let (life, seen) = state.both(index);
        let idle = now.wrapping_sub(seen);
        let leaf = if head.leaf == LeafId::MAX { 0 } else { head.leaf };
        let limits = &self.limits[usize::from(self.leaf_limits[usize::from(leaf)])];
        let late = idle >= limits[usize::from(life.0)] && idle < u32::MAX / 2;
        let is_over = late || head.flags & END_ASKED != 0 || state.is_retired(index);
        children == 0 && is_over && !self.has_in_flight(level, index)
    }

    /// Ends all sessions, as when a configuration stops. A few at a time: false when none is left.
    pub fn end_some(&mut self, why: Ended) -> bool {
        self.let_all_go();
        for level in 0..self.levels.len() {
            while self.levels[level].now > 0 {
                let state = &mut self.levels[level];
                state.hand = if state.hand >= state.pool.extent() { 0 } else { state.hand };
                let index = state.hand;
                state.hand += 1;
                self.end(level as LevelId, index, why);
                if self.ended.len() >= ENDED_MAX {
                    return true;
                }
            }
        }
        self.ended.len() > 0
    }

    /// From now until [`Manager::let_go`] packets wait that bear the session's number. If it ends
    /// meanwhile, functions hear of that later: its record is not used again before.
    pub fn hold(&mut self, level: LevelId, index: u32) {
        self.ended.hold(level, index);
    }

    /// The packets of a session have gone on: if it has ended, functions may hear of that.
    pub fn let_go(&mut self, level: LevelId, index: u32) {
        self.ended.let_go(level, index);
    }

    /// The same for all sessions, when no packet will go on any more.
    pub fn let_all_go(&mut self) {
        self.ended.let_all_go();
    }

    /// An ended session with functions still to be notified.
    #[inline]
    pub fn next_ended(&self) -> Option<EndedSession> {
        self.ended.next()
    }

    /// The functions that have opened it, one after the other: the `nth`, and a copy of its
    /// scratch in `state`.
    pub fn end_report(&self, ended: &EndedSession, nth: usize, state: &mut Vec<u8>) -> Option<u32> {
        let pool = &self.levels[usize::from(ended.level)].pool;
        let opened = pool.head(ended.index).opened;
        let scratch_slots = &self.plan.levels[usize::from(ended.level)].scratch_slots;
        let scratch_slot = scratch_slots
            .iter()
            .filter(|scratch_slot| opened & 1 << scratch_slot.bit != 0)
            .nth(nth)?;
        let begin = scratch_slot.offset as usize;
        let scratch = pool.scratch(ended.index);
        state.clear();
        state
            .extend_from_slice(scratch.get(begin..begin + scratch_slot.demand.size).unwrap_or(&[]));
        Some(scratch_slot.node)
    }

    /// All functions have been informed: the record may be used again.
    pub fn release(&mut self, ended: &EndedSession) {
        if !self.ended.remove(ended) {
            return;
        }
        for link in 0..self.plan.levels[usize::from(ended.level)].links.len() {
            let coarse = self.plan.levels[usize::from(ended.level)].links[link];
            let state = &self.levels[usize::from(ended.level)];
            let word = state.pool.extra(ended.index, state.extra.links + link);
            let parent = (word & !LINK_TURNED).checked_sub(1);
            let seen = state.pool.head(ended.index).seen;
            let Some(parent) = parent else { continue };
            let state = &mut self.levels[usize::from(coarse)];
            if let Some(children) = state.extra.children {
                let count = state.pool.extra_mut(parent, children);
                *count = count.saturating_sub(1);
            }
            state.pool.head_mut(parent).seen = seen;
        }
        let state = &mut self.levels[usize::from(ended.level)];
        state.leave(ended.index);
        state.pool.free(ended.index);
    }
}
