//! The first waiting token, open, and what leaves beside it.

use thruway_nf_abi::{Ring, SlotHead, flag};

use super::sides::{NoRoom, Outgoing, Shown, SideRings};
use crate::storage::Storage;

/// The first waiting token, open.
pub struct Current<'a, S> {
    /// A copy of its head; what is changed in it becomes true by [`close`](Self::close).
    pub head: SlotHead,
    /// The outlet for other packets.
    pub aside: Aside<'a, S>,
    pub(super) frame: &'a mut [u8],
    pub(super) before: SlotHead,
    pub(super) slot: u32,
}

impl<'a, S: Storage> Current<'a, S> {
    /// Its whole frame: head room, packet, tail room.
    #[inline]
    pub fn frame(&self) -> &[u8] {
        self.frame
    }

    /// The same, to be changed: the packet is no longer as the Master put it.
    #[inline]
    pub fn frame_mut(&mut self) -> &mut [u8] {
        self.change();
        self.frame
    }

    /// Its whole frame, and the outlet for other packets.
    #[inline]
    pub fn split(&mut self) -> (&[u8], &mut Aside<'a, S>) {
        (self.frame, &mut self.aside)
    }

    /// Says that the packet is no longer as the Master put it: it begins or ends elsewhere.
    #[inline]
    pub fn change(&mut self) {
        self.head.flags &= !flag::KEPT;
    }

    /// Writes the head back if it was changed. The token is still the first one;
    /// [`Worker::advance`](crate::Worker::advance) gives it back.
    #[inline]
    pub fn close(mut self) {
        if self.aside.has_emitted {
            self.head.flags |= flag::AUX;
        }
        let lost = std::mem::take(&mut self.aside.rings.lost);
        if lost > 0 {
            self.head.flags |= flag::LOST;
            self.head.fcb = lost;
        }
        if self.head.to_words()[0] != self.before.to_words()[0] {
            self.aside.storage.set_head(Ring::Primary, self.slot, self.head);
        }
    }
}

/// The outlet for packets made beside an open token.
pub struct Aside<'a, S> {
    pub(super) storage: &'a S,
    pub(super) rings: &'a mut SideRings,
    pub(super) shown: &'a mut Shown,
    pub(super) index: u32,
    pub(super) has_emitted: bool,
}

impl<S: Storage> Aside<'_, S> {
    /// As [`Worker::emit`](crate::Worker::emit).
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is not sent.
    pub fn emit(&mut self, to: Outgoing, parts: [&[u8]; 2]) -> Result<(), NoRoom> {
        self.rings.emit(self.storage, self.index, to, parts)?;
        self.has_emitted = true;
        Ok(())
    }

    /// Whether the auxiliary ring has packets of other slots: once the Master has taken those there
    /// is room, so it can be waited for. Packets of the open slot stay until that is given back.
    pub fn can_wait(&self) -> bool {
        let own = if self.rings.aux_slot == Some(self.index) { self.rings.chain } else { 0 };
        own < self.storage.layout().shape.aux_slots
    }

    /// Gives back all slots before the open one. As
    /// [`Worker::flush`](crate::Worker::flush), true when the Master sleeps and its eventfd must be
    /// written.
    #[must_use = "a sleeping Master must be woken"]
    pub fn flush(&mut self) -> bool {
        self.shown.publish(self.storage, self.rings, self.index);
        self.shown.must_wake(self.storage)
    }

    /// Says that a packet that was to be emitted is lost: the Master counts it.
    pub fn lose(&mut self) {
        self.rings.lost = self.rings.lost.saturating_add(1);
    }

    /// As [`Worker::inject`](crate::Worker::inject).
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is not sent.
    pub fn inject(&mut self, to: Outgoing, parts: [&[u8]; 2]) -> Result<(), NoRoom> {
        self.rings.inject(self.storage, to, parts)
    }
}
