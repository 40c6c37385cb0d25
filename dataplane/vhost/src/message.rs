//! The messages of vhost-user ("Vhost-user Protocol", docs/interop/vhost-user.rst of QEMU).

use std::fmt;
use std::ops::{BitAnd, BitOr};

use crate::memory::{MemoryError, MemoryPart, PARTS_MAX};
use crate::ring::RingFault;

/// Length of a message's head.
pub const HEAD_LEN: usize = 12;

/// Longest body of a message that is taken.
pub(crate) const BODY_LEN_MAX: usize = 512;

/// Version of the protocol, in a head's flags.
const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 4;
const NEED_REPLY: u32 = 8;

/// What a front-end did that the protocol does not allow, or that is not supported here.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolFault {
    /// The head is none.
    #[error(
        "message-head: a message of version {version} with {len} bytes; version {VERSION}, at most {BODY_LEN_MAX} bytes"
    )]
    Head {
        /// Its version.
        version: u32,
        /// Length of its body.
        len: usize,
    },
    /// Its body has another length than such a message has.
    #[error("message-length: request {request} with {len} bytes")]
    Length {
        /// Its number.
        request: u32,
        /// Length of its body.
        len: usize,
    },
    /// It came with too many descriptors or too few.
    #[error("message-descriptors: request {request} with {fds} descriptors")]
    Descriptors {
        /// Its number.
        request: u32,
        /// Descriptors.
        fds: usize,
    },
    /// A request that is not supported.
    #[error("message-unknown: request {request} is not supported")]
    Unknown {
        /// Its number.
        request: u32,
    },
    /// Features that were not offered.
    #[error(
        "features: the front-end asks for features {asked:#x}, of which {offered:#x} are offered"
    )]
    Features {
        /// Asked for.
        asked: u64,
        /// Offered.
        offered: u64,
    },
    /// A ring that this device does not have.
    #[error("ring-number: ring {ring}; a device has two (one queue pair)")]
    Ring {
        /// Its number.
        ring: u32,
    },
    /// A kick without a descriptor.
    #[error(
        "no-kick: a ring without a descriptor for kicks, that is to be polled, is not supported"
    )]
    NoKick,
    /// The memory.
    #[error("memory: {0}")]
    Memory(#[from] MemoryError),
    /// What is in a ring, or where it is.
    #[error(transparent)]
    InRing(#[from] RingFault),
    /// The front-end sent nothing for too long in the middle of a message, or does not read.
    #[error("message-timeout: the front-end does not finish a message, or does not read answers")]
    Timeout,
    /// The system.
    #[error("socket: {0}")]
    System(#[from] rustix::io::Errno),
}

impl ProtocolFault {
    /// Its short name, which its text begins with.
    pub fn name(&self) -> String {
        self.to_string().split(':').next().unwrap_or_default().to_owned()
    }
}

/// What a device and its driver agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features(pub u64);

impl Features {
    /// A packet may lie in several buffers (VIRTIO_NET_F_MRG_RXBUF).
    pub const MERGED_BUFFERS: Features = Features(1 << 15);
    /// A descriptor may name a table of descriptors (VIRTIO_F_INDIRECT_DESC).
    pub const INDIRECT: Features = Features(1 << 28);
    /// There are features of the protocol (VHOST_USER_F_PROTOCOL_FEATURES).
    pub const PROTOCOL: Features = Features(1 << 30);
    /// Virtio 1 (VIRTIO_F_VERSION_1).
    pub const VERSION_1: Features = Features(1 << 32);
    /// All that are offered. Checksums and segments (CSUM, TSO) are not: frames here are whole, and
    /// a guest that finishes its own costs this process nothing.
    pub const OFFERED: Features =
        Features(Self::MERGED_BUFFERS.0 | Self::INDIRECT.0 | Self::PROTOCOL.0 | Self::VERSION_1.0);

    /// Whether all of `others` are among them.
    pub fn contains(self, others: Features) -> bool {
        self & others == others
    }
}

impl BitAnd for Features {
    type Output = Features;
    fn bitand(self, other: Features) -> Features {
        Features(self.0 & other.0)
    }
}

impl BitOr for Features {
    type Output = Features;
    fn bitor(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A message's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Number of the request.
    pub request: u32,
    /// Version and flags.
    pub flags: u32,
    /// Length of the body, bytes.
    pub len: usize,
}

impl Head {
    /// Reads a head.
    ///
    /// # Errors
    /// [`ProtocolFault::Head`].
    pub fn parse(bytes: &[u8; HEAD_LEN]) -> Result<Head, ProtocolFault> {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (flags, len) = (u32_at(4), u32_at(8) as usize);
        let version = flags & VERSION_MASK;
        if version != VERSION || len > BODY_LEN_MAX {
            return Err(ProtocolFault::Head { version, len });
        }
        Ok(Head { request: u32_at(0), flags, len })
    }

    /// Whether the front-end waits for a word that it was done (REPLY_ACK).
    pub fn needs_reply(&self) -> bool {
        self.flags & NEED_REPLY != 0
    }

    /// An answer to a request, whole.
    pub(crate) fn answer(request: u32, body: &[u8]) -> Vec<u8> {
        let words = [request, VERSION | REPLY, body.len() as u32];
        let head = words.iter().flat_map(|word| word.to_le_bytes());
        head.chain(body.iter().copied()).collect()
    }
}

/// What a front-end asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Which features are offered.
    GetFeatures,
    /// The driver's features.
    SetFeatures(Features),
    /// It begins.
    SetOwner,
    /// All rings are to stop.
    ResetOwner,
    /// The memory; a descriptor for each part.
    SetMemory(Vec<MemoryPart>),
    /// How long a ring is.
    SetRingSize {
        /// The ring.
        ring: u32,
        /// Entries.
        size: u32,
    },
    /// Where a ring is.
    SetRingAddress {
        /// The ring.
        ring: u32,
        /// Its table of descriptors.
        table: u64,
        /// Its ring of used chains.
        used: u64,
        /// Its ring of available chains.
        avail: u64,
    },
    /// Where a ring goes on.
    SetRingBase {
        /// The ring.
        ring: u32,
        /// Number of the next available chain.
        next: u32,
    },
    /// Stop a ring and return its position.
    GetRingBase {
        /// The ring.
        ring: u32,
    },
    /// The descriptor of kicks, calls or errors of a ring.
    SetRingEvent {
        /// Which.
        event: RingEvent,
        /// The ring.
        ring: u32,
        /// Whether there is a descriptor.
        has_fd: bool,
    },
    /// Which features of the protocol are offered.
    GetProtocolFeatures,
    /// The front-end's features of the protocol.
    SetProtocolFeatures(u64),
    /// How many queue pairs there may be.
    GetQueueCount,
    /// Use a ring, or do not.
    SetRingEnable {
        /// The ring.
        ring: u32,
        /// Whether it is to be used.
        enabled: bool,
    },
    /// The guest moved here; of no concern.
    Announce,
}

/// What a descriptor of a ring is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingEvent {
    /// The guest has made something available.
    Kick,
    /// The device has used something.
    Call,
    /// The device found an error.
    Error,
}

/// A ring's number in the word of an event, and the flag that there is no descriptor.
const RING_MASK: u64 = 0xFF;
const NO_FD: u64 = 0x100;

/// A body, read from front to back.
struct Body<'a> {
    request: u32,
    whole: usize,
    bytes: &'a [u8],
}

