//! How far the reset of connections that another host served has come.

/// A walk through the connections.
pub(super) struct Ending {
    /// When it goes on, nanoseconds.
    pub at: i64,
    /// The connection that is next.
    pub next: u32,
    /// The how manyth walk this is, from 0.
    pub round: u8,
}
