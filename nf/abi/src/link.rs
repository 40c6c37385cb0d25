//! The region that one Master thread and one Worker share: header, indices, three rings.
//!
//! ```text
//! 0       header (LinkHeader), written by the Master before the Worker sees the region
//! 4096    shared words: [`INDEX_STRIDE`] bytes apart, so that each is alone on its line
//!         heads of the primary, auxiliary and injection rings, 16 bytes each
//!         frames of the three rings, `frame_stride` bytes apart, from a line's beginning
//! ```
//!
//! Heads stand apart from frames: a Worker that only drops or steers touches a quarter of a line
//! per packet, and frames begin on a line.

use core::fmt;

use crate::{FRAME_LEN_MAX, HEAD_LEN, LINE_LEN, MAGIC, VERSION};

/// Bytes before the shared words.
pub const HEADER_LEN: u32 = 4096;
/// Bytes between shared words: each is alone on its pair of lines.
pub const INDEX_STRIDE: u32 = 128;

/// Most slots of a ring.
const SLOTS_MAX: u32 = 1 << 16;

/// A shared index or flag of a link. Each has one writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Word {
    /// `M.prodIndex`: slots that the Master filled. Written by the Master.
    MasterProduced = 0,
    /// `W.prodIndex`: slots that the Worker is done with. Written by the Worker.
    WorkerProduced = 1,
    /// Auxiliary slots filled. Written by the Worker.
    AuxProduced = 2,
    /// Auxiliary slots that may be filled again. Written by the Master.
    AuxConsumed = 3,
    /// Injection slots filled. Written by the Worker.
    Injected = 4,
    /// Injection slots that may be filled again. Written by the Master.
    InjectionConsumed = 5,
    /// 1 while the Master sleeps and wants its wake-up line written. Set by the Master, taken by
    /// either.
    MasterWaits = 6,
}

impl Word {
    /// How many there are.
    pub const COUNT: u32 = 7;

    /// All, in order.
    pub const ALL: [Word; Word::COUNT as usize] = [
        Word::MasterProduced,
        Word::WorkerProduced,
        Word::AuxProduced,
        Word::AuxConsumed,
        Word::Injected,
        Word::InjectionConsumed,
        Word::MasterWaits,
    ];
}

/// One of a link's rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Ring {
    /// Master to Worker to Master, in place.
    Primary = 0,
    /// Packets that a Worker makes in consequence of a slot.
    Aux = 1,
    /// Packets that a Worker makes on its own.
    Injection = 2,
}

impl Ring {
    /// All, in order.
    pub const ALL: [Ring; 3] = [Ring::Primary, Ring::Aux, Ring::Injection];
}

/// Where the bytes of a primary slot are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Token {
    /// In the link's own region: an isolated tenant.
    Inline = 0,
    /// In a region shared by a trust group; the slot names the frame.
    Descriptor = 1,
}

/// Sizes of a link, from which all offsets follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkShape {
    /// Slots of the primary ring: a power of two, 2 to 65,536.
    pub slots: u32,
    /// Slots of the auxiliary ring: a power of two.
    pub aux_slots: u32,
    /// Slots of the injection ring: a power of two.
    pub injection_slots: u32,
    /// Largest packet when it enters a slot, bytes: 64 to [`FRAME_LEN_MAX`].
    pub packet_len_max: u32,
    /// Bytes free before a packet when it enters a slot, for headers that are pushed.
    pub headroom: u32,
    /// Where the bytes are.
    pub token: Token,
    /// Frames begin at multiples of this: 64, or 8 (to measure what that costs).
    pub frame_align: u32,
}

impl LinkShape {
    /// For Ethernet frames of up to 1,514 bytes, isolated.
    pub const DEFAULT: LinkShape = LinkShape {
        slots: 1024,
        aux_slots: 256,
        injection_slots: 256,
        packet_len_max: 1514,
        headroom: 64,
        token: Token::Inline,
        frame_align: 64,
    };

    /// Slots of a ring.
    pub const fn ring_slots(&self, ring: Ring) -> u32 {
        match ring {
            Ring::Primary => self.slots,
            Ring::Aux => self.aux_slots,
            Ring::Injection => self.injection_slots,
        }
    }

    /// Bytes of a frame that packets may use: head room and largest packet.
    pub const fn frame_len(&self) -> u32 {
        (self.headroom + self.packet_len_max).next_multiple_of(8)
    }

    /// Checks the sizes and computes all offsets.
    ///
    /// # Errors
    /// [`ShapeError`] names the size and what it may be.
    pub const fn layout(&self) -> Result<LinkLayout, ShapeError> {
        match self.fault() {
            Some(fault) => Err(fault),
            None => Ok(LinkLayout::new(*self)),
        }
    }

    const fn fault(&self) -> Option<ShapeError> {
        if !is_ring_len(self.slots) || self.slots < 2 {
            return Some(ShapeError::Slots(self.slots));
        }
        if !is_ring_len(self.aux_slots) {
            return Some(ShapeError::AuxSlots(self.aux_slots));
        }
        if !is_ring_len(self.injection_slots) {
            return Some(ShapeError::InjectionSlots(self.injection_slots));
        }
        if self.packet_len_max < 64 || self.packet_len_max > FRAME_LEN_MAX {
            return Some(ShapeError::PacketLen(self.packet_len_max));
        }
        if self.headroom > 4096 || !self.headroom.is_multiple_of(8) {
            return Some(ShapeError::Headroom(self.headroom));
        }
        if !matches!(self.frame_align, 8 | 64) {
            return Some(ShapeError::FrameAlign(self.frame_align));
        }
        None
    }
}

