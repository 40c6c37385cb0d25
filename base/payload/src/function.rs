//! The interface for authors of functions.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::cursor::StreamCursor;

/// How to continue after a function has seen the available bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Next {
    /// Everything may go on, whether it was read or not.
    #[default]
    Continue,
    /// Bytes behind the cursor are held back, and shown again with more; those before it go on. If
    /// nothing more will come ([`StreamCursor::is_last`]) everything goes on.
    NeedMore,
    /// The connection must end: neither the bytes shown nor any after them go on.
    Close,
}

/// The needs of a function: the union of those of all functions in a chain is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// Payload must come in order, without holes and without repetition.
    pub order: bool,
    /// The receiver must get the bytes that the function saw, despite retransmissions and
    /// duplicates.
    pub guard: bool,
    /// It may change bytes in place.
    pub change: bool,
    /// It may insert and remove bytes.
    pub resize: bool,
    /// It may hold bytes back ([`Next::NeedMore`]).
    pub stall: bool,
    /// It may end connections ([`Next::Close`]).
    pub close: bool,
}

impl Needs {
    /// Sees packets as they come.
    pub const NOTHING: Needs = Needs {
        order: false,
        guard: false,
        change: false,
        resize: false,
        stall: false,
        close: false,
    };
    /// Sees the payload in order.
    pub const ORDER: Needs = Needs { order: true, ..Needs::NOTHING };
    /// Sees in order exactly what the receiver will get, and may end the connection.
    pub const GUARD: Needs = Needs { guard: true, close: true, ..Needs::ORDER };
    /// Changes bytes in place.
    pub const CHANGE: Needs = Needs { change: true, ..Needs::GUARD };
    /// Inserts, removes, holds back.
    pub const RESIZE: Needs = Needs { resize: true, stall: true, ..Needs::CHANGE };

    /// The union of both.
    #[must_use]
    pub const fn and(self, other: Needs) -> Needs {
        Needs {
            order: self.order | other.order,
            guard: self.guard | other.guard,
            change: self.change | other.change,
            resize: self.resize | other.resize,
            stall: self.stall | other.stall,
            close: self.close | other.close,
        }
    }

    /// As bits: order, guard, change, resize, stall, close, from the lowest on.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.order as u32
            | (self.guard as u32) << 1
            | (self.change as u32) << 2
            | (self.resize as u32) << 3
            | (self.stall as u32) << 4
            | (self.close as u32) << 5
    }

    /// From [`bits`](Self::bits); others mean nothing.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Needs {
        Needs {
            order: bits & 1 != 0,
            guard: bits & 1 << 1 != 0,
            change: bits & 1 << 2 != 0,
            resize: bits & 1 << 3 != 0,
            stall: bits & 1 << 4 != 0,
            close: bits & 1 << 5 != 0,
        }
    }

    /// Adds the implied needs: a function that changes bytes also decides what the receiver gets,
    /// and one that decides that, holds back or ends connections sees the payload in order.
    #[must_use]
    pub const fn complete(self) -> Needs {
        let guard = self.guard | self.change | self.resize | self.stall;
        Needs { order: self.order | guard | self.close, guard, ..self }
    }
}

/// A function of the payload of sessions.
pub trait StreamFunction {
    /// Its state of a session: plain data of constant size, zeros at the beginning, shared by both
    /// directions ([`StreamCursor::direction`] is the current one).
    type State: FromBytes + IntoBytes + KnownLayout + Immutable + Copy;

    /// Its needs.
    const NEEDS: Needs;

    /// Processes new bytes of one direction of a session.
    fn process(&mut self, state: &mut Self::State, data: &mut StreamCursor<'_>) -> Next;

    /// The session has ended; called once for each that was shown.
    fn ended(&mut self, state: &Self::State) {
        let _ = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_their_bits() {
        for bits in 0..64 {
            assert_eq!(Needs::from_bits(bits | 1 << 31).bits(), bits);
        }
        assert_eq!(Needs::ORDER.bits(), 0x01);
        assert_eq!(Needs::GUARD.bits(), 0x23);
        assert_eq!(Needs::CHANGE.bits(), 0x27);
        assert_eq!(Needs { stall: false, ..Needs::RESIZE }.bits(), 0x2f);
    }
}
