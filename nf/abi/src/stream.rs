//! What a slot holds where an element shows a function the payload of streams: a [`StreamHead`],
//! then the packet's headers from the network header on, then its content to the end. Of a packet
//! that only passes by, to keep the order, there is the head and nothing else.
//!
//! The function answers in the same place: with the content that it leaves, whose length is what
//! the slot's head says less that of [`StreamHead`] and headers, which stay where they are; with
//! [`CHANGED`](stream_flag::CHANGED) or [`CLOSE`](stream_flag::CLOSE); and with how many of the
//! last bytes are to be held back. Those bytes it is not shown again by the host: it keeps a copy,
//! which it puts in front of what comes next, unless the host did
//! ([`RESENT`](stream_flag::RESENT)). The host keeps them, too, and drops its own copy when the
//! content that comes next is back.

/// Flags of [`StreamHead`].
pub mod stream_flag {
    /// From the host: the function is to see it; there are headers and content.
    pub const SHOWN: u8 = 1;
    /// From the host: no content of this direction (of this message) follows.
    pub const LAST: u8 = 2;
    /// From the host: nothing came for too long. What is held back goes on, there is no content
    /// besides it.
    pub const LATE: u8 = 4;
    /// From the host: the content begins with what was held back; a copy of that is to be
    /// forgotten.
    pub const RESENT: u8 = 8;
    /// From the function: the content is not what it was.
    pub const CHANGED: u8 = 16;
    /// From the function: the connection is to end.
    pub const CLOSE: u8 = 32;
}

/// Bits of [`Hello::stream`](crate::message::Hello::stream): what a function of streams does.
pub mod stream_need {
    /// It is a function of streams.
    pub const STREAM: u32 = 1 << 31;
    /// All bits that say what it does; their meaning is that of `Needs::bits` in `base/payload`.
    pub const ALL: u32 = 0x3f;
}

/// Stands in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamHead {
    /// Bytes of headers behind it, the message head included.
    pub headers: u16,
    /// Bytes of the message head at their end (HTTP), 0 for none.
    pub message_head: u16,
    /// From the function: so many bytes at the end of the content are to be held back.
    pub kept: u16,
    /// See [`stream_flag`].
    pub flags: u8,
    /// Present time, nanoseconds since the Unix epoch.
    pub now: i64,
}

impl StreamHead {
    /// Bytes of it.
    pub const LEN: usize = 16;

    /// As bytes.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let words = u64::from(self.headers)
            | u64::from(self.message_head) << 16
            | u64::from(self.kept) << 32
            | u64::from(self.flags) << 48;
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&words.to_le_bytes());
        bytes[8..].copy_from_slice(&self.now.to_le_bytes());
        bytes
    }

    /// Any bytes are some head.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> StreamHead {
        let [a, b, c, d, e, f, flags, _, now @ ..] = bytes;
        StreamHead {
            headers: u16::from_le_bytes([a, b]),
            message_head: u16::from_le_bytes([c, d]),
            kept: u16::from_le_bytes([e, f]),
            flags,
            now: i64::from_le_bytes(now),
        }
    }
}
