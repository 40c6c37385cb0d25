//! The slots that the Worker has: which, since when by the Master's own notes, and their end.

use crate::master::Master;
use crate::storage::Storage;

impl<S: Storage> Master<S> {
    /// When the Worker was shown the oldest token that it has, as far as the Master knows: by the
    /// Master's own notes, whatever the Worker writes.
    pub fn held_since(&self) -> Option<u64> {
        (self.outstanding() > 0).then(|| self.shown_at(self.returned))
    }

    /// When the token of this index was shown.
    #[inline]
    pub(super) fn shown_at(&self, index: u32) -> u64 {
        self.shown_at.get((index & self.mask) as usize).copied().unwrap_or(0)
    }

    /// Notes when the slots that are about to be published were shown.
    #[inline]
    pub(super) fn note_shown(&mut self, now: u64) {
        let (from, to) = (self.published & self.mask, self.produced & self.mask);
        let (from, to) = (from as usize, to as usize);
        // As many slots as were put since: at least one, at most all.
        if from < to {
            self.shown_at[from..to].fill(now);
        } else {
            self.shown_at[from..].fill(now);
            self.shown_at[..to].fill(now);
        }
    }

    /// Numbers of the slots in use, oldest first.
    pub fn slots_in_use(&self) -> impl Iterator<Item = u32> + use<S> {
        let (consumed, mask) = (self.consumed, self.mask);
        (0..self.occupancy()).map(move |nth| consumed.wrapping_add(nth) & mask)
    }

    /// Ends the link: gives each slot that did not come back, in order, once. To be called when the
    /// Worker is gone or quarantined; what it gave back before and was not yet taken is among them.
    pub fn reclaim(&mut self, lost: impl FnMut(u32)) -> u32 {
        let count = self.occupancy();
        self.slots_in_use().for_each(lost);
        self.consumed = self.produced;
        self.published = self.produced;
        self.returned = self.produced;
        count
    }
}
