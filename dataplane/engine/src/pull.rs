//! Pulling: an element asks what is in front of it for packets.

use thruway_element::{PullFrom, Wires};
use thruway_packet::Batch;

use crate::core::Core;

impl Core {
    /// Pulls packets out of an output.
    #[inline]
    pub(crate) fn pull_plain(
        &mut self,
        wires: &mut Wires,
        from: PullFrom,
        max: usize,
        batch: &mut Batch,
    ) {
        let puller = self.meter(wires, from.node);
        let outer = std::mem::take(&mut wires.returned);
        self.with(wires, from.node, |element, cx| {
            element.pull(cx, from.port as usize, max, batch);
        });
        let mut sent = std::mem::replace(&mut wires.returned, outer);
        if !sent.is_empty() {
            // What the element sent explicitly came before what it left in the batch.
            sent.append(batch);
            std::mem::swap(&mut sent, batch);
        }
        if wires.inputs(from.node) == 0 {
            wires.stats[from.node as usize].packets.add(batch.len() as u64);
        }
        self.meter(wires, puller);
    }
}
