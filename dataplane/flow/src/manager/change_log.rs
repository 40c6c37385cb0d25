//! Log of session changes, until a reader takes it.
//!
//! Changes are numbered from 1.

use std::collections::VecDeque;

use crate::manager::reader::Key;
use crate::plan::LevelId;

/// A change of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It began, or its life went on.
    Changed(LevelId, u32),
    /// It ended; its record may be another's by now.
    Ended(LevelId, Key),
}

/// What is noted of a session, where that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeMark {
    /// Number of its last change; 0 if none was noted.
    pub change: u64,
    /// A number that an element notes of it.
    pub ticket: u64,
}

/// Changes since they were last asked for; bounded.
#[derive(Debug)]
pub(super) struct ChangeLog {
    changes: VecDeque<(u64, Change)>,
    capacity: usize,
    is_lost: bool,
    /// Number of the last change.
    last: u64,
    /// By level and record the fields of marks; empty where nobody asks for them. Arrays of
    /// zeros are memory that is only touched as it is used.
    marks: Vec<Vec<[u64; 2]>>,
}

impl ChangeLog {
    /// With room for so many, all of it allocated now.
    pub fn new(capacity: usize) -> ChangeLog {
        let changes = VecDeque::with_capacity(capacity);
        ChangeLog { changes, capacity, is_lost: false, last: 0, marks: Vec::new() }
    }

    /// From now on keeps marks, for so many records of each level.
    pub fn keep_marks(&mut self, records: impl Iterator<Item = u32>) {
        self.marks = records.map(|records| vec![[0; 2]; records as usize]).collect();
    }

    /// Whether it keeps marks.
    pub fn keeps_marks(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Goes on for the records of another configuration, so many of each level. `moves`: a level,
    /// the one that its sessions went to, and of each of its records the new one, plus one (0:
    /// none). What waits is lost, as it names records; numbers go on.
    pub fn follow<'a>(
        &mut self,
        records: impl Iterator<Item = u32>,
        moves: impl Iterator<Item = (usize, usize, &'a [u32])>,
    ) {
        self.changes.clear();
        self.is_lost = true;
        if !self.keeps_marks() {
            return;
        }
        let before = std::mem::take(&mut self.marks);
        self.keep_marks(records);
        for (from, to, places) in moves {
            for (mark, place) in before[from].iter().zip(places) {
                let here = place.checked_sub(1).and_then(|at| self.marks[to].get_mut(at as usize));
                here.into_iter().for_each(|here| *here = *mark);
            }
        }
    }

    /// Notes a change of the session in this record, or that there was no room for it.
    pub fn add(&mut self, (level, index): (LevelId, u32), change: Change) {
        self.last += 1;
        let last = self.last;
        if let Some([change, _]) = self.mark_mut(level, index) {
            *change = last;
        }
        if self.changes.len() < self.capacity {
            self.changes.push_back((self.last, change));
        } else {
            self.is_lost = true;
        }
    }

    /// The oldest change.
    pub fn take(&mut self) -> Option<Change> {
        self.changes.pop_front().map(|(_, change)| change)
    }

    /// The same, which stays.
    pub fn peek(&self) -> Option<Change> {
        self.changes.front().map(|(_, change)| *change)
    }

    /// Forgets all, and that some were lost.
    pub fn clear(&mut self) {
        self.changes.clear();
        self.is_lost = false;
    }

    /// Whether some were lost.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Number of the last change.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Number of the last change that was taken, or forgotten.
    pub fn taken(&self) -> u64 {
        self.changes.front().map_or(self.last, |(number, _)| number - 1)
    }

    /// What is noted of the session in a record.
    pub fn mark(&self, level: LevelId, index: u32) -> ChangeMark {
        let marks = self.marks.get(usize::from(level));
        let mark = marks.and_then(|marks| marks.get(index as usize));
        mark.map_or(ChangeMark::default(), |&[change, ticket]| ChangeMark { change, ticket })
    }

    /// Notes a ticket of it.
    pub fn set_ticket(&mut self, level: LevelId, index: u32, to: u64) {
        if let Some([_, ticket]) = self.mark_mut(level, index) {
            *ticket = to;
        }
    }

    fn mark_mut(&mut self, level: LevelId, index: u32) -> Option<&mut [u64; 2]> {
        self.marks.get_mut(usize::from(level))?.get_mut(index as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_marks_go_on_in_other_records() {
        let mut log = ChangeLog::new(4);
        log.keep_marks([3, 2].into_iter());
        for index in [0, 2] {
            log.add((0, index), Change::Changed(0, index));
        }
        log.set_ticket(0, 2, 9);
        // Level 0 is level 1 now; record 0 did not go, record 2 is record 1.
        log.follow([2, 4].into_iter(), [(0, 1, &[0, 0, 2][..])].into_iter());
        assert!(log.is_lost() && log.take().is_none());
        assert_eq!((log.last(), log.taken()), (2, 2));
        assert_eq!(log.mark(1, 1), ChangeMark { change: 2, ticket: 9 });
        assert_eq!(log.mark(1, 0), ChangeMark::default());
        assert_eq!(log.mark(0, 2), ChangeMark::default());
    }
}