const fn is_ring_len(slots: u32) -> bool {
    slots.is_power_of_two() && slots <= SLOTS_MAX
}

/// Sizes that make no link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeError {
    /// Slots of the primary ring.
    Slots(u32),
    /// Slots of the auxiliary ring.
    AuxSlots(u32),
    /// Slots of the injection ring.
    InjectionSlots(u32),
    /// Largest packet.
    PacketLen(u32),
    /// Head room.
    Headroom(u32),
    /// Alignment of frames.
    FrameAlign(u32),
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, value) = match *self {
            ShapeError::Slots(n) => ("slots: a power of two from 2 to 65536", n),
            ShapeError::AuxSlots(n) => ("auxiliary slots: a power of two up to 65536", n),
            ShapeError::InjectionSlots(n) => ("injection slots: a power of two up to 65536", n),
            ShapeError::PacketLen(n) => ("bytes of the largest packet: 64 to 16384", n),
            ShapeError::Headroom(n) => ("bytes of head room: a multiple of 8 up to 4096", n),
            ShapeError::FrameAlign(n) => ("alignment of frames: 8 or 64", n),
        };
        write!(f, "{value} is not a number of {what}")
    }
}

impl core::error::Error for ShapeError {}

/// Offsets in a link's region, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkLayout {
    /// The sizes they follow from.
    pub shape: LinkShape,
    heads: [u32; 3],
    frames: [u64; 3],
    frame_stride: u32,
    len: u64,
}

impl LinkLayout {
    const fn new(shape: LinkShape) -> LinkLayout {
        let words_end = HEADER_LEN + (Word::COUNT * INDEX_STRIDE).next_multiple_of(128);
        let primary = words_end;
        let aux = primary + (shape.slots * HEAD_LEN).next_multiple_of(128);
        let injection = aux + (shape.aux_slots * HEAD_LEN).next_multiple_of(128);
        let heads_end = injection + (shape.injection_slots * HEAD_LEN).next_multiple_of(128);
        let stride = frame_stride(&shape);
        let inline = match shape.token {
            Token::Inline => shape.slots as u64,
            Token::Descriptor => 0,
        };
        let first = heads_end.next_multiple_of(4096) as u64;
        let aux_frames = first + inline * stride as u64;
        let injection_frames = aux_frames + shape.aux_slots as u64 * stride as u64;
        LinkLayout {
            shape,
            heads: [primary, aux, injection],
            frames: [first, aux_frames, injection_frames],
            frame_stride: stride,
            len: injection_frames + shape.injection_slots as u64 * stride as u64,
        }
    }

    /// Bytes of the region.
    #[allow(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Where a shared word is.
    pub const fn word(&self, word: Word) -> u32 {
        HEADER_LEN + word as u32 * INDEX_STRIDE
    }

    /// Where the head of a ring's first slot is; others follow at [`HEAD_LEN`].
    pub const fn heads(&self, ring: Ring) -> u32 {
        self.heads[ring as usize]
    }

    /// Where the frame of a ring's first slot is; others follow at [`LinkLayout::frame_stride`].
    /// Primary slots have none here when tokens are descriptors.
    pub const fn frames(&self, ring: Ring) -> u64 {
        self.frames[ring as usize]
    }

    /// Bytes from one frame to the next.
    pub const fn frame_stride(&self) -> u32 {
        self.frame_stride
    }
}

/// Bytes from one frame to the next: with lines, an odd number of them, so that the beginnings of
/// frames spread over all sets of a first-level cache.
const fn frame_stride(shape: &LinkShape) -> u32 {
    let len = shape.frame_len().next_multiple_of(shape.frame_align);
    if shape.frame_align == LINE_LEN && (len / LINE_LEN).is_multiple_of(2) {
        len + LINE_LEN
    } else {
        len
    }
}

/// The first bytes of a link's region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct LinkHeader {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// `slots`, `aux_slots`, `injection_slots`, `packet_len_max`, `headroom`, `token`,
    /// [`INDEX_STRIDE`], `frame_align`, as in [`LinkShape`].
    pub shape: [u32; 8],
    /// 0; 1 once a Worker took the link.
    pub reserved: u32,
}

impl LinkHeader {
    /// Bytes of the header.
    pub const LEN: usize = size_of::<LinkHeader>();

    /// The header of a link.
    pub const fn new(shape: &LinkShape) -> LinkHeader {
        LinkHeader {
            magic: MAGIC,
            version: VERSION,
            shape: [
                shape.slots,
                shape.aux_slots,
                shape.injection_slots,
                shape.packet_len_max,
                shape.headroom,
                shape.token as u32,
                INDEX_STRIDE,
                shape.frame_align,
            ],
            reserved: 0,
        }
    }

    /// As bytes.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.magic.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        for (to, value) in bytes[12..44].chunks_exact_mut(4).zip(self.shape) {
            to.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// The shape that a region's first bytes declare; `None` when it is not a link of this version.
    pub fn parse(bytes: &[u8; Self::LEN]) -> Option<LinkShape> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let magic = u64::from(word(0)) | u64::from(word(4)) << 32;
        if magic != MAGIC || word(8) != VERSION || word(36) != INDEX_STRIDE {
            return None;
        }
        let token = match word(32) {
            0 => Token::Inline,
            1 => Token::Descriptor,
            _ => return None,
        };
        Some(LinkShape {
            slots: word(12),
            aux_slots: word(16),
            injection_slots: word(20),
            packet_len_max: word(24),
            headroom: word(28),
            token,
            frame_align: word(40),
        })
    }
}

const _: () = assert!(LinkHeader::LEN == 48);
