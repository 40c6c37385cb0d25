//! What an element decides about a packet.

use thruway_packet::{Batch, Packet};

use crate::Cx;
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

impl Cx<'_> {
    /// Judges each packet of a batch; those that pass stay, in order.
    #[inline]
    pub fn filter(&mut self, batch: &mut Batch, mut judge: impl FnMut(&mut Packet) -> Verdict) {
        batch.extract(
            |packet| match judge(packet) {
                Verdict::Pass => None,
                other => Some(other),
            },
            |packet, verdict| self.apply(packet, verdict),
        );
    }

    /// Does with a packet what a verdict says.
    #[inline]
    pub fn apply(&mut self, packet: Packet, verdict: Verdict) {
        match verdict {
            Verdict::Pass => self.emit(0, packet),
            Verdict::To(port) => self.emit(port, packet),
            Verdict::Drop(reason) => self.drop(reason, packet),
            Verdict::Reject(port, reason) => self.reject(port, reason, packet),
        }
    }
}
