//! Probes, as elements meet them: see [`crate::ShortCut`].

use thruway_packet::{Batch, Packet};

use crate::Cx;
use crate::probe::{Egress, Probed};

impl Cx<'_> {
    /// Whether the current packets are a probe, or result from one.
    #[inline]
    pub fn is_probe(&self) -> bool {
        self.out.probe().is_some()
    }

    /// Packets and bytes to count for a batch: those that a probe represents, or the batch's own.
    #[inline]
    pub fn weigh(&self, batch: &Batch) -> [u64; 2] {
        match self.out.probe() {
            Some(probe) => probe.stands_for,
            None => [batch.len() as u64, batch.bytes()],
        }
    }

    /// Packets and bytes that the current probe represents.
    #[inline]
    pub fn stands_for(&self) -> Option<[u64; 2]> {
        self.out.probe().map(|probe| probe.stands_for)
    }

    /// Declares that the element may treat other packets of the session differently from the probe.
    pub fn spoil_probe(&mut self) {
        let node = self.node;
        if let Some(probe) = &mut self.out.probe {
            probe.spoiled.get_or_insert(node);
        }
    }

    /// Packets longer than this (in bytes from the network header on) take another path than the
    /// probe.
    pub fn bound_probe(&mut self, len_max: usize) {
        if let Some(probe) = &mut self.out.probe {
            probe.len_max = Some(probe.len_max.map_or(len_max, |before| before.min(len_max)));
        }
    }

    /// Takes the probe that would be sent here; `None` for where: nowhere by the kernel.
    pub fn end_probe(&mut self, batch: &mut Batch, egress: Option<Egress>) {
        if let (Some(probe), Some(egress)) = (&mut self.out.probe, egress)
            && let Some(packet) = batch.pop()
        {
            probe.end = Some((packet, egress));
        }
        batch.clear();
    }

    /// Sends a probe out of output 0 and returns its fate at once, before anything else runs. Call
    /// it only while no packet that the element sent is in flight. Elements count the probe as
    /// `stands_for` packets and bytes.
    pub fn probe(&mut self, packet: Packet, stands_for: [u64; 2]) -> Probed {
        self.host.probe(self.out, self.node, packet, stands_for)
    }
}
