//! The exchange with choices that it did not make, to measure what its own choices save.

use std::os::fd::OwnedFd;

use thruway_exchange::{LinkError, Location, Mapped, Span, Storage, Worker};
use thruway_nf_abi::{HEADER_LEN, LinkLayout, Ring, SlotHead, Word};
use thruway_sync::atomic::AtomicU32;

/// Bytes between packed words.
const PACKED_STRIDE: usize = 4;

/// A link's memory. With `PACKED`, its shared indices stand side by side instead of each on lines
/// of its own; with `SHARED`, the Master reads the Worker's index at every poll instead of only
/// when its private copy says that there is nothing to take.
pub struct Variant<const PACKED: bool, const SHARED: bool>(Mapped);

impl<const PACKED: bool, const SHARED: bool> Variant<PACKED, SHARED> {
    /// Over a link's memory, which both sides must see as the same variant.
    pub fn new(link: Mapped) -> Self {
        Variant(link)
    }

    /// The Worker's end over a link that the Master made, with a mapping of its own.
    ///
    /// # Errors
    /// [`LinkError`]; [`LinkError::Taken`] when another Worker has it.
    pub fn worker(fd: OwnedFd, threshold: u32) -> Result<Worker<Self>, LinkError> {
        let storage = Mapped::open(fd, None)?;
        if !storage.claim() {
            return Err(LinkError::Taken);
        }
        // JUSTIFICATION: the Worker's end for a bench, which may not write `unsafe`.
        // SAFETY: the mapping is this Worker's alone and never given out, and the link was not
        // claimed before, so that there is no other Worker; its Master is this bench's.
        Ok(unsafe { Worker::new(Variant(storage), threshold) })
    }
}

impl<const PACKED: bool, const SHARED: bool> Storage for Variant<PACKED, SHARED> {
    const READS_INDEX_EACH_POLL: bool = SHARED;

    #[inline]
    fn layout(&self) -> &LinkLayout {
        self.0.layout()
    }

    #[inline]
    fn is_damaged(&self) -> bool {
        self.0.is_damaged()
    }

    #[inline]
    fn word(&self, word: Word) -> &AtomicU32 {
        if !PACKED {
            return self.0.word(word);
        }
        // Within the words of the layout, which are further apart.
        let offset = HEADER_LEN as usize + word as usize * PACKED_STRIDE;
        self.0.region().word(offset).expect("a word of the layout")
    }

    #[inline]
    fn head(&self, ring: Ring, slot: u32) -> SlotHead {
        self.0.head(ring, slot)
    }

    #[inline]
    fn set_head(&self, ring: Ring, slot: u32, head: SlotHead) {
        self.0.set_head(ring, slot, head);
    }

    #[inline]
    fn copy_in(&self, location: Location, start: u32, bytes: &[u8]) {
        self.0.copy_in(location, start, bytes);
    }

    #[inline]
    fn copy_out(&self, location: Location, start: u32, bytes: &mut [u8]) {
        self.0.copy_out(location, start, bytes);
    }

    #[inline]
    fn copy_across(&self, from: Location, span: Span, to: &Self, target: Location) {
        self.0.copy_across(from, span, &to.0, target);
    }

    #[inline]
    fn prefetch(&self, location: Location) {
        self.0.prefetch(location);
    }

    #[inline]
    fn prefetch_fill(&self, slot: u32) {
        self.0.prefetch_fill(slot);
    }

    #[inline]
    fn prefetch_take(&self, slot: u32) {
        self.0.prefetch_take(slot);
    }

    #[inline]
    #[allow(clippy::mut_from_ref, reason = "exclusive by the caller's promise")]
    unsafe fn frame_mut(&self, location: Location) -> &mut [u8] {
        // JUSTIFICATION: the Worker's only access to its packets.
        // SAFETY: the caller's promise is that of the link's `frame_mut`.
        unsafe { self.0.frame_mut(location) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thruway_exchange::{Control, Doorbell, Master, SlotTag, Tuning};
    use thruway_nf_abi::LinkShape;
    use thruway_region::Pages;

    /// Packets of both sides that may be taken at the second poll, of which the first took one.
    fn polled<const PACKED: bool, const SHARED: bool>() -> (u32, [usize; 2]) {
        let shape = LinkShape { slots: 8, ..LinkShape::DEFAULT };
        let link = Mapped::create(&shape, None, Pages::Normal).expect("a link");
        let fd = link.fd().try_clone_to_owned().expect("a descriptor");
        let storage = Variant::<PACKED, SHARED>::new(link);
        let words = [Word::MasterProduced, Word::WorkerProduced];
        let places = words.map(|word| std::ptr::from_ref(storage.word(word)).addr());
        let apart = [places[1] - places[0], places[0] % 128];
        let mut master = Master::new(storage, 1, Tuning::DEFAULT);
        let mut worker = Variant::<PACKED, SHARED>::worker(fd, 1).expect("a Worker");
        let bell = Doorbell::new(Control::create().expect("a control region"), None);
        for byte in 0..3 {
            master.put(SlotTag::NONE, &[byte; 64]).expect("room");
        }
        master.publish(&bell, 0);
        assert_eq!(worker.waiting(), 3);
        worker.advance(2);
        assert_eq!(master.poll(0, 1, |_| ()), Ok(1));
        worker.advance(1);
        (master.poll(0, 8, |token| assert_eq!(token.len(), 64)).expect("no fault"), apart)
    }

    #[test]
    fn variants_differ_in_what_they_say() {
        assert_eq!(polled::<false, false>(), (1, [128, 0]));
        assert_eq!(polled::<true, false>(), (1, [4, 0]));
        assert_eq!(polled::<false, true>(), (2, [128, 0]));
        assert_eq!(polled::<true, true>(), (2, [4, 0]));
    }
}
