//! What one thread knows of its function's dues.

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Dues {
    /// When the timer is due, while it is set.
    pub due: Option<i64>,
    /// Up to when the function could not give back.
    pub excused: i64,
}
