//! From a packet's FCB word to a function's state.

use crate::fcb::{Direction, Fcb};
use crate::life::{Ended, Life, Phase, Transport};
use crate::manager::flow_manager::Manager;
use crate::manager::level::{END_ASKED, ENDING, LINK_TURNED, SHORT_CUT};
use crate::manager::shared_records::WORDS_MAX;
use crate::plan::{Access, LEVELS_MAX, LevelId, ScratchSlot};

/// Where a function's state for a packet's session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Level of the record.
    pub level: LevelId,
    /// The record.
    pub index: u32,
    /// In which direction of that session the packet goes.
    pub direction: Direction,
    /// First byte in the record's scratch.
    offset: u32,
    size: u32,
    /// The function's bit among those that have opened the session.
    opened: u32,
    shared_at: u16,
}

impl At {
    /// Of the function in a slot of a record's level, for a packet that goes forward.
    pub(super) fn of_slot((level, index): (LevelId, u32), slot: &ScratchSlot) -> At {
        At {
            level,
            index,
            direction: Direction::Forward,
            offset: slot.offset,
            size: slot.demand.size as u32,
            opened: 1 << slot.bit,
            shared_at: slot.shared_at,
        }
    }
}

/// A function's accesses to its state, by the level that packets' records are of.
pub type AccessByLevel = [Option<Access>; LEVELS_MAX];

const NO_ACCESS: &AccessByLevel = &[None; LEVELS_MAX];

impl Manager {
    /// How `node` comes to its state.
    #[inline]
    pub fn access(&self, node: u32) -> &AccessByLevel {
        self.plan.nodes.get(node as usize).map_or(NO_ACCESS, |node| &node.access)
    }

    /// Where a function's state for a packet is, if the packet has a session that concerns it.
    #[inline]
    pub fn locate(&self, access: &AccessByLevel, fcb: Fcb) -> Option<At> {
        let (level, index) = fcb.session()?;
        let access = access[usize::from(level)].as_ref()?;
        // A packet that was held while the configuration was swapped may bear any number.
        if index >= self.levels[usize::from(level)].pool.extent() {
            return None;
        }
        let (index, direction) = match access.via {
            None => (index, fcb.direction()),
            Some(link) => self.follow(level, index, link, fcb.direction())?,
        };
        Some(At {
            level: access.level,
            index,
            direction,
            offset: access.offset,
            size: access.size,
            opened: 1 << access.bit,
            shared_at: access.shared_at,
        })
    }

    /// The coarser session of a record.
    fn follow(
        &self,
        level: LevelId,
        index: u32,
        link: u8,
        direction: Direction,
    ) -> Option<(u32, Direction)> {
        let state = &self.levels[usize::from(level)];
        let word = state.pool.extra(index, state.extra.links + usize::from(link));
        let parent = (word & !LINK_TURNED).checked_sub(1)?;
        let turned = word & LINK_TURNED != 0;
        let reply = (direction == Direction::Reply) != turned;
        Some((parent, if reply { Direction::Reply } else { Direction::Forward }))
    }

    /// The initial bytes of a function's scratch; zeros follow.
    pub fn initial(&self, at: &At) -> &[u8] {
        let scratch_slots = &self.plan.levels[usize::from(at.level)].scratch_slots;
        let own = scratch_slots.iter().find(|scratch_slot| 1 << scratch_slot.bit == at.opened);
        own.map_or(&[], |scratch_slot| &scratch_slot.demand.initial)
    }

    /// Whether the function has opened the session.
    #[inline]
    pub fn is_opened(&self, at: &At) -> bool {
        self.levels[usize::from(at.level)].pool.head(at.index).opened & at.opened != 0
    }

    /// Notes that it has.
    pub fn set_opened(&mut self, at: &At) {
        self.levels[usize::from(at.level)].pool.head_mut(at.index).opened |= at.opened;
        self.note_change(at.level, at.index);
    }

    /// Takes that back: the function has given the session up, and does not hear of its end.
    pub fn clear_opened(&mut self, at: &At) {
        self.levels[usize::from(at.level)].pool.head_mut(at.index).opened &= !at.opened;
    }

    /// Whether a function's state is in records of this level itself.
    pub fn is_kept_at(access: &AccessByLevel, level: LevelId) -> bool {
        access.get(usize::from(level)).is_some_and(|access| {
            access.as_ref().is_some_and(|access| access.via.is_none() && access.level == level)
        })
    }

    /// Adds the open sessions among `max` records from `from` on; returns where to continue: `None`
    /// at the end.
    pub fn open_sessions(
        &self,
        level: LevelId,
        (from, max): (u32, u32),
        mut each: impl FnMut(u32),
    ) -> Option<u32> {
        let state = self.levels.get(usize::from(level))?;
        let end = from.saturating_add(max).min(state.pool.extent());
        let is_open =
            |at: &u32| state.pool.is_live(*at) && state.pool.head(*at).flags & ENDING == 0;
        (from..end).filter(is_open).for_each(&mut each);
        (end < state.pool.extent()).then_some(end)
    }

