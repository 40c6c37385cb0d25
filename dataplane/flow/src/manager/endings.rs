//! Sessions that have ended, before their records are used again: first, functions are notified,
//! and packets with their number leave.

use std::collections::HashSet;

use crate::life::Ended;
use crate::plan::LevelId;

/// A session that has ended, before its record is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedSession {
    /// Its level.
    pub level: LevelId,
    /// Its record.
    pub index: u32,
    /// Why.
    pub why: Ended,
}

/// All of them.
#[derive(Default)]
pub(super) struct Endings {
    /// Sessions with functions to be notified.
    due: Vec<EndedSession>,
    /// Sessions with packets that wait, ended or not, by level and record.
    held: HashSet<(LevelId, u32)>,
    /// The ended ones among them.
    kept: Vec<EndedSession>,
}

impl Endings {
    pub(super) fn new() -> Endings {
        Endings { due: Vec::with_capacity(1024), ..Endings::default() }
    }

    /// A session has ended.
    pub(super) fn add(&mut self, ended: EndedSession) {
        let is_held = !self.held.is_empty() && self.held.contains(&(ended.level, ended.index));
        if is_held { &mut self.kept } else { &mut self.due }.push(ended);
    }

    /// How many functions are to hear of.
    pub(super) fn len(&self) -> usize {
        self.due.len()
    }

    /// One of those.
    #[inline]
    pub(super) fn next(&self) -> Option<EndedSession> {
        self.due.last().copied()
    }

    /// Functions have heard of it. False if it was none of those.
    pub(super) fn remove(&mut self, ended: &EndedSession) -> bool {
        let at = self.due.iter().rposition(|other| other == ended);
        at.map(|at| self.due.swap_remove(at)).is_some()
    }

    /// From now on packets of a session wait.
    pub(super) fn hold(&mut self, level: LevelId, index: u32) {
        self.held.insert((level, index));
    }

    /// They have gone on.
    pub(super) fn let_go(&mut self, level: LevelId, index: u32) {
        if !self.held.remove(&(level, index)) {
            return;
        }
        let is_it = |ended: &EndedSession| (ended.level, ended.index) == (level, index);
        if let Some(at) = self.kept.iter().position(is_it) {
            self.due.push(self.kept.swap_remove(at));
        }
    }

    /// No packet of any session will go on.
    pub(super) fn let_all_go(&mut self) {
        self.held.clear();
        self.due.append(&mut self.kept);
    }
}
