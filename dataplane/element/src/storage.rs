//! Packets that an element keeps.

use crate::Element;

/// How full an element is that keeps packets between push and pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Storage {
    /// Packets in it now.
    pub len: usize,
    /// Packets that it can hold.
    pub capacity: usize,
}

/// An element that keeps packets for later.
pub trait Buffer: Element {
    /// Packets that it keeps: a stop that drains waits for them.
    fn holding(&self) -> usize;

    /// How full it is, where other elements (RED, Unqueue2) may go by that; `None` of an element
    /// that is no store of packets.
    fn storage(&self) -> Option<Storage> {
        None
    }
}
