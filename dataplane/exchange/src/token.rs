//! What a Master says of a packet that it puts, and what it gets of one that comes back.

use thruway_nf_abi::{SlotHead, flag};

use crate::storage::{Location, Span, Storage};

/// What the Master says to a Worker about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotTag {
    /// Input of the element that it came in by.
    pub input: u8,
    /// The direction of a connection.
    pub direction: u8,
    /// Index of the session's scratch.
    pub fcb: u32,
    /// [`flag::NEW`] if the session is new to the function, and [`flag::KEPT`] if the Master has
    /// the packet's bytes itself.
    pub flags: u8,
}

impl SlotTag {
    /// Input 0, no session.
    pub const NONE: SlotTag = SlotTag::of(0, 0, SlotHead::NO_SESSION);

    /// Of a packet of a session that the function knows, or of none.
    pub const fn of(input: u8, direction: u8, fcb: u32) -> SlotTag {
        SlotTag { input, direction, fcb, flags: 0 }
    }

    /// The same, of a session that is new to the function.
    pub const fn new_session(self) -> SlotTag {
        SlotTag { flags: self.flags | flag::NEW, ..self }
    }

    /// The same, of a packet whose bytes the Master has itself: the Worker is asked to report
    /// whether it has changed them.
    #[inline]
    pub const fn keeping(self) -> SlotTag {
        SlotTag { flags: self.flags | flag::KEPT, ..self }
    }

    /// Whether its session is new to the function.
    #[inline]
    pub const fn is_new(self) -> bool {
        self.flags & flag::NEW != 0
    }
}

/// Where a token came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// This primary slot: what the Master put there comes back.
    Slot(u32),
    /// This primary slot; the Worker dropped its packet: there are no bytes.
    Dropped(u32),
    /// The auxiliary ring, in consequence of this primary slot.
    Aux(u32),
    /// The injection ring.
    Injected,
}

/// A packet that a Worker gave. Its fields are checked copies.
pub struct Token<'a, S: Storage> {
    pub(crate) storage: &'a S,
    pub(crate) location: Location,
    pub(crate) start: u32,
    pub(crate) len: u32,
    /// Where it came from.
    pub origin: Origin,
    /// Output to leave by, less than the number of outputs.
    pub output: u32,
    /// Whether the Worker says that the packet is as it was put. Its bytes are worth no reading for
    /// a Master that has them itself; it is nothing more than what the Worker says.
    pub is_kept: bool,
}

impl<S: Storage> Token<'_, S> {
    /// Length in bytes; 0 when it was dropped.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "only a dropped token is empty")]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Where it lies in its frame.
    #[inline]
    pub fn span(&self) -> Span {
        Span { start: self.start, len: self.len }
    }

    /// The group's frame that holds it, when tokens are descriptors.
    #[inline]
    pub fn frame(&self) -> Option<u32> {
        match self.location {
            Location::Frame(frame) => Some(frame),
            Location::Slot(..) => None,
        }
    }

    /// Copies as many of its bytes as `bytes` has room for.
    #[inline]
    pub fn copy_to(&self, bytes: &mut [u8]) {
        self.copy_from(0, bytes);
    }

    /// Copies as many of its bytes behind the first `skipped` as `bytes` has room for.
    #[inline]
    pub fn copy_from(&self, skipped: u32, bytes: &mut [u8]) {
        let skipped = skipped.min(self.len);
        let len = bytes.len().min((self.len - skipped) as usize);
        self.storage.copy_out(self.location, self.start + skipped, &mut bytes[..len]);
    }
}

/// Counts of a link since it was made. One writer, its Master.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkFigures {
    /// Packets put into the primary ring.
    pub put: u64,
    /// Packets that came back.
    pub returned: u64,
    /// Packets that the Worker dropped.
    pub dropped: u64,
    /// Packets of the auxiliary ring.
    pub aux: u64,
    /// Auxiliary packets that found no room, as the Worker says.
    pub aux_lost: u64,
    /// Packets of the injection ring.
    pub injected: u64,
    /// Times this Master woke the Worker.
    pub wake_ups: u64,
    /// Most slots in use at once.
    pub occupancy_max: u32,
}
