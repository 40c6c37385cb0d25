//! Why a packet was not sent.

/// A packet of the function's own making that was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// The host has not yet taken what is in the ring; the host counts it. For what is emitted it
    /// is waited, a second at most, unless the packet alone has filled the ring.
    #[error("the ring is full")]
    Full,
    /// It has no bytes, or more than a slot has room for.
    #[error("the packet does not fit a slot")]
    Length,
    /// The element does not have this output.
    #[error("the element has no such output")]
    Output,
}
