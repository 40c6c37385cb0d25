//! The Worker's end of a link: Algorithms 5 and 6 of the paper, and the injection ring.
//!
//! A Worker trusts its host: it is the host's guest, and the host could do anything to it anyway.

mod current;
mod sides;

use thruway_nf_abi::{LinkLayout, Ring, SlotHead, Token, Word, flag};
use thruway_sync::atomic::Ordering;

use crate::storage::{Location, Storage};

pub use current::{Aside, Current};
pub use sides::{NoRoom, Outgoing};
use sides::{Shown, SideRings};

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
                self.storage.prefetch(Location::Frame(frame));
            }
        }
    }

    /// The whole frame of the `nth` waiting token (head room, packet, tail room); empty when there
    /// is no such token. `head` is its head.
    #[inline(always)]
    pub fn frame(&mut self, nth: u32, head: &SlotHead) -> &[u8] {
        if nth >= self.limit.wrapping_sub(self.consumed) {
            return &[];
        }
        let location = primary_location(&self.storage, self.slot(nth), head);
        // JUSTIFICATION: functions look at packets in place: that is what the exchange is for.
        // SAFETY: as in `frame_mut`.
        unsafe { self.storage.frame_mut(location) }
    }

    /// The same, to be changed: the packet is no longer as the Master put it, which `head` and the
    /// slot's own head say from now on.
    #[inline(always)]
    pub fn frame_mut(&mut self, nth: u32, head: &mut SlotHead) -> &mut [u8] {
        if nth >= self.limit.wrapping_sub(self.consumed) {
            return &mut [];
        }
        let slot = self.slot(nth);
        head.flags &= !flag::KEPT;
        let mut shown = self.storage.head(Ring::Primary, slot);
        if shown.flags & flag::KEPT != 0 {
            shown.flags &= !flag::KEPT;
            self.storage.set_head(Ring::Primary, slot, shown);
        }
        let location = primary_location(&self.storage, slot, head);
        // JUSTIFICATION: functions change packets in place: that is what the exchange is for.
        // SAFETY: W.cons <= slot < M.prod, so the slot and its frame are this Worker's (`new`
        // promises that there is one); `&mut self` excludes a second reference.
        unsafe { self.storage.frame_mut(location) }
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
        let location = primary_location(&self.storage, slot, &head);
        // JUSTIFICATION: as in `frame_mut`.
        // SAFETY: as in `frame_mut`: W.cons = slot < M.prod; `Current` borrows the Worker mutably,
        // so there is no second reference.
        let frame = unsafe { self.storage.frame_mut(location) };
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
fn primary_location<S: Storage>(storage: &S, slot: u32, head: &SlotHead) -> Location {
    match storage.layout().shape.token {
        Token::Inline => Location::Slot(Ring::Primary, slot),
        Token::Descriptor => Location::Frame(head.frame),
    }
}
