//! Second keys: the replies of a session with addresses that a function translates.

use thruway_wire::flow::FiveTuple;

use crate::manager::flow_manager::Manager;
use crate::manager::level::{FORWARD_EXCHANGED, REPLY_EXCHANGED};
use crate::manager::reader::{Key, Reader};
use crate::manager::state::At;
use crate::plan::{Family, LevelId};

/// Why a second key was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// Another session has this key.
    Taken,
    /// No room in the table just now, or the key cannot be made of a five-tuple.
    NoRoom,
}

impl Manager {
    /// Lets packets with this five-tuple be the replies of the session at `at`.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    pub fn answer(&mut self, at: &At, reply: &FiveTuple<u32>) -> Result<(), NoAnswer> {
        let reader = self.reply_reader(at, Family::V4).ok_or(NoAnswer::NoRoom)?;
        if !reader.is_narrow {
            return Err(NoAnswer::NoRoom);
        }
        let (key, exchanged) = reader.narrow_of(reply);
        self.add_answer(at.level, at.index, &Key::Narrow(key), exchanged)
    }

    /// The same for IPv6.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    pub fn answer6(&mut self, at: &At, reply: &FiveTuple<[u8; 16]>) -> Result<(), NoAnswer> {
        let reader = self.reply_reader(at, Family::V6).ok_or(NoAnswer::NoRoom)?;
        let (key, exchanged) = reader.wide_of(reply).ok_or(NoAnswer::NoRoom)?;
        self.add_answer(at.level, at.index, &Key::Wide(key), exchanged)
    }

    /// How the replies of a session are read.
    fn reply_reader(&self, at: &At, family: Family) -> Option<Reader> {
        let head = self.levels[usize::from(at.level)].pool.head(at.index);
        let reader = self.readers.get(usize::from(head.leaf))?[family as usize].as_ref()?;
        (reader.level == at.level).then(|| reader.turned())
    }

    fn add_answer(
        &mut self,
        level: LevelId,
        index: u32,
        key: &Key,
        exchanged: bool,
    ) -> Result<(), NoAnswer> {
        let state = &mut self.levels[usize::from(level)];
        if state.pool.key(index) == key.words() {
            // The replies come under the session's own key already.
            let forward = state.pool.head(index).flags & FORWARD_EXCHANGED != 0;
            return if forward == exchanged { Err(NoAnswer::Taken) } else { Ok(()) };
        }
        if state.pool.find(key.words()).index().is_some_and(|other| other != index) {
            return Err(NoAnswer::Taken);
        }
        if !state.also(index, key.words(), exchanged) {
            return Err(NoAnswer::Taken);
        }
        state.pool.alias(index, key.words()).map_err(|_| NoAnswer::NoRoom)?;
        state.is_changed = true;
        let head = state.pool.head_mut(index);
        head.flags &= !REPLY_EXCHANGED;
        head.flags |= if exchanged { REPLY_EXCHANGED } else { 0 };
        Ok(())
    }
}
