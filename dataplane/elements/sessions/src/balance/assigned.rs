//! Balance's record of a session: its replica, and whether its packets wait.

use thruway_flow::manager::{At, Manager};
use thruway_flow::{Direction, Fcb};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::pool::Ticket;

/// State of a session: its replica's slot in the pool.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Assigned {
    slot: u32,
    generation: u32,
}

/// In a slot: another thread's Balance chose the replica, and counts the session.
const ELSEWHERE: u32 = 1 << 31;
/// In a slot: the session is about to move, and its packets wait.
const HELD: u32 = 1 << 30;

impl Assigned {
    pub(super) fn of(ticket: Ticket, is_here: bool) -> Assigned {
        let mark = if is_here { 0 } else { ELSEWHERE };
        Assigned { slot: ticket.slot | mark, generation: ticket.generation }
    }

    #[inline]
    pub(super) fn ticket(&self) -> Ticket {
        Ticket { slot: self.slot & !(ELSEWHERE | HELD), generation: self.generation }
    }

    pub(super) fn is_held(&self) -> bool {
        self.slot & HELD != 0
    }

    pub(super) fn set_held(&mut self, is_held: bool) {
        self.slot = self.slot & !HELD | if is_held { HELD } else { 0 };
    }

    pub(super) fn is_here(&self) -> bool {
        self.slot & ELSEWHERE == 0
    }

    /// The record of a session, if Balance has opened it.
    pub(super) fn read(flows: &mut Manager, at: &At) -> Option<Assigned> {
        let (_, scratch) = flows.enter(at)?;
        Assigned::read_from_bytes(scratch).ok()
    }

    pub(super) fn write(self, flows: &mut Manager, at: &At) {
        let _ = self.write_to(flows.scratch_mut(at));
    }
}

/// Where state of the function `node` is of the session in a record (by level and number), if it is
/// in that record itself.
pub(super) fn own_state(flows: &Manager, node: u32, (level, index): (u8, u32)) -> Option<At> {
    let access = flows.access(node);
    let is_own = Manager::is_kept_at(access, level);
    let fcb = Fcb::of_session(level, index, Direction::Forward, false);
    is_own.then(|| flows.locate(access, fcb)).flatten()
}
