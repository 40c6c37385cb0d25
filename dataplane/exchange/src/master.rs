//! The Master's end of a link: Algorithms 1 to 4 and 7 of the paper, and the injection ring.
//!
//! Nothing that a Worker wrote is used before it was checked, and it is read once.

mod filling;
mod held;
mod sleep;
mod taking;
mod waking;

pub use filling::Put;
pub use taking::Take;

use thruway_nf_abi::{Ring, SlotHead, Word, flag};
use thruway_sync::atomic::Ordering;

use crate::bell::Bell;
use crate::fault::{PeerFault, Refusal};
use crate::storage::{Location, Span, Storage};
use crate::token::{LinkFigures, Origin, SlotTag, Token};
use crate::tuning::Tuning;

/// Prefetch distance in slots ahead of the one being read: as many as a core can wait for at
/// once.
///
/// PERF: a line that the Worker only read has gone to its core all the same. See
/// bench/record/README.md, exchange.
pub const PREFETCH: u32 = 24;

/// Slots ahead of the one being filled for which lines are taken back from the Worker's core.
pub const FILL_AHEAD: u32 = 32;

/// The Master's end of one link.
pub struct Master<S> {
    storage: S,
    outputs: u32,
    /// Private copies of the shape's numbers: slots less one, bytes of a frame, head room.
    mask: u32,
    frame_len: u32,
    headroom: u32,
    /// Thresholds and switches; may be changed at any time.
    pub tuning: Tuning,
    /// M.prod with what is not yet published.
    produced: u32,
    /// M.prod as the Worker sees it.
    published: u32,
    /// `published` when it was last made sure that the Worker is awake: it sees what was shown
    /// before.
    ensured: u32,
    /// Private copy of W.prod.
    returned: u32,
    /// M.cons.
    consumed: u32,
    aux_consumed: u32,
    /// Private copy of the auxiliary ring's producer index.
    aux_limit: u32,
    injection_consumed: u32,
    /// When the oldest waiting token was put (the paper's timeStamp).
    oldest: u64,
    /// By slot: when the Worker was shown its token.
    shown_at: Box<[u64]>,
    fault: Option<PeerFault>,
    /// With descriptors: the frame that each primary slot names.
    frames: Box<[u32]>,
    figures: LinkFigures,
}

impl<S: Storage> Master<S> {
    /// The Master's end of fresh storage, with so many outputs (1 to 256).
    pub fn new(storage: S, outputs: u32, tuning: Tuning) -> Master<S> {
        let shape = storage.layout().shape;
        let frames = match shape.token {
            thruway_nf_abi::Token::Inline => 0,
            thruway_nf_abi::Token::Descriptor => shape.slots as usize,
        };
        Master {
            storage,
            outputs,
            mask: shape.slots - 1,
            frame_len: shape.frame_len(),
            headroom: shape.headroom,
            tuning,
            produced: 0,
            published: 0,
            ensured: 0,
            returned: 0,
            consumed: 0,
            aux_consumed: 0,
            aux_limit: 0,
            injection_consumed: 0,
            oldest: 0,
            shown_at: vec![0; shape.slots as usize].into_boxed_slice(),
            fault: None,
            frames: vec![0; frames].into_boxed_slice(),
            figures: LinkFigures::default(),
        }
    }

    /// The storage.
    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// Counts since it was made.
    pub fn figures(&self) -> LinkFigures {
        self.figures
    }

    /// What the Worker did wrong; nothing comes from it any more.
    pub fn fault(&self) -> Option<PeerFault> {
        self.fault
    }

    /// Slots in use: with the Worker, or waiting to be taken back.
    #[inline]
    pub fn occupancy(&self) -> u32 {
        self.produced.wrapping_sub(self.consumed)
    }

    /// Slots that can be filled.
    #[inline]
    pub fn room(&self) -> u32 {
        self.mask + 1 - self.occupancy()
    }

    /// Tokens that the Worker has not given back, as far as the Master knows.
    #[inline]
    pub fn outstanding(&self) -> u32 {
        self.published.wrapping_sub(self.returned)
    }

    /// Number of the slot that the next packet goes into.
    #[inline]
    pub fn next_slot(&self) -> u32 {
        self.produced & self.mask
    }

    /// Puts a packet into the next slot (Algorithm 2 line 8) and gives the slot's number. The
    /// Worker sees it after [`publish`](Self::publish).
    ///
    /// # Errors
    /// [`Refusal`]; nothing was put.
    #[inline(always)]
    pub fn put(&mut self, mark: SlotTag, bytes: &[u8]) -> Result<u32, Refusal> {
        let start = self.headroom;
        let slot = self.claim(start, bytes.len())?;
        self.storage.copy_in(Location::Slot(Ring::Primary, slot), start, bytes);
        Ok(self.fill(slot, mark, Span { start, len: bytes.len() as u32 }, 0))
    }

