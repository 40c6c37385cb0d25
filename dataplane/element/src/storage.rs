//! How full an element is, and what waits there.

/// How full an element is that keeps packets between push and pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Storage {
    /// Packets in it now.
    pub len: usize,
    /// Packets that it can hold.
    pub capacity: usize,
}

/// What waits at an element that keeps packets for later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Packets that it keeps.
    pub packets: usize,
    /// Whether it works on what comes now, see [`Buffer::accepts`](crate::Buffer::accepts).
    pub accepts: bool,
}
