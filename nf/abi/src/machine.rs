//! What a host and the agent in a virtual machine say to each other, over the machine's serial
//! port.
//!
//! Frames follow each other: the length of the body (u32), what it is ([`Frame`], u32), the body.
//!
//! | frame | from | body |
//! |---|---|---|
//! | HELLO | agent | [`MAGIC`](crate::MAGIC), [`VERSION`](crate::VERSION) of this page |
//! | START | host | the function's program and its arguments, each ended by a zero byte |
//! | REGIONS | host | for each descriptor of the next message a [`Handed`] |
//! | MESSAGE | both | a message of the control socket ([`message`](crate::message)) |
//! | WAKE | agent | number of the link (u32) at which the function wakes its Master |
//!
//! The agent says HELLO, the host START. From then on the agent is the function's host as far as
//! the function can tell: it passes messages on, and for each descriptor of a WELCOME either
//! a region in the machine's own memory that leads to a PCI device (ivshmem), or the end of a line.

/// Bytes in front of a frame's body.
pub const FRAME_HEAD_LEN: usize = 8;

/// Largest body of a frame, bytes: a message, or the regions of the largest one.
pub const FRAME_LEN_MAX: usize = crate::message::LEN_MAX;

/// The name of the machine's port, as virtio-serial has it.
pub const PORT_NAME: &str = "thruway.control";

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the table above")]
pub enum Frame {
    Hello = 1,
    Start = 2,
    Regions = 3,
    Message = 4,
    Wake = 5,
}

impl Frame {
    const ALL: [Frame; 5] =
        [Frame::Hello, Frame::Start, Frame::Regions, Frame::Message, Frame::Wake];

    /// The bytes in front of a body of this length.
    pub const fn head(self, len: u32) -> [u8; FRAME_HEAD_LEN] {
        let ([a, b, c, d], [e, f, g, h]) = (len.to_le_bytes(), (self as u32).to_le_bytes());
        [a, b, c, d, e, f, g, h]
    }

    /// What a frame's head says, checked; `None` if it is no head of this page.
    pub fn parse(head: [u8; FRAME_HEAD_LEN]) -> Option<(Frame, usize)> {
        let [a, b, c, d, e, f, g, h] = head;
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        let kind = u32::from_le_bytes([e, f, g, h]);
        let frame = Frame::ALL.into_iter().find(|one| *one as u32 == kind)?;
        (len <= FRAME_LEN_MAX).then_some((frame, len))
    }
}

/// What stands for a descriptor in a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handed {
    /// BAR 2 of the device in this slot of the first PCI bus, of so many bytes.
    Region {
        /// Slot (device number).
        slot: u32,
        /// Bytes of the BAR: a power of two.
        len: u64,
    },
    /// The Worker's end of the line by which it wakes the Master of this link.
    Line {
        /// Number of the link.
        link: u32,
    },
}

impl Handed {
    /// Bytes of one.
    pub const LEN: usize = 16;

    /// As bytes: kind, slot or link, length.
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        let (kind, number, len) = match self {
            Handed::Region { slot, len } => (1_u32, slot, len),
            Handed::Line { link } => (2, link, 0),
        };
        let ([a, b, c, d], [e, f, g, h]) = (kind.to_le_bytes(), number.to_le_bytes());
        let [i, j, k, l, m, n, o, p] = len.to_le_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
    }

    /// From bytes; `None` if they are of no such thing.
    pub fn parse(bytes: [u8; Self::LEN]) -> Option<Handed> {
        let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
        let number = u32::from_le_bytes([e, f, g, h]);
        match u32::from_le_bytes([a, b, c, d]) {
            1 => Some(Handed::Region { slot: number, len: u64::from_le_bytes(rest) }),
            2 => Some(Handed::Line { link: number }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_parsed_as_they_were_written_and_nothing_else_is() {
        for frame in Frame::ALL {
            assert_eq!(Frame::parse(frame.head(77)), Some((frame, 77)));
            assert_eq!(Frame::parse(frame.head(FRAME_LEN_MAX as u32 + 1)), None);
        }
        assert_eq!(Frame::parse([0; 8]), None);
        assert_eq!(Frame::parse([0xff; 8]), None);
    }

    #[test]
    fn what_is_handed_over_is_parsed_as_it_was_written() {
        for handed in [Handed::Region { slot: 7, len: 1 << 33 }, Handed::Line { link: 3 }] {
            assert_eq!(Handed::parse(handed.to_bytes()), Some(handed));
        }
        assert_eq!(Handed::parse([0; Handed::LEN]), None);
    }
}
