//! From a packet's FCB word to a function's state.

use crate::fcb::{Direction, Fcb};
use crate::life::Life;
use crate::manager::Manager;
use crate::manager::level::{END_ASKED, LINK_TURNED};
use crate::plan::{Access, LEVELS_MAX, LevelId};

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

/// A function's ways to its state, by the level that packets' records are of.
pub type Ways = [Option<Access>; LEVELS_MAX];

const NO_WAY: &Ways = &[None; LEVELS_MAX];

impl At {
    /// The function's bit among those that have opened the session.
    pub(super) fn opened_bit(&self) -> u32 {
        self.opened
    }

    /// Where its published words begin.
    pub(super) fn shared_at(&self) -> usize {
        usize::from(self.shared_at)
    }
}

impl Manager {
    /// How `node` comes to its state.
    #[inline]
    pub fn ways(&self, node: u32) -> &Ways {
        self.plan.nodes.get(node as usize).map_or(NO_WAY, |node| &node.access)
    }

    /// Where a function's state for a packet is, if the packet has a session that concerns it.
    #[inline]
    pub fn locate(&self, ways: &Ways, fcb: Fcb) -> Option<At> {
        let (level, index) = fcb.session()?;
        let access = ways[usize::from(level)].as_ref()?;
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

    /// What a function's scratch begins with; zeros follow.
    pub fn initial(&self, at: &At) -> &[u8] {
        let rooms = &self.plan.levels[usize::from(at.level)].rooms;
        let own = rooms.iter().find(|room| 1 << room.bit == at.opened);
        own.map_or(&[], |room| &room.demand.initial)
    }

    /// Whether the function has opened the session.
    #[inline]
    pub fn is_opened(&self, at: &At) -> bool {
        self.levels[usize::from(at.level)].pool.head(at.index).opened & at.opened != 0
    }

    /// Notes that it has.
    pub fn set_opened(&mut self, at: &At) {
        self.levels[usize::from(at.level)].pool.head_mut(at.index).opened |= at.opened;
    }

    /// What is known of the session.
    #[inline]
    pub fn life(&self, at: &At) -> Life {
        self.levels[usize::from(at.level)].both(at.index).0
    }

    /// The function's scratch.
    #[inline]
    pub fn scratch_mut(&mut self, at: &At) -> &mut [u8] {
        let scratch = self.levels[usize::from(at.level)].pool.scratch_mut(at.index);
        scratch.get_mut(at.offset as usize..(at.offset + at.size) as usize).unwrap_or(&mut [])
    }

    /// What is known of the session and the function's scratch, if it has opened the session.
    ///
    /// PERF: one computation of the record's place for all that a packet needs, instead of three:
    /// `bench flow --case counter/9` went from 150 to 105 ns a packet, `nat/10k` from 72 to 59.
    /// Inlined always, and with the whole record fetched ahead, `counter/9` went from 99 to 85.
    #[inline(always)]
    pub fn enter(&mut self, at: &At) -> Option<(Life, &mut [u8])> {
        let state = &mut self.levels[usize::from(at.level)];
        let known = state.meeting.is_some().then(|| state.both(at.index).0);
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

    /// Has the session ended before its next packet, or when its time is up.
    pub fn ask_end(&mut self, at: &At) {
        self.levels[usize::from(at.level)].pool.head_mut(at.index).flags |= END_ASKED;
    }
}
