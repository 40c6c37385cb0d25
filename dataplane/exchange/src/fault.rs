//! What a peer may do wrong, and what a caller may.

/// A Worker broke the protocol. Nothing that it wrote is used any more: its function is
/// quarantined, its slots are reclaimed ([`crate::Master::reclaim`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PeerFault {
    /// `W.prod` ran past `M.prod` (Property 1) or went back.
    #[error("it gave back slots that it does not own (index {index}, {owned} slots are its own)")]
    Index {
        /// What it wrote, relative to the first slot that it owns.
        index: u32,
        /// Slots that it owns.
        owned: u32,
    },
    /// The auxiliary or injection ring's index ran past its length or went back.
    #[error("it filled {count} slots of a ring that has {free} free")]
    Ring {
        /// What it claims to have filled.
        count: u32,
        /// What it may fill.
        free: u32,
    },
    /// A slot says that auxiliary packets belong to it, and the ring holds none, or the last of
    /// them says that another follows.
    #[error("a slot's auxiliary packets are not in the auxiliary ring")]
    Chain,
    /// A packet that does not lie in its frame, or has no bytes.
    #[error("a packet of {len} bytes from byte {start} of a frame of {frame_len}")]
    Bounds {
        /// First byte.
        start: u16,
        /// Length.
        len: u16,
        /// Bytes of a frame.
        frame_len: u32,
    },
    /// An output that the element does not have.
    #[error("output {output}, of {outputs}")]
    Output {
        /// What it wrote.
        output: u8,
        /// Outputs there are.
        outputs: u32,
    },
    /// A flag without meaning.
    #[error("flags {0:#04x} have no meaning")]
    Flags(u8),
    /// Memory of its region is gone, and the system has none to put in its place.
    #[error("memory that it shares with its host is gone")]
    Memory,
}

impl PeerFault {
    /// A short name, for counters.
    pub fn name(&self) -> &'static str {
        match self {
            PeerFault::Index { .. } => "index",
            PeerFault::Ring { .. } => "ring",
            PeerFault::Chain => "chain",
            PeerFault::Bounds { .. } => "bounds",
            PeerFault::Output { .. } => "output",
            PeerFault::Flags(_) => "flags",
            PeerFault::Memory => "memory",
        }
    }
}

/// Why a packet cannot be handed over now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// All slots are in use.
    #[error("the ring is full")]
    Full,
    /// The packet is longer than a slot holds.
    #[error("the packet is too long for a slot")]
    TooLong,
}
