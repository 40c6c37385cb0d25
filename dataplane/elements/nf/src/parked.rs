//! Packets whose slots a function has.

use thruway_packet::Packet;

/// A packet for each slot, and whether its own frame still holds what was put into the slot.
///
/// A packet that went from one function's slot into the next one's is whole in the slot only: its
/// frame holds what it was before the first of them. A next function that says that it kept it
/// means the slot; to go on with the frame would undo what the first has changed.
pub(super) struct Parked {
    packets: Box<[Option<Packet>]>,
    /// A bit for each slot: its packet is whole in the slot only.
    elsewhere: Box<[u64]>,
    /// Whether any bit was ever set.
    has_elsewhere: bool,
}

impl Parked {
    pub fn new(slots: usize) -> Parked {
        Parked {
            packets: (0..slots).map(|_| None).collect(),
            elsewhere: vec![0; slots.div_ceil(64)].into_boxed_slice(),
            has_elsewhere: false,
        }
    }

    /// Slots there are.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Parks a packet whose own bytes were put into the slot.
    #[inline]
    pub fn put(&mut self, slot: u32, packet: Packet) {
        if self.has_elsewhere {
            self.note(slot, false);
        }
        if let Some(place) = self.packets.get_mut(slot as usize) {
            *place = Some(packet);
        }
    }

    /// Parks a packet of which other bytes were put into the slot.
    #[inline]
    pub fn put_elsewhere(&mut self, slot: u32, packet: Packet) {
        self.put(slot, packet);
        self.has_elsewhere = true;
        self.note(slot, true);
    }

    #[inline]
    fn note(&mut self, slot: u32, is_elsewhere: bool) {
        if let Some(word) = self.elsewhere.get_mut(slot as usize / 64) {
            let bit = 1 << (slot % 64);
            *word = if is_elsewhere { *word | bit } else { *word & !bit };
        }
    }

    /// The packet of a slot.
    #[inline]
    pub fn take(&mut self, slot: u32) -> Option<Packet> {
        self.packets.get_mut(slot as usize).and_then(Option::take)
    }

    /// Whether the frame of the packet that was parked last under this slot holds what was put.
    #[inline]
    pub fn holds(&self, slot: u32) -> bool {
        if !self.has_elsewhere {
            return true;
        }
        let word = self.elsewhere.get(slot as usize / 64).copied().unwrap_or_default();
        word & (1 << (slot % 64)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_bytes_are_elsewhere_is_known_until_the_slot_is_put_again() {
        let mut parked = Parked::new(100);
        let packet = |byte| Packet::new(&[byte]).unwrap();
        parked.put(70, packet(1));
        assert!(parked.holds(70));
        parked.put_elsewhere(6, packet(2));
        parked.put_elsewhere(70, packet(3));
        assert!(!parked.holds(6) && !parked.holds(70) && parked.holds(7) && parked.holds(5));
        assert_eq!(parked.take(70).unwrap().data(), [3]);
        parked.put(70, packet(4));
        assert!(parked.holds(70) && !parked.holds(6));
        assert_eq!(
            (parked.len(), parked.take(7).is_none(), parked.take(100).is_none()),
            (100, true, true)
        );
    }
}
