//! The head of a slot, and where a session's scratch is.

use crate::LINE_LEN;

/// Bytes of a slot's head; four heads share a cache line.
pub const HEAD_LEN: u32 = 16;

/// Flags of a slot.
pub mod flag {
    /// Primary: the Worker dropped the packet (`buffer.setDropped`, Algorithm 5 line 19).
    pub const DROPPED: u8 = 1;
    /// Primary: packets of the auxiliary ring belong to this slot (Algorithm 6 line 13).
    pub const AUX: u8 = 2;
    /// Auxiliary: the next slot belongs to the same primary slot (Algorithm 6 line 9).
    pub const NEXT: u8 = 4;
    /// Primary, from the Master: the packet's session is new to the function.
    pub const NEW: u8 = 8;
    /// Primary, from the Master: no packet, but the news that the session has ended, after all of
    /// its packets. It has no bytes; the Worker gives it back as dropped.
    pub const RELEASED: u8 = 16;
    /// Primary, from the Worker: packets that it wanted to add found no room in the auxiliary ring
    /// (Algorithm 6 lines 4-7); `fcb` is their number.
    pub const LOST: u8 = 32;
    /// Primary: the packet is as the Master put it, byte for byte. The Master sets it where it
    /// still has those bytes itself; the Worker clears it when it changes the packet. While it
    /// stands, the Master goes on with its own bytes and reads none of the slot.
    pub const KEPT: u8 = 64;
    /// What the Master says; it means nothing when it comes back.
    pub const FROM_MASTER: u8 = NEW | RELEASED;
    /// All that have a meaning.
    pub const ALL: u8 = DROPPED | AUX | NEXT | FROM_MASTER | LOST | KEPT;
}

/// What stands beside a slot's frame: where the packet lies and what becomes of it.
///
/// The Master writes it when it fills a slot. The Worker may change all of it; the Master reads it
/// back once, checks every field, and uses only its copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct SlotHead {
    /// First byte of the packet in the frame: moving it back pushes a header.
    pub start: u16,
    /// Length of the packet, bytes.
    pub len: u16,
    /// See [`flag`].
    pub flags: u8,
    /// Output that the packet leaves by, set by the Worker; 0 from the Master.
    pub output: u8,
    /// Input that it came in by, set by the Master.
    pub input: u8,
    /// 0 or 1: which way of a connection, where the flow manager knows; set by the Master.
    pub direction: u8,
    /// Index of the session's scratch in the function's arena (flow control block), or
    /// [`SlotHead::NO_SESSION`].
    pub fcb: u32,
    /// Trust groups: number of the frame in the group's region. Written by the Master, never read
    /// back by it.
    pub frame: u32,
}

impl SlotHead {
    /// `fcb` of a packet that belongs to no session.
    pub const NO_SESSION: u32 = u32::MAX;

    /// As two words, so that it is read and written by two accesses.
    #[inline]
    pub const fn to_words(self) -> [u64; 2] {
        [
            self.start as u64
                | (self.len as u64) << 16
                | (self.flags as u64) << 32
                | (self.output as u64) << 40
                | (self.input as u64) << 48
                | (self.direction as u64) << 56,
            self.fcb as u64 | (self.frame as u64) << 32,
        ]
    }

    /// The words of a head of length 0, with this length.
    #[inline]
    pub const fn words_of_length([low, high]: [u64; 2], len: u16) -> [u64; 2] {
        [low | (len as u64) << 16, high]
    }

    /// The head that two words hold; any words are some head.
    #[inline]
    pub const fn from_words([low, high]: [u64; 2]) -> SlotHead {
        SlotHead {
            start: low as u16,
            len: (low >> 16) as u16,
            flags: (low >> 32) as u8,
            output: (low >> 40) as u8,
            input: (low >> 48) as u8,
            direction: (low >> 56) as u8,
            fcb: high as u32,
            frame: (high >> 32) as u32,
        }
    }
}

/// Bytes from one session's scratch to the next in a function's arena, which begins with that of
/// session 0: small ones do not cross a cache line, others begin on one.
pub const fn arena_stride(scratch_len: u32) -> u64 {
    if scratch_len > LINE_LEN {
        (scratch_len as u64).next_multiple_of(LINE_LEN as u64)
    } else if scratch_len > 8 {
        (scratch_len as u64).next_power_of_two()
    } else {
        8
    }
}

const _: () = assert!(size_of::<SlotHead>() == HEAD_LEN as usize);
const _: () = assert!(core::mem::offset_of!(SlotHead, fcb) == 8);