    /// The same of a packet with bytes in two places.
    ///
    /// # Errors
    /// [`Refusal`]; nothing was put.
    #[inline(always)]
    pub fn put_parts(&mut self, mark: SlotTag, [first, rest]: [&[u8]; 2]) -> Result<u32, Refusal> {
        let (start, len) = (self.headroom, first.len() + rest.len());
        let slot = self.claim(start, len)?;
        let location = Location::Slot(Ring::Primary, slot);
        self.storage.copy_in(location, start, first);
        self.storage.copy_in(location, start + first.len() as u32, rest);
        Ok(self.fill(slot, mark, Span { start, len: len as u32 }, 0))
    }

    /// Puts what another link's Worker gave into the next slot: one copy, slot to slot.
    ///
    /// # Errors
    /// [`Refusal`]; nothing was put.
    #[inline(always)]
    pub fn put_token(&mut self, mark: SlotTag, token: &Token<'_, S>) -> Result<u32, Refusal> {
        let span = Span { start: self.headroom, len: token.len };
        let slot = self.claim(span.start, span.len as usize)?;
        let target = Location::Slot(Ring::Primary, slot);
        token.storage.copy_across(token.location, token.span(), &self.storage, target);
        Ok(self.fill(slot, mark, span, 0))
    }

    /// Puts a frame of the group's region into the next slot: no copy. `span` is where the packet
    /// lies in the frame.
    ///
    /// # Errors
    /// [`Refusal`]; nothing was put.
    #[inline]
    pub fn put_frame(&mut self, mark: SlotTag, frame: u32, span: Span) -> Result<u32, Refusal> {
        let slot = self.claim(span.start, span.len as usize)?;
        self.frames[slot as usize] = frame;
        Ok(self.fill(slot, mark, span, frame))
    }

    /// Puts the news that a session has ended into the next slot. Whatever the Worker makes of it,
    /// the slot comes back as all others.
    ///
    /// # Errors
    /// [`Refusal::Full`].
    pub fn put_released(&mut self, fcb: u32) -> Result<u32, Refusal> {
        let start = self.headroom;
        let slot = self.claim(start, 0)?;
        if let Some(frame) = self.frames.get_mut(slot as usize) {
            // Some frame: there are no bytes to be looked at.
            *frame = 0;
        }
        let mark = SlotTag { flags: flag::RELEASED, ..SlotTag::of(0, 0, fcb) };
        Ok(self.fill(slot, mark, Span { start, len: 0 }, 0))
    }

    #[inline(always)]
    fn claim(&self, start: u32, len: usize) -> Result<u32, Refusal> {
        if len > self.frame_len.saturating_sub(start) as usize {
            return Err(Refusal::TooLong);
        }
        if self.room() == 0 {
            return Err(Refusal::Full);
        }
        if self.room() > FILL_AHEAD {
            self.storage.prefetch_fill(self.produced.wrapping_add(FILL_AHEAD));
        }
        Ok(self.next_slot())
    }

    #[inline(always)]
    fn fill(&mut self, slot: u32, mark: SlotTag, span: Span, frame: u32) -> u32 {
        let head = SlotHead {
            start: span.start as u16,
            len: span.len as u16,
            flags: mark.flags,
            output: 0,
            input: mark.input,
            direction: mark.direction,
            fcb: mark.fcb,
            frame,
        };
        self.storage.set_head(Ring::Primary, slot, head);
        self.produced = self.produced.wrapping_add(1);
        self.figures.put += 1;
        slot
    }

    /// Shows the Worker what was put, and wakes it if more than the threshold wait (Algorithm 2).
    #[inline]
    pub fn publish<B: Bell>(&mut self, bell: &B, now: u64) {
        if self.produced == self.published {
            return;
        }
        if self.published == self.consumed {
            // Algorithm 2 line 5: the buffer was empty.
            self.oldest = now;
        }
        self.note_shown(now);
        self.published = self.produced;
        self.figures.occupancy_max = self.figures.occupancy_max.max(self.occupancy());
        // Release: heads and bytes before the index; pairs with the Acquire in Worker::look.
        self.storage.word(Word::MasterProduced).store(self.published, Ordering::Release);
        if self.outstanding() > self.tuning.master_threshold {
            self.wake(bell);
        }
    }

