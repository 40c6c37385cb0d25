//! The held-back bytes of all sessions in a stage, the oldest first.

use thruway_packet::Packet;

use crate::ages::Ages;
use crate::content::HasContent;

/// Most bytes that are held without a packet.
pub(super) const FEW: usize = 55;
/// A few bytes.
#[derive(Clone, Copy)]
pub(super) struct Few {
    bytes: [u8; FEW],
    len: u8,
}

impl Default for Few {
    fn default() -> Few {
        Few { bytes: [0; FEW], len: 0 }
    }
}

impl Few {
    /// Appends as many bytes as fit.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = &mut self.bytes[usize::from(self.len)..];
        let n = bytes.len().min(room.len());
        room[..n].copy_from_slice(&bytes[..n]);
        self.len += n as u8; // below FEW
    }
}

/// The held-back bytes of a direction of a session.
pub(super) enum Kept {
    /// Few bytes, which are never forwarded alone.
    Few(Few),
    /// The content of a packet.
    Packet(Packet),
    /// They were given up for others.
    Gone,
}

impl Kept {
    /// The bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Kept::Few(few) => &few.bytes[..usize::from(few.len)],
            Kept::Packet(packet) => packet.content(),
            Kept::Gone => &[],
        }
    }

    /// Bytes of memory: those of the whole frame, if there is one.
    fn cost(&self) -> u64 {
        let frame = match self {
            Kept::Packet(packet) => packet.memory_bytes(),
            _ => 0,
        };
        (frame + SLOT_BYTES) as u64
    }
}

/// Bytes of memory of a slot.
pub(super) const SLOT_BYTES: usize = size_of::<Slot>() + Ages::LINK_BYTES;

struct Slot {
    /// `None` in a free one.
    kept: Option<Kept>,
    /// The input that it came by.
    port: u32,
    /// Distinguishes the uses of the slot.
    serial: u32,
}

/// See the module.
#[derive(Default)]
pub(super) struct Store {
    slots: Vec<Slot>,
    free: Vec<u32>,
    ages: Ages,
    cost: u64,
}

impl Store {
    /// Slots in use.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Bytes of memory that is held, of those that were not given up.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    /// Stores; gives the slot and its serial.
    pub(super) fn put(&mut self, kept: Kept, port: usize) -> (u32, u32) {
        self.cost += kept.cost();
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { kept: None, port: 0, serial: 0 });
            self.slots.len() as u32 - 1
        });
        self.ages.add(at, 0);
        let slot = &mut self.slots[at as usize];
        (slot.kept, slot.port) = (Some(kept), port as u32);
        (at, slot.serial)
    }

    /// Takes out the entry with slot + 1 = `kept`, or none for 0.
    pub(super) fn take(&mut self, kept: &mut u32) -> Option<Kept> {
        let at = std::mem::take(kept).checked_sub(1)?;
        self.remove(at)
    }

    /// The packet of an expired slot, if that is still there, and the input that it came by.
    pub(super) fn late(&self, at: u32, serial: u32) -> Option<(usize, &Packet)> {
        let slot = self.slots.get(at as usize).filter(|slot| slot.serial == serial)?;
        match &slot.kept {
            Some(Kept::Packet(packet)) => Some((slot.port as usize, packet)),
            _ => None,
        }
    }

    /// The same, taken out.
    pub(super) fn take_late(&mut self, at: u32, serial: u32) -> Option<(usize, Packet)> {
        let (port, _) = self.late(at, serial)?;
        match self.remove(at)? {
            Kept::Packet(packet) => Some((port, packet)),
            _ => None,
        }
    }

    /// The bytes of the entry with slot + 1 = `kept`.
    pub(super) fn bytes(&self, kept: u32) -> &[u8] {
        let slot = kept.checked_sub(1).and_then(|at| self.slots.get(at as usize));
        slot.and_then(|slot| slot.kept.as_ref()).map_or(&[], Kept::bytes)
    }

    /// The same, if they are held without a packet and were not given up; nothing for 0.
    pub(super) fn few(&self, kept: u32) -> Option<&[u8]> {
        let Some(at) = kept.checked_sub(1) else { return Some(&[]) };
        match self.slots.get(at as usize)?.kept.as_ref()? {
            kept @ Kept::Few(_) => Some(kept.bytes()),
            _ => None,
        }
    }

    /// Gives up the oldest entry; false if there is none. Its slot stays, so that its session finds
    /// out.
    pub(super) fn evict_oldest(&mut self) -> bool {
        let Some(at) = self.ages.oldest().map(|oldest| oldest.at) else { return false };
        let Some(slot) = self.slots.get_mut(at as usize) else { return false };
        let gone = slot.kept.replace(Kept::Gone);
        self.cost -= gone.map_or(0, |kept| kept.cost());
        self.ages.remove(at);
        true
    }

    fn remove(&mut self, at: u32) -> Option<Kept> {
        let slot = self.slots.get_mut(at as usize)?;
        let kept = slot.kept.take()?;
        slot.serial = slot.serial.wrapping_add(1);
        self.free.push(at);
        if !matches!(kept, Kept::Gone) {
            self.cost -= kept.cost();
            self.ages.remove(at);
        }
        Some(kept)
    }
}
