//! A session as a function sees it.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::cx::FunctionState;

/// A session that begins or has ended.
pub struct Session<'a> {
    pub(crate) number: u32,
    pub(crate) state: &'a mut FunctionState,
}

impl Session<'_> {
    /// Its number: that of [`Packet::session`](crate::Packet::session). Another session may have it
    /// after this one has ended.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its scratch as a `T`: as [`Packet::scratch`](crate::Packet::scratch).
    pub fn scratch<T>(&mut self) -> Option<&mut T>
    where
        T: FromBytes + IntoBytes + KnownLayout + Immutable,
    {
        self.state.scratch(self.number)
    }

    /// Scratch of any session as bytes. A way for bindings to other languages.
    pub fn scratch_bytes(&mut self, session: u32) -> Option<&mut [u8]> {
        self.state.arena.as_mut()?.session(session)
    }

    /// Nanoseconds of the system's monotonic clock, the same for all of a batch.
    pub fn now_ns(&mut self) -> u64 {
        self.state.clock.now_ns()
    }
}
