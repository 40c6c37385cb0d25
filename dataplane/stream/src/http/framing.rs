//! The framing state of a connection: the next item in each direction.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::fault::Fault;
use super::kind::Kind;
use super::pending::Pending;

/// The next item of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A message.
    Start,
    /// A body of known length.
    Body,
    /// A body that ends with the connection.
    UntilClose,
    /// The size of a chunk.
    ChunkSize,
    /// White space behind a chunk's size.
    ChunkBlank,
    /// Extensions of a chunk.
    ChunkExtension,
    /// The LF of a chunk's first line.
    ChunkLineFeed,
    /// Data of a chunk.
    ChunkData,
    /// The end of a chunk.
    ChunkEnd,
    /// Its LF.
    ChunkEndFeed,
    /// The section after the last chunk.
    Trailer,
    /// The message is complete, which is still to be reported.
    Ended,
    /// Bytes that are not HTTP's.
    Opaque,
}

const PHASES: [Phase; 13] = [
    Phase::Start,
    Phase::Body,
    Phase::UntilClose,
    Phase::ChunkSize,
    Phase::ChunkBlank,
    Phase::ChunkExtension,
    Phase::ChunkLineFeed,
    Phase::ChunkData,
    Phase::ChunkEnd,
    Phase::ChunkEndFeed,
    Phase::Trailer,
    Phase::Ended,
    Phase::Opaque,
];

/// One direction of a connection. Zeros are one in which nothing was seen yet.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct DirectionState {
    /// Remaining bytes of a body or chunk; the digits read so far of a chunk's size.
    pub(super) left: u64,
    /// Bytes of a section in which its end was looked for.
    pub(super) scanned: u32,
    /// Bytes of a chunk's extensions.
    pub(super) length: u16,
    /// Empty lines before a head; digits of a chunk's size.
    pub(super) count: u8,
    phase: u8,
}

impl DirectionState {
    /// The next item.
    pub(super) fn phase(&self) -> Phase {
        PHASES.get(usize::from(self.phase)).copied().unwrap_or(Phase::Opaque)
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.phase = phase as u8;
    }

    /// The bytes that follow belong to no message.
    pub fn is_opaque(&self) -> bool {
        self.phase() == Phase::Opaque
    }

    /// A message has begun and not ended.
    pub fn is_within(&self) -> bool {
        !matches!(self.phase(), Phase::Start | Phase::Ended | Phase::Opaque)
    }
}

/// The state of a connection: 72 bytes. Zeros are a connection without bytes yet.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Connection {
    /// Requests, responses.
    pub(super) directions: [DirectionState; 2],
    pub(super) pending: Pending,
    /// One more than the number of the fault for which it was refused.
    refused: u8,
    spare: [u8; 5],
}

impl Connection {
    /// The direction that carries a kind of message.
    pub fn direction(&self, kind: Kind) -> &DirectionState {
        &self.directions[kind as usize]
    }

    /// Why it was refused, if it was.
    pub fn refused(&self) -> Option<Fault> {
        Fault::ALL.get(usize::from(self.refused).wrapping_sub(1)).copied()
    }

    /// From here on it is refused for this fault.
    pub(super) fn refuse(&mut self, fault: Fault) -> Fault {
        self.refused = fault as u8 + 1;
        fault
    }

    /// From here on both directions are none of HTTP's business.
    pub fn make_opaque(&mut self) {
        self.refused = 0;
        for direction in &mut self.directions {
            direction.set_phase(Phase::Opaque);
        }
    }

    /// Requests that wait for an answer.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_have_their_numbers() {
        for (number, phase) in PHASES.iter().enumerate() {
            assert_eq!(*phase as usize, number);
        }
        assert_eq!(size_of::<Connection>(), 72);
    }
}
