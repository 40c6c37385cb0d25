//! Packets that came while a switchover waits for functions.

use std::collections::VecDeque;

use thruway_packet::{Batch, Packet};
use thruway_replication::PAYLOAD_MAX;

/// Packets that are held at most, and their bytes.
const PACKETS_MAX: usize = 8192;
const BYTES_MAX: usize = 2 << 20;

/// Packets that are held, each with the network that it came from.
pub(super) struct Held {
    packets: VecDeque<(usize, Packet)>,
    bytes: usize,
}

impl Held {
    /// None.
    pub(super) fn new() -> Held {
        Held { packets: VecDeque::with_capacity(PACKETS_MAX), bytes: 0 }
    }

    /// Takes packets of a network; false, and they stay where they are, if too many are held.
    pub(super) fn take(&mut self, network: usize, batch: &mut Batch) -> bool {
        if self.packets.len() + batch.len() > PACKETS_MAX || self.bytes >= BYTES_MAX {
            return false;
        }
        for packet in batch.drain() {
            self.bytes += packet.len();
            self.packets.push_back((network, packet));
        }
        true
    }

    /// Buffers of the stream that they fill at most: of two in a row more than half is used.
    pub(super) fn buffers(&self) -> usize {
        1 + (self.bytes + 3 * self.packets.len()).div_ceil(PAYLOAD_MAX / 2)
    }

    /// The packets, in their order, each with its network.
    pub(super) fn into_packets(self) -> impl Iterator<Item = (usize, Packet)> {
        self.packets.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(count: usize, len: usize) -> Batch {
        let mut batch = Batch::with_room();
        (0..count).for_each(|nth| batch.push(Packet::new(&vec![nth as u8; len]).unwrap()));
        batch
    }

    #[test]
    fn packets_are_held_in_order_until_there_are_too_many() {
        let mut held = Held::new();
        assert!(held.take(1, &mut batch(2, 60)) && held.take(0, &mut batch(1, 60)));
        assert_eq!(held.buffers(), 2);
        let order: Vec<_> = held.into_packets().map(|(from, one)| (from, one.data()[0])).collect();
        assert_eq!(order, [(1, 0), (1, 1), (0, 0)]);
        let mut held = Held { bytes: BYTES_MAX - 1, ..Held::new() };
        assert!(held.take(0, &mut batch(3, 60)), "the last that fits");
        assert_eq!(held.bytes, BYTES_MAX - 1 + 180);
        let mut left = batch(3, 60);
        assert!(!held.take(0, &mut left));
        assert_eq!(left.len(), 3);
    }
}