    /// Reads W.prod afresh and checks Properties 1 and 2.
    #[inline]
    fn look(&mut self) -> Result<(), PeerFault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if self.storage.is_damaged() {
            return Err(self.fail(PeerFault::Memory));
        }
        // Acquire: what the Worker wrote into slots before it published them; pairs with the
        // Release in Worker::publish.
        let index = self.storage.word(Word::WorkerProduced).load(Ordering::Acquire);
        let owned = self.outstanding();
        let done = index.wrapping_sub(self.returned);
        if done > owned {
            return Err(self.fail(PeerFault::Index { index: done, owned }));
        }
        self.returned = index;
        for nth in 0..self.returned.wrapping_sub(self.consumed).min(PREFETCH) {
            self.prefetch(self.consumed.wrapping_add(nth) & self.mask);
        }
        Ok(())
    }

    #[cold]
    fn fail(&mut self, fault: PeerFault) -> PeerFault {
        // What it gave back before and was not yet taken is not believed either: the next `poll`
        // has nothing to take, looks, and finds the fault.
        self.returned = self.consumed;
        // The first fault stays: what follows it follows from it.
        *self.fault.get_or_insert(fault)
    }

    #[inline(always)]
    fn prefetch(&self, slot: u32) {
        match self.location(slot) {
            Location::Slot(..) => self.storage.prefetch_take(slot),
            location @ Location::Frame(_) => self.storage.prefetch(location),
        }
    }

    /// Where a primary slot's bytes are: by the Master's own note, never by the head.
    #[inline(always)]
    fn location(&self, slot: u32) -> Location {
        match self.frames.get(slot as usize) {
            Some(&frame) => Location::Frame(frame),
            None => Location::Slot(Ring::Primary, slot),
        }
    }

    #[inline(always)]
    fn check(&self, head: &SlotHead) -> Result<(), PeerFault> {
        let frame_len = self.frame_len;
        let (start, len) = (head.start, head.len);
        if len == 0 || u32::from(start) + u32::from(len) > frame_len {
            return Err(PeerFault::Bounds { start, len, frame_len });
        }
        if u32::from(head.output) >= self.outputs {
            return Err(PeerFault::Output { output: head.output, outputs: self.outputs });
        }
        Ok(())
    }

    /// Reads the auxiliary ring's producer index afresh. The Worker published it before the
    /// W.prod that we read, so all packets of the slots up to there are in.
    fn look_aux(&mut self) -> Result<(), PeerFault> {
        self.aux_limit =
            self.filled(Word::AuxProduced, Ring::Aux, self.aux_consumed, self.aux_limit)?;
        Ok(())
    }

    /// A Worker's producer index, checked: not past the ring's length, not back.
    fn filled(&self, word: Word, ring: Ring, consumed: u32, before: u32) -> Result<u32, PeerFault> {
        // Acquire: slots before the index; pairs with the Release in Worker::publish or inject.
        let index = self.storage.word(word).load(Ordering::Acquire);
        let count = index.wrapping_sub(consumed);
        let free = self.storage.layout().shape.ring_slots(ring);
        if count > free || count < before.wrapping_sub(consumed) {
            return Err(PeerFault::Ring { count, free });
        }
        Ok(index)
    }

    /// Gives one packet of the auxiliary or injection ring.
    fn take_side(
        &self,
        ring: Ring,
        index: u32,
        origin: Origin,
        take: &mut impl FnMut(Token<'_, S>),
    ) -> Result<SlotHead, PeerFault> {
        let slot = index & (self.storage.layout().shape.ring_slots(ring) - 1);
        let head = self.storage.head(ring, slot);
        self.check(&head)?;
        if head.flags & !flag::NEXT != 0 {
            return Err(PeerFault::Flags(head.flags));
        }
        take(Token {
            storage: &self.storage,
            location: Location::Slot(ring, slot),
            start: u32::from(head.start),
            len: u32::from(head.len),
            origin,
            output: u32::from(head.output),
            is_kept: false,
        });
        Ok(head)
    }

    /// Takes at most `limit` packets that the Worker made on its own. Gives their number.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    #[inline]
    pub fn poll_injected(
        &mut self,
        limit: u32,
        mut take: impl FnMut(Token<'_, S>),
    ) -> Result<u32, PeerFault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let before = self.injection_consumed;
        let end = match self.filled(Word::Injected, Ring::Injection, before, before) {
            Ok(index) => index,
            Err(fault) => return Err(self.fail(fault)),
        };
        let count = end.wrapping_sub(before).min(limit);
        for nth in 0..count {
            let index = before.wrapping_add(nth);
            if let Err(fault) = self.take_side(Ring::Injection, index, Origin::Injected, &mut take)
            {
                return Err(self.fail(fault));
            }
        }
        if count > 0 {
            self.figures.injected += u64::from(count);
            self.injection_consumed = before.wrapping_add(count);
            // Release: as for AuxConsumed; pairs with the Acquire in Worker::inject.
            let word = self.storage.word(Word::InjectionConsumed);
            word.store(self.injection_consumed, Ordering::Release);
        }
        Ok(count)
    }
}
