//! How full an element is.

/// How full an element is that keeps packets between push and pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Storage {
    /// Packets in it now.
    pub len: usize,
    /// Packets that it can hold.
    pub capacity: usize,
}
