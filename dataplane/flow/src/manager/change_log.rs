//! Log of session changes, until a reader takes it.

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

/// Changes since they were last asked for; bounded.
#[derive(Debug)]
pub(super) struct ChangeLog {
    changes: VecDeque<Change>,
    capacity: usize,
    is_lost: bool,
}

impl ChangeLog {
    /// With room for so many, all of it allocated now.
    pub fn new(capacity: usize) -> ChangeLog {
        ChangeLog { changes: VecDeque::with_capacity(capacity), capacity, is_lost: false }
    }

    /// Notes a change, or that there was no room for one.
    pub fn add(&mut self, change: Change) {
        if self.changes.len() < self.capacity {
            self.changes.push_back(change);
        } else {
            self.is_lost = true;
        }
    }

    /// The oldest change.
    pub fn take(&mut self) -> Option<Change> {
        self.changes.pop_front()
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
}
