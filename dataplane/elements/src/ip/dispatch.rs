//! Sends the packets of a batch to the outputs that were found for them.

use thruway_element::{Cx, Reason, Verdict};
use thruway_packet::Batch;

/// Ports from this one on mean "drop": its distance from the top says why.
pub(crate) const DROP_FIRST: u32 = u32::MAX - 15;

/// The port that stands for a drop for `reason` (of the element's first 16).
pub(crate) const fn drop_for(reason: u8) -> u32 {
    u32::MAX - reason as u32
}

#[inline]
fn verdict(port: u32) -> Verdict {
    match port {
        0 => Verdict::Pass,
        DROP_FIRST.. => Verdict::Drop(Reason((u32::MAX - port) as u8)),
        port => Verdict::To(port as usize),
    }
}

/// Sends packet i to `ports[i]`; `alike` says that all go the same way.
///
/// Packets for output 0 stay where they are.
#[inline]
pub(crate) fn dispatch(cx: &mut Cx<'_>, batch: &mut Batch, ports: &[u32], alike: bool) {
    let Some(&first) = ports.first() else { return };
    if !alike {
        let mut ports = ports.iter();
        cx.sift(batch, |_| ports.next().map_or(Verdict::Pass, |port| verdict(*port)));
        return;
    }
    match verdict(first) {
        Verdict::Pass => {}
        Verdict::To(port) => cx.emit_all(port, batch),
        Verdict::Drop(reason) | Verdict::Reject(_, reason) => cx.drop_all(reason, batch),
    }
}