impl Body<'_> {
    fn length(&self) -> ProtocolFault {
        ProtocolFault::Length { request: self.request, len: self.whole }
    }

    fn u32(&mut self) -> Result<u32, ProtocolFault> {
        let (word, rest) = self.bytes.split_first_chunk().ok_or_else(|| self.length())?;
        self.bytes = rest;
        Ok(u32::from_le_bytes(*word))
    }

    fn u64(&mut self) -> Result<u64, ProtocolFault> {
        let (word, rest) = self.bytes.split_first_chunk().ok_or_else(|| self.length())?;
        self.bytes = rest;
        Ok(u64::from_le_bytes(*word))
    }

    fn ring_and(&mut self) -> Result<(u32, u32), ProtocolFault> {
        Ok((self.u32()?, self.u32()?))
    }

    fn event(&mut self, event: RingEvent) -> Result<Request, ProtocolFault> {
        let word = self.u64()?;
        let ring = (word & RING_MASK) as u32;
        Ok(Request::SetRingEvent { event, ring, has_fd: word & NO_FD == 0 })
    }

    fn memory(&mut self) -> Result<Request, ProtocolFault> {
        let (count, _padding) = (self.u32()? as usize, self.u32()?);
        if count > PARTS_MAX {
            return Err(MemoryError::Count { parts: count, fds: 0 }.into());
        }
        let mut part = || {
            let (guest, len, user) = (self.u64()?, self.u64()?, self.u64()?);
            Ok(MemoryPart { guest, len, user, offset: self.u64()? })
        };
        let parts = (0..count).map(|_| part()).collect::<Result<_, ProtocolFault>>()?;
        Ok(Request::SetMemory(parts))
    }

    fn address(&mut self) -> Result<Request, ProtocolFault> {
        let (ring, _flags) = self.ring_and()?;
        let (table, used, avail, _log) = (self.u64()?, self.u64()?, self.u64()?, self.u64()?);
        Ok(Request::SetRingAddress { ring, table, used, avail })
    }
}

impl Request {
    /// Reads a request. What follows the fields that it has is ignored: QEMU sends some messages
    /// longer than they need be.
    ///
    /// # Errors
    /// [`ProtocolFault`].
    pub fn parse(request: u32, body: &[u8]) -> Result<Request, ProtocolFault> {
        let mut body = Body { request, whole: body.len(), bytes: body };
        Ok(match request {
            1 => Request::GetFeatures,
            2 => Request::SetFeatures(Features(body.u64()?)),
            3 => Request::SetOwner,
            4 => Request::ResetOwner,
            5 => body.memory()?,
            8 => {
                let (ring, size) = body.ring_and()?;
                Request::SetRingSize { ring, size }
            }
            9 => body.address()?,
            10 => {
                let (ring, next) = body.ring_and()?;
                Request::SetRingBase { ring, next }
            }
            11 => Request::GetRingBase { ring: body.u32()? },
            12 => body.event(RingEvent::Kick)?,
            13 => body.event(RingEvent::Call)?,
            14 => body.event(RingEvent::Error)?,
            15 => Request::GetProtocolFeatures,
            16 => Request::SetProtocolFeatures(body.u64()?),
            17 => Request::GetQueueCount,
            18 => {
                let (ring, enabled) = body.ring_and()?;
                Request::SetRingEnable { ring, enabled: enabled == 1 }
            }
            19 => Request::Announce,
            _ => return Err(ProtocolFault::Unknown { request }),
        })
    }
}
