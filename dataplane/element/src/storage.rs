//! The fill level and backlog of elements.

/// How full an element is that keeps packets between push and pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Storage {
    /// Packets in it now.
    pub len: usize,
    /// Packets that it can hold.
    pub capacity: usize,
}

/// The backlog of an element that stores packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Packets that it keeps.
    pub packets: usize,
    /// Whether it processes new packets, see [`Buffer::accepts`](crate::Buffer::accepts).
    pub accepts: bool,
}
