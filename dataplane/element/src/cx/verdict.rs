//! Verdicts of elements on packets.

use thruway_packet::{Batch, Packet};

use crate::Cx;
use crate::reason::Reason;

/// The fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It stays in the batch and so leaves by output 0.
    Pass,
    /// It leaves by this output.
    To(usize),
    /// It is dropped and counted.
    Drop(Reason),
    /// Counts the packet under the reason and sends it by this output if that is connected, else
    /// drops it. Click's "output 1 for bad packets".
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
    /// Judges each packet of a batch; passed packets stay, in order.
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

    /// Executes a verdict on a packet.
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
