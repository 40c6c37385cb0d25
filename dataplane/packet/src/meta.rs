//! The private metadata line of a frame.

use core::ptr::NonNull;

/// Offset value for "this header is not known".
pub(crate) const NO_HEADER: u16 = u16::MAX;

/// How the frame reached this host (`struct sockaddr_ll`'s `sll_pkttype`, Click's packet type).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum PacketKind {
    /// Sent to this host.
    #[default]
    Host = 0,
    /// To all.
    Broadcast = 1,
    /// To a group.
    Multicast = 2,
    /// To another host; seen because the port is promiscuous.
    OtherHost = 3,
    /// Sent by this host.
    Outgoing = 4,
}

impl PacketKind {
    /// The kind with this number; an unknown number means the usual kind.
    #[inline]
    pub(crate) fn of(number: u8) -> PacketKind {
        match number {
            1 => PacketKind::Broadcast,
            2 => PacketKind::Multicast,
            3 => PacketKind::OtherHost,
            4 => PacketKind::Outgoing,
            _ => PacketKind::Host,
        }
    }
}

/// Lowest bit of a packet's tag in [`Meta::kind_and_tag`].
pub(crate) const TAG_SHIFT: u32 = 3;

/// The host's metadata of one frame: exactly one cache line, so that touching any of it costs one
/// miss, and the pool can be indexed by shifting.
#[repr(C, align(64))]
pub(crate) struct Meta {
    /// First byte of the frame; set once when the frame first leaves its pool.
    pub buffer: NonNull<u8>,
    /// Where the packet's bytes begin, from `buffer`.
    pub start: u32,
    /// Packet length in bytes.
    pub len: u32,
    /// Header offsets from `buffer`, or [`NO_HEADER`].
    pub l2: u16,
    pub l3: u16,
    pub l4: u16,
    /// Which pool it came from, in the lowest bit; above it the number of the packet's mark, 0 for
    /// none (see [`crate::Mark`]).
    pub pool: u8,
    /// [`PacketKind`] in the lowest three bits; above them the packet's tag (see
    /// [`crate::Packet::tag`]).
    pub kind_and_tag: u8,
    /// Nanoseconds since the Unix epoch; 0 when unset.
    pub timestamp: i64,
    /// Flow control block, for the flow manager.
    pub fcb: u32,
    /// Annotations, see [`crate::Anno`].
    pub anno: [u8; 28],
}

const _: () = assert!(size_of::<Meta>() == 64);

impl Meta {
    /// The frame's first byte.
    #[inline]
    pub fn frame(&self) -> *mut u8 {
        self.buffer.as_ptr()
    }

    /// Everything but `buffer` and `pool` as of a packet just made.
    #[inline]
    pub fn reset(&mut self, start: u32, len: u32) {
        self.start = start;
        self.len = len;
        self.l2 = NO_HEADER;
        self.l3 = NO_HEADER;
        self.l4 = NO_HEADER;
        self.kind_and_tag = PacketKind::Host as u8;
        self.timestamp = 0;
        self.fcb = 0;
        self.anno = [0; 28];
    }
}
