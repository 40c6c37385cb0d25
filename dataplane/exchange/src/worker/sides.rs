//! What a Worker shows the Master, and the rings for packets that it makes.

use thruway_nf_abi::{Ring, SlotHead, Word, flag};
use thruway_sync::atomic::{Ordering, fence};

use crate::storage::{Location, Storage};

/// An auxiliary or injection ring that is full: the packet was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The host has not taken what is in the ring.
    #[error("the ring is full")]
    Full,
    /// The packet is longer than a slot holds, or has no bytes.
    #[error("the packet does not fit a slot")]
    Length,
}

/// Where a packet made by a Worker goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outgoing {
    /// Output of the element.
    pub output: u8,
    /// Session, or [`SlotHead::NO_SESSION`].
    pub fcb: u32,
}

/// What the Master was shown.
#[derive(Default)]
pub(super) struct Shown {
    /// W.prod as the Master sees it.
    pub(super) published: u32,
    /// Something was published since the last look at whether the Master sleeps.
    pub(super) unannounced: bool,
    /// W.prod at that look.
    pub(super) announced: u32,
}

impl Shown {
    /// Shows all slots before `consumed` with their auxiliary packets.
    #[inline]
    pub(super) fn publish<S: Storage>(&mut self, storage: &S, side: &mut SideRings, consumed: u32) {
        let aux = side.aux_before(consumed);
        if side.aux_published != aux {
            side.aux_published = aux;
            // Before W.prod: a reader of a slot sees its auxiliary packets. Release: as below.
            storage.word(Word::AuxProduced).store(aux, Ordering::Release);
        }
        if self.published != consumed {
            self.published = consumed;
            self.unannounced = true;
            // Release: what was written into the slots before the index; pairs with the Acquire
            // in Master::look.
            storage.word(Word::WorkerProduced).store(consumed, Ordering::Release);
        }
    }

    /// Whether the Master sleeps and must be woken for what was published.
    #[inline]
    pub(super) fn must_wake<S: Storage>(&mut self, storage: &S) -> bool {
        if !std::mem::take(&mut self.unannounced) {
            return false;
        }
        self.announced = self.published;
        // W2: orders the publications before the look at the flag; pairs with M2 in Master::rest.
        fence(Ordering::SeqCst);
        let waits = storage.word(Word::MasterWaits);
        waits.load(Ordering::Relaxed) == 1 && waits.swap(0, Ordering::Relaxed) == 1
    }
}

/// The Worker's end of the auxiliary and injection rings.
#[derive(Default)]
pub(super) struct SideRings {
    pub(super) aux_produced: u32,
    pub(super) aux_published: u32,
    /// Private copy of the auxiliary ring's consumer index.
    pub(super) aux_consumed: u32,
    /// The slot that the last auxiliary packet belongs to, as its index; `None` before the first.
    pub(super) aux_slot: Option<u32>,
    /// How many it has.
    pub(super) chain: u32,
    /// Auxiliary packets of the open slot that found no room.
    pub(super) lost: u32,
    pub(super) injected: u32,
    pub(super) injection_published: u32,
    /// Private copy of the injection ring's consumer index.
    pub(super) injection_consumed: u32,
}

impl SideRings {
    /// Algorithm 6 for the slot of this index; the caller sets that slot's AUX flag.
    pub(super) fn emit<S: Storage>(
        &mut self,
        storage: &S,
        index: u32,
        to: Outgoing,
        parts: [&[u8]; 2],
    ) -> Result<(), NoRoom> {
        let slots = storage.layout().shape.aux_slots;
        if self.aux_produced.wrapping_sub(self.aux_consumed) == slots {
            // Acquire: the Master's copies out of the slots before it freed them; pairs with the
            // Release in Master::poll.
            self.aux_consumed = storage.word(Word::AuxConsumed).load(Ordering::Acquire);
        }
        if self.aux_produced.wrapping_sub(self.aux_consumed) == slots {
            return Err(NoRoom::Full);
        }
        let head = write(storage, Ring::Aux, self.aux_produced, to, parts)?;
        storage.set_head(Ring::Aux, self.aux_produced & (slots - 1), head);
        if self.aux_slot == Some(index) {
            // Not yet published: the one before it is still ours to mark.
            let before = self.aux_produced.wrapping_sub(1) & (slots - 1);
            let mut head = storage.head(Ring::Aux, before);
            head.flags |= flag::NEXT;
            storage.set_head(Ring::Aux, before, head);
        }
        self.chain = if self.aux_slot == Some(index) { self.chain + 1 } else { 1 };
        self.aux_slot = Some(index);
        self.aux_produced = self.aux_produced.wrapping_add(1);
        Ok(())
    }

    /// The producer index up to the packets of slots before this one.
    #[inline]
    pub(super) fn aux_before(&self, index: u32) -> u32 {
        let own = if self.aux_slot == Some(index) { self.chain } else { 0 };
        self.aux_produced.wrapping_sub(own)
    }

    pub(super) fn inject<S: Storage>(
        &mut self,
        storage: &S,
        to: Outgoing,
        parts: [&[u8]; 2],
    ) -> Result<(), NoRoom> {
        let slots = storage.layout().shape.injection_slots;
        if self.injected.wrapping_sub(self.injection_consumed) == slots {
            // Acquire: as in `emit`; pairs with the Release in Master::poll_injected.
            let word = storage.word(Word::InjectionConsumed);
            self.injection_consumed = word.load(Ordering::Acquire);
        }
        if self.injected.wrapping_sub(self.injection_consumed) == slots {
            return Err(NoRoom::Full);
        }
        let head = write(storage, Ring::Injection, self.injected, to, parts)?;
        storage.set_head(Ring::Injection, self.injected & (slots - 1), head);
        self.injected = self.injected.wrapping_add(1);
        Ok(())
    }
}

/// Writes a packet's bytes into a side ring's frame, and gives its head.
fn write<S: Storage>(
    storage: &S,
    ring: Ring,
    index: u32,
    to: Outgoing,
    [first, second]: [&[u8]; 2],
) -> Result<SlotHead, NoRoom> {
    let shape = &storage.layout().shape;
    let start = shape.headroom;
    let len = first.len() + second.len();
    if len == 0 || len > (shape.frame_len() - start) as usize {
        return Err(NoRoom::Length);
    }
    let location = Location::Slot(ring, index & (shape.ring_slots(ring) - 1));
    storage.copy_in(location, start, first);
    storage.copy_in(location, start + first.len() as u32, second);
    let (start, len) = (start as u16, len as u16);
    let Outgoing { output, fcb } = to;
    Ok(SlotHead { start, len, output, fcb, ..SlotHead::default() })
}
