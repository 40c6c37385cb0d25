//! The Worker's end of a link: Algorithms 5 and 6 of the paper, and the injection ring.
//!
//! A Worker trusts its host: it is the host's guest, and the host could do anything to it anyway.

use thruway_nf_abi::{LinkLayout, Ring, SlotHead, Token, Word, flag};
use thruway_sync::atomic::{Ordering, fence};

use crate::storage::{Place, Storage};

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

/// The Worker's end of one link.
pub struct Worker<S> {
    storage: S,
    /// WORKER_PKT_THRESHOLD, at least 1.
    threshold: u32,
    /// Private copy of M.prod.
    limit: u32,
    /// W.cons: the first slot that it is not done with.
    consumed: u32,
    shown: Shown,
    side: SideRings,
}

/// What the Master was shown.
#[derive(Default)]
struct Shown {
    /// W.prod as the Master sees it.
    published: u32,
    /// Something was published since the last look at whether the Master sleeps.
    unannounced: bool,
    /// W.prod at that look.
    announced: u32,
}

impl Shown {
    /// Shows all slots before `consumed` with their auxiliary packets.
    #[inline]
    fn publish<S: Storage>(&mut self, storage: &S, side: &mut SideRings, consumed: u32) {
        let aux = side.aux_before(consumed);
        if side.aux_published != aux {
            side.aux_published = aux;
            // Before W.prod: who sees a slot sees its auxiliary packets. Release: as below.
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

    /// Whether the Master sleeps and must be told of what was published.
    #[inline]
    fn must_wake<S: Storage>(&mut self, storage: &S) -> bool {
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
struct SideRings {
    aux_produced: u32,
    aux_published: u32,
    /// Private copy of the auxiliary ring's consumer index.
    aux_consumed: u32,
    /// The slot that the last auxiliary packet belongs to, as its index; `None` before the first.
    aux_slot: Option<u32>,
    /// How many it has.
    chain: u32,
    /// Auxiliary packets of the open slot that found no room.
    lost: u32,
    injected: u32,
    injection_published: u32,
    /// Private copy of the injection ring's consumer index.
    injection_consumed: u32,
}

impl<S: Storage> Worker<S> {
    /// Tokens ahead of the one at work that [`prefetch`](Self::prefetch) is best used for: as many
    /// lines as a core can wait for at once. [`waiting`](Self::waiting) asks for the first of them.
    pub const AHEAD: u32 = 24;

    /// The Worker's end of storage that a Master has just made.
    ///
    /// # Safety
    /// No other Worker uses the storage, and its Master keeps to the protocol: `frame` gives
    /// references to what the protocol says is the Worker's.
    pub unsafe fn new(storage: S, threshold: u32) -> Worker<S> {
        Worker {
            storage,
            threshold: threshold.max(1),
            limit: 0,
            consumed: 0,
            shown: Shown::default(),
            side: SideRings::default(),
        }
    }

    /// The storage, for a checker that plays a Worker that lies.
    ///
    /// # Safety
    /// By it, or a copy of it, a frame can be written to which [`frame`](Self::frame) or
    /// [`current`](Self::current) gave a reference: none may live meanwhile.
    pub unsafe fn storage(&self) -> &S {
        &self.storage
    }

    /// Sizes of the link. (The storage itself is not given out: by a copy of it, safe code could
    /// write into a frame to which there is a reference.)
    #[inline]
    pub fn layout(&self) -> &LinkLayout {
        self.storage.layout()
    }

    /// Tokens to process. Reads M.prod afresh when it knows of none.
    #[inline]
    pub fn waiting(&mut self) -> u32 {
        if self.limit == self.consumed {
            self.look();
            for nth in 0..self.limit.wrapping_sub(self.consumed).min(Self::AHEAD) {
                self.prefetch(nth);
            }
        }
        self.limit.wrapping_sub(self.consumed)
    }

    /// Whether there are tokens to process, read afresh: the second look before a sleep.
    #[inline]
    pub fn has_work(&mut self) -> bool {
        self.look();
        self.limit != self.consumed
    }

    #[inline]
    fn look(&mut self) {
        // Acquire: what the Master wrote into slots before it published them; pairs with the
        // Release in Master::publish.
        let index = self.storage.word(Word::MasterProduced).load(Ordering::Acquire);
        let slots = self.storage.layout().shape.slots;
        // The host is trusted, but an index that makes no sense must not become references.
        if index.wrapping_sub(self.shown.published) <= slots {
            self.limit = index;
        }
    }

    #[inline(always)]
    fn slot(&self, nth: u32) -> u32 {
        self.consumed.wrapping_add(nth) & (self.storage.layout().shape.slots - 1)
    }

    /// The head of the `nth` waiting token.
    #[inline(always)]
    pub fn head(&self, nth: u32) -> SlotHead {
        self.storage.head(Ring::Primary, self.slot(nth))
    }

    /// Changes the head of the `nth` waiting token, if the token is the Worker's.
    #[inline]
    pub fn set_head(&mut self, nth: u32, head: SlotHead) {
        if nth < self.limit.wrapping_sub(self.consumed) {
            self.storage.set_head(Ring::Primary, self.slot(nth), head);
        }
    }

    /// Asks the processor for the head and the packet of the `nth` waiting token, if it waits.
    #[inline(always)]
    pub fn prefetch(&self, nth: u32) {
        if nth >= self.limit.wrapping_sub(self.consumed) {
            // The Master is at those: it would lose the lines that it writes.
            return;
        }
        let slot = self.slot(nth);
        match self.storage.layout().shape.token {
            Token::Inline => self.storage.prefetch_take(slot),
            Token::Descriptor => {
                let frame = self.storage.head(Ring::Primary, slot).frame;
                self.storage.prefetch(Place::Frame(frame));
            }
        }
    }

    /// The whole frame of the `nth` waiting token (head room, packet, tail room); empty when there
    /// is no such token. `head` is its head.
    #[inline(always)]
    pub fn frame(&mut self, nth: u32, head: &SlotHead) -> &mut [u8] {
        if nth >= self.limit.wrapping_sub(self.consumed) {
            return &mut [];
        }
        let place = primary_place(&self.storage, self.slot(nth), head);
        // JUSTIFICATION: functions change packets in place: that is what the exchange is for.
        // SAFETY: W.cons <= slot < M.prod, so the slot and its frame are this Worker's (`new`
        // promises that there is one); `&mut self` excludes a second reference.
        unsafe { self.storage.frame_mut(place) }
    }

    /// The first waiting token, open: to be read and changed in place, with packets emitted beside
    /// it. `None` when none waits as far as [`waiting`](Self::waiting) saw.
    #[inline]
    pub fn current(&mut self) -> Option<Current<'_, S>> {
        if self.limit == self.consumed {
            return None;
        }
        let slot = self.slot(0);
        let head = self.storage.head(Ring::Primary, slot);
        let place = primary_place(&self.storage, slot, &head);
        // JUSTIFICATION: as in `frame`.
        // SAFETY: as in `frame`: W.cons = slot < M.prod; `Current` borrows the Worker mutably, so
        // there is no second reference.
        let frame = unsafe { self.storage.frame_mut(place) };
        let aside = Aside {
            storage: &self.storage,
            rings: &mut self.side,
            shown: &mut self.shown,
            index: self.consumed,
            has_emitted: false,
        };
        Some(Current { head, before: head, frame, aside, slot })
    }

    /// Adds a packet in consequence of the first waiting token (Algorithm 6), with its bytes in
    /// two parts. It leaves after that token and what was added before.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is not sent.
    pub fn emit(&mut self, to: Outgoing, parts: [&[u8]; 2]) -> Result<(), NoRoom> {
        self.side.emit(&self.storage, self.consumed, to, parts)?;
        let mut head = self.head(0);
        head.flags |= flag::AUX;
        self.set_head(0, head);
        Ok(())
    }

    /// Sets WORKER_PKT_THRESHOLD, from the next token on.
    pub fn set_threshold(&mut self, threshold: u32) {
        self.threshold = threshold.max(1);
    }

    /// Is done with the first `n` waiting tokens, and publishes that as the threshold says
    /// (Algorithm 5 lines 13-16 and 24).
    #[inline]
    pub fn advance(&mut self, n: u32) {
        let n = n.min(self.limit.wrapping_sub(self.consumed));
        self.consumed = self.consumed.wrapping_add(n);
        if self.consumed.wrapping_sub(self.shown.published) >= self.threshold {
            self.publish();
        }
    }

    /// Gives back all slots that it is done with, and all injected packets. True when the Master
    /// sleeps and its wake-up line must be written. To be called after each batch and before a
    /// sleep: `advance` publishes too, but only this looks whether the Master sleeps.
    #[must_use = "a sleeping Master must be woken"]
    #[inline]
    pub fn flush(&mut self) -> bool {
        self.show();
        self.shown.must_wake(&self.storage)
    }

    /// As [`flush`](Self::flush), but a Master that sleeps is left asleep: `flush` must follow
    /// before the Worker sleeps.
    #[inline]
    pub fn show(&mut self) {
        self.publish();
        if self.side.injection_published != self.side.injected {
            self.side.injection_published = self.side.injected;
            // Release: heads and bytes before the index; pairs with the Acquire in Master::filled.
            self.storage.word(Word::Injected).store(self.side.injected, Ordering::Release);
            self.shown.unannounced = true;
        }
    }

    /// Slots given back since [`flush`](Self::flush) last looked whether the Master sleeps.
    #[inline]
    pub fn unannounced(&self) -> u32 {
        self.shown.published.wrapping_sub(self.shown.announced)
    }

    #[inline]
    fn publish(&mut self) {
        self.shown.publish(&self.storage, &mut self.side, self.consumed);
    }

    /// Puts a packet of its own making into the injection ring; seen after [`flush`](Self::flush).
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is not sent.
    pub fn inject(&mut self, to: Outgoing, parts: [&[u8]; 2]) -> Result<(), NoRoom> {
        self.side.inject(&self.storage, to, parts)
    }
}

/// Where a primary slot's bytes are, as its head says.
#[inline]
fn primary_place<S: Storage>(storage: &S, slot: u32, head: &SlotHead) -> Place {
    match storage.layout().shape.token {
        Token::Inline => Place::Slot(Ring::Primary, slot),
        Token::Descriptor => Place::Frame(head.frame),
    }
}

impl SideRings {
    /// Algorithm 6 for the slot of this index; the caller sets that slot's AUX flag.
    fn emit<S: Storage>(
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
    fn aux_before(&self, index: u32) -> u32 {
        let own = if self.aux_slot == Some(index) { self.chain } else { 0 };
        self.aux_produced.wrapping_sub(own)
    }

    fn inject<S: Storage>(
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
    let place = Place::Slot(ring, index & (shape.ring_slots(ring) - 1));
    storage.copy_in(place, start, first);
    storage.copy_in(place, start + first.len() as u32, second);
    let (start, len) = (start as u16, len as u16);
    let Outgoing { output, fcb } = to;
    Ok(SlotHead { start, len, output, fcb, ..SlotHead::default() })
}

/// The first waiting token, open.
pub struct Current<'a, S> {
    /// A copy of its head; what is changed in it becomes true by [`close`](Self::close).
    pub head: SlotHead,
    /// Its whole frame: head room, packet, tail room.
    pub frame: &'a mut [u8],
    /// The way out for other packets.
    pub aside: Aside<'a, S>,
    before: SlotHead,
    slot: u32,
}

impl<S: Storage> Current<'_, S> {
    /// Writes the head back if it was changed. The token is still the first one;
    /// [`Worker::advance`] gives it back.
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

/// The way out for packets made beside an open token.
pub struct Aside<'a, S> {
    storage: &'a S,
    rings: &'a mut SideRings,
    shown: &'a mut Shown,
    index: u32,
    has_emitted: bool,
}

impl<S: Storage> Aside<'_, S> {
    /// As [`Worker::emit`].
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

    /// Gives back all slots before the open one. As [`Worker::flush`], true when the Master sleeps
    /// and its eventfd must be written.
    #[must_use = "a sleeping Master must be woken"]
    pub fn flush(&mut self) -> bool {
        self.shown.publish(self.storage, self.rings, self.index);
        self.shown.must_wake(self.storage)
    }

    /// Says that a packet that was to be emitted is lost: the Master counts it.
    pub fn lose(&mut self) {
        self.rings.lost = self.rings.lost.saturating_add(1);
    }

    /// As [`Worker::inject`].
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is not sent.
    pub fn inject(&mut self, to: Outgoing, parts: [&[u8]; 2]) -> Result<(), NoRoom> {
        self.rings.inject(self.storage, to, parts)
    }
}
