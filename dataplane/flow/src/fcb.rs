//! The 32 bits that a packet carries of its flow control block.
//!
//! ```text
//! 0                     not classified
//! 1 0 0 leaf            classified, no session: the leaf's number
//! 1 0 1 note leaf       not classified here: the leaf that a program in front found
//!   1 1 13   16 bits
//! 0 reply related level index + 1
//!   1     1       3     26 bits
//! 1 1 thread            goes on in that thread (while a batch is classified)
//! ```

use crate::plan::{LeafId, LevelId};

/// Most records of one level.
pub const RECORDS_MAX: u32 = (1 << 26) - 2;

const LEAF: u32 = 1 << 31;
const REPLY: u32 = 1 << 30;
/// With [`LEAF`].
const ELSEWHERE: u32 = 1 << 30;
/// With [`LEAF`].
const NOTED: u32 = 1 << 29;
const NOTE_SHIFT: u32 = 16;
const NOTE_MASK: u32 = 0x1fff;
const RELATED: u32 = 1 << 29;
const LEVEL_SHIFT: u32 = 26;
const INDEX: u32 = (1 << LEVEL_SHIFT) - 1;

/// The flow manager's word in a packet's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Fcb(pub u32);

/// In which direction of its session a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    /// As the packet that opened it.
    #[default]
    Forward,
    /// The opposite direction.
    Reply,
}

impl Direction {
    /// The other one.
    #[inline]
    #[must_use]
    pub fn reversed(self) -> Direction {
        match self {
            Direction::Forward => Direction::Reply,
            Direction::Reply => Direction::Forward,
        }
    }
}

impl Fcb {
    /// Not classified.
    pub const NONE: Fcb = Fcb(0);

    /// Of packets without a session.
    #[inline]
    pub fn of_leaf(leaf: LeafId) -> Fcb {
        Fcb(LEAF | u32::from(leaf))
    }

    /// Of packets with a leaf that a program in front found. `note` is that program's number, of
    /// which the lower 13 bits are kept. The classifier behind replaces the word.
    #[inline]
    pub fn of_note(leaf: LeafId, note: u64) -> Fcb {
        Fcb(LEAF | NOTED | (note as u32 & NOTE_MASK) << NOTE_SHIFT | u32::from(leaf))
    }

    /// The leaf that a program in front found, if `note` is that program's number.
    #[inline]
    pub(crate) fn noted(self, note: u64) -> Option<LeafId> {
        let leaf = self.0 as LeafId;
        (self == Fcb::of_note(leaf, note)).then_some(leaf)
    }

    /// Of a session's packets. `level` is below 8, `index` at most [`RECORDS_MAX`].
    #[inline]
    pub fn of_session(level: LevelId, index: u32, direction: Direction, related: bool) -> Fcb {
        let reply = if direction == Direction::Reply { REPLY } else { 0 };
        let related = if related { RELATED } else { 0 };
        Fcb(reply | related | u32::from(level) << LEVEL_SHIFT | (index + 1) & INDEX)
    }

    /// Of packets of a session that another thread serves.
    #[inline]
    pub(crate) fn of_thread(thread: u16) -> Fcb {
        Fcb(LEAF | ELSEWHERE | u32::from(thread))
    }

    /// The thread that serves the packet's session, where that is another one.
    #[inline]
    pub(crate) fn thread(self) -> Option<u16> {
        (self.0 & (LEAF | ELSEWHERE) == LEAF | ELSEWHERE).then_some(self.0 as u16)
    }

    /// The leaf, if there is no session.
    #[inline]
    pub fn leaf(self) -> Option<LeafId> {
        (self.0 & LEAF != 0).then_some(self.0 as LeafId)
    }

    /// Level and record of the session, if there is one.
    #[inline]
    pub fn session(self) -> Option<(LevelId, u32)> {
        let index = self.0 & INDEX;
        let level = (self.0 >> LEVEL_SHIFT & 7) as LevelId;
        (self.0 & LEAF == 0 && index != 0).then(|| (level, index.wrapping_sub(1)))
    }

    /// The packet's direction.
    #[inline]
    pub fn direction(self) -> Direction {
        if self.0 & (LEAF | REPLY) == REPLY { Direction::Reply } else { Direction::Forward }
    }

    /// Whether it is an ICMP error about a packet of the session, not one of its own packets.
    #[inline]
    pub fn is_related(self) -> bool {
        self.0 & (LEAF | RELATED) == RELATED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        assert_eq!((Fcb::NONE.leaf(), Fcb::NONE.session()), (None, None));
        let leaf = Fcb::of_leaf(0x7fff);
        assert_eq!((leaf.leaf(), leaf.session()), (Some(0x7fff), None));
        assert_eq!((leaf.direction(), leaf.is_related()), (Direction::Forward, false));
        let elsewhere = Fcb::of_thread(0xffff);
        assert_eq!((elsewhere.thread(), elsewhere.session()), (Some(0xffff), None));
        assert_eq!((leaf.thread(), Fcb::NONE.thread()), (None, None));
        let noted = Fcb::of_note(7, 0x1_ffff);
        assert_eq!((noted.noted(0x1fff), noted.noted(0x1ffe)), (Some(7), None));
        assert_eq!((noted.session(), noted.thread()), (None, None));
        assert_eq!([leaf, elsewhere, Fcb::NONE].map(|fcb| fcb.noted(0)), [None; 3]);
        for (level, index) in [(0, 0), (7, RECORDS_MAX), (3, 77)] {
            for direction in [Direction::Forward, Direction::Reply] {
                for related in [false, true] {
                    let fcb = Fcb::of_session(level, index, direction, related);
                    assert_eq!(fcb.noted(0x1fff), None);
                    assert_eq!((fcb.leaf(), fcb.session()), (None, Some((level, index))));
                    assert_eq!(fcb.thread(), None);
                    assert_eq!((fcb.direction(), fcb.is_related()), (direction, related));
                }
            }
        }
    }
}