    /// The state of the session.
    #[inline]
    pub fn life(&self, at: &At) -> Life {
        self.levels[usize::from(at.level)].both(at.index).0
    }

    /// The function's scratch, to be read.
    pub(super) fn scratch_of(&self, at: &At) -> &[u8] {
        let scratch = self.levels[usize::from(at.level)].pool.scratch(at.index);
        scratch.get(at.offset as usize..(at.offset + at.size) as usize).unwrap_or(&[])
    }

    /// The function's scratch.
    #[inline]
    pub fn scratch_mut(&mut self, at: &At) -> &mut [u8] {
        let scratch = self.levels[usize::from(at.level)].pool.scratch_mut(at.index);
        scratch.get_mut(at.offset as usize..(at.offset + at.size) as usize).unwrap_or(&mut [])
    }

    /// The state of the session and the function's scratch, if it has opened the session.
    ///
    /// PERF: one computation of the record's place for all that a packet needs, instead of three:
    /// `bench flow --case counter/9` went from 150 to 105 ns a packet, `nat/10k` from 72 to 59.
    /// Inlined always, and with the whole record fetched ahead, `counter/9` went from 99 to 85.
    #[inline(always)]
    pub fn enter(&mut self, at: &At) -> Option<(Life, &mut [u8])> {
        let state = &mut self.levels[usize::from(at.level)];
        let known = state.shared_flows.is_some().then(|| state.both(at.index).0);
        let (head, scratch) = state.pool.head_and_scratch(at.index);
        if head.opened & at.opened == 0 {
            return None;
        }
        let life = known.unwrap_or(Life(head.state));
        let end = (at.offset + at.size) as usize;
        Some((life, scratch.get_mut(at.offset as usize..end)?))
    }

    /// The same of a function that begins with zeros, and has opened the session with this packet.
    #[inline]
    pub fn enter_zeroed(&mut self, at: &At) -> Option<(Life, &mut [u8])> {
        if !self.is_opened(at) {
            self.scratch_mut(at).fill(0);
            self.set_opened(at);
        }
        self.enter(at)
    }

    /// The scratch of the function at `at`: zeros, if it has not opened the session.
    pub fn scratch_or_zeros(&mut self, at: &At) -> &mut [u8] {
        let is_opened = self.is_opened(at);
        let scratch = self.scratch_mut(at);
        if !is_opened {
            scratch.fill(0);
        }
        scratch
    }

    /// Ends session `index`, of the level of `at`, for the sake of the session at `at`: if it is an
    /// embryonic TCP session, the function has opened it, and `take` accepts the function's
    /// scratch. Functions are informed as of any end, with the scratch as `take` left it.
    pub fn evict_embryonic(
        &mut self,
        at: &At,
        index: u32,
        take: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> bool {
        let state = &self.levels[usize::from(at.level)];
        let other = At { index, ..*at };
        if index == at.index || index >= state.pool.extent() || !state.pool.is_live(index) {
            return false;
        }
        let has_children = state.extra.children.is_some_and(|at| state.pool.extra(index, at) > 0);
        let is_ending = state.pool.head(index).flags & ENDING != 0;
        if is_ending || has_children || !self.is_opened(&other) {
            return false;
        }
        let life = self.life(&other);
        let is_embryonic = (life.transport(), life.phase()) == (Transport::Tcp, Phase::New);
        if !is_embryonic || !take(self.scratch_mut(&other)) {
            return false;
        }
        self.end(at.level, index, Ended::Evicted);
        // At once, for all threads: the next session may have the same replies.
        self.levels[usize::from(at.level)].retire(index);
        true
    }

    /// Has the session ended before its next packet, or when its time is up.
    pub fn ask_end(&mut self, at: &At) {
        if self.levels[usize::from(at.level)].pool.head(at.index).flags & SHORT_CUT != 0 {
            self.stop_short_cut(at.level, at.index);
        }
        self.levels[usize::from(at.level)].pool.head_mut(at.index).flags |= END_ASKED;
    }

    /// The words that the function published for the session in the thread that serves its other
    /// direction.
    pub fn published(&self, at: &At) -> Option<[u64; WORDS_MAX]> {
        let state = &self.levels[usize::from(at.level)];
        state.published(at.index, at.opened, usize::from(at.shared_at))
    }

    /// Publishes words of the session for the other direction's thread.
    pub fn publish(&mut self, at: &At, words: &[u64]) {
        let state = &self.levels[usize::from(at.level)];
        state.publish(at.index, at.opened, usize::from(at.shared_at), words);
    }
}
