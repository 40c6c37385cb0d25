//! What an element decides about a packet.

use crate::reason::Reason;

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It stays in the batch and so goes on through output 0.
    Pass,
    /// It leaves by this output.
    To(usize),
    /// It is dropped and counted.
    Drop(Reason),
    /// It is counted under the reason and leaves by this output, if that is connected; else it is
    /// dropped. Click's "output 1 for bad packets".
    Reject(usize, Reason),
}

impl Verdict {
    /// Drops for `reason`.
    #[inline]
    pub fn drop(reason: impl Into<Reason>) -> Verdict {
        Verdict::Drop(reason.into())
    }

    /// Diverts to `port` for `reason`.
    #[inline]
    pub fn reject(port: usize, reason: impl Into<Reason>) -> Verdict {
        Verdict::Reject(port, reason.into())
    }
}
