//! What the rings are kept in.

use thruway_nf_abi::{LinkLayout, Ring, SlotHead, Word};
use thruway_sync::atomic::AtomicU32;

/// Where the bytes of a token are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// In a slot of the link's region.
    Slot(Ring, u32),
    /// In a frame of the group's region.
    Frame(u32),
}

/// Memory of one link, as either side sees it.
///
/// The algorithm ([`crate::Master`], [`crate::Worker`]) is written once over this trait; a mapping
/// ([`crate::Mapped`]), a model under loom and plain memory under miri are its storages.
///
/// Slots and frames are numbered from 0; an implementation takes numbers modulo the ring's length,
/// so that no number leads outside.
pub trait Storage {
    /// Whether a Master reads the Worker's index at every poll, and not only when it knows of no
    /// token to take: for a bench, which measures what the private copy of the index saves.
    const READS_INDEX_EACH_POLL: bool = false;

    /// Sizes and offsets: a private copy, never read from shared memory again.
    fn layout(&self) -> &LinkLayout;

    /// Whether memory of it was lost, so that the two sides no longer share all of it.
    fn is_damaged(&self) -> bool {
        false
    }

    /// A shared index.
    fn word(&self, word: Word) -> &AtomicU32;

    /// The head of a slot, read once.
    fn head(&self, ring: Ring, slot: u32) -> SlotHead;

    /// Writes the head of a slot.
    fn set_head(&self, ring: Ring, slot: u32, head: SlotHead);

    /// The same of a head as its two words ([`SlotHead::to_words`]).
    #[inline]
    fn set_head_words(&self, ring: Ring, slot: u32, words: [u64; 2]) {
        self.set_head(ring, slot, SlotHead::from_words(words));
    }

    /// Copies `bytes` into a frame from byte `start` on; what would not fit is left out.
    fn copy_in(&self, location: Location, start: u32, bytes: &[u8]);

    /// Writes words, little-endian, into a frame from byte `start` on.
    #[inline]
    fn set_words(&self, location: Location, start: u32, words: &[u64]) {
        for (nth, word) in words.iter().enumerate() {
            self.copy_in(location, start + 8 * nth as u32, &word.to_le_bytes());
        }
    }

    /// Copies from a frame's byte `start` on; bytes beyond the frame read as they were.
    fn copy_out(&self, location: Location, start: u32, bytes: &mut [u8]);

    /// Copies part of a frame to behind the head room of a frame of another link.
    fn copy_across(&self, from: Location, span: Span, to: &Self, target: Location);

    /// Asks the processor for the first line of packet bytes.
    fn prefetch(&self, location: Location);

    /// Asks the processor for the lines of a primary slot that is filled soon: its head's and the
    /// first of its frame.
    fn prefetch_fill(&self, slot: u32);

    /// Asks the processor for the lines of a primary slot that is worked on soon.
    fn prefetch_take(&self, slot: u32);

    /// A frame's bytes, to be changed in place.
    ///
    /// # Safety
    /// The slot is the caller's by the protocol, no other reference to its frame exists, and the
    /// other side is trusted: only a Worker may call this.
    #[allow(clippy::mut_from_ref, reason = "exclusive by the caller's promise")]
    unsafe fn frame_mut(&self, location: Location) -> &mut [u8];
}

/// Where a packet lies in its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// Bytes.
    pub len: u32,
}
