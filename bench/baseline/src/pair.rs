//! Two one-way rings of frames, and a copy in the Worker.

use std::os::fd::OwnedFd;

use thruway_exchange::{
    Bell, FILL_AHEAD, LinkError, Location, Mapped, PREFETCH, Span, Storage as _, Tuning,
};
use thruway_nf_abi::{Ring, SlotHead, Word};

use super::{Flight, Shift};

/// A packet that came back through a one-way ring of frames.
pub struct PairToken<'a> {
    up: &'a Mapped,
    slot: u32,
    span: Span,
}

impl PairToken<'_> {
    /// Length in bytes.
    pub fn len(&self) -> u32 {
        self.span.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.span.len == 0
    }

    /// Copies as many of its bytes as `bytes` has room for.
    #[inline]
    pub fn copy_to(&self, bytes: &mut [u8]) {
        let len = bytes.len().min(self.span.len as usize);
        self.up.copy_out(
            Location::Slot(Ring::Primary, self.slot),
            self.span.start,
            &mut bytes[..len],
        );
    }
}

/// The Master's end of two one-way rings of frames. Each lies in a link's storage, of which only
/// the primary ring and `M.prod` are used.
pub struct PairMaster {
    down: Mapped,
    up: Mapped,
    flight: Flight,
}

impl PairMaster {
    /// Over two storages of the same shape; with `shared_indices`, the Worker's index is read at
    /// every poll.
    pub fn new([down, up]: [Mapped; 2], tuning: Tuning, shared_indices: bool) -> PairMaster {
        let slots = down.layout().shape.slots.min(up.layout().shape.slots);
        PairMaster { down, up, flight: Flight::new(slots, tuning, shared_indices) }
    }

    /// Packets that can be put.
    #[inline]
    pub fn room(&self) -> u32 {
        self.flight.room()
    }

    #[inline]
    fn next(&self, len: usize) -> Option<(Location, Span)> {
        let shape = &self.down.layout().shape;
        let fits = len <= (shape.frame_len() - shape.headroom) as usize;
        if self.room() > FILL_AHEAD {
            self.down.prefetch_fill(self.flight.produced.wrapping_add(FILL_AHEAD));
        }
        let slot = self.flight.produced & (shape.slots - 1);
        let span = Span { start: shape.headroom, len: len as u32 };
        (fits && self.room() > 0).then_some((Location::Slot(Ring::Primary, slot), span))
    }

    #[inline]
    fn fill(&mut self, span: Span) {
        let slot = self.flight.produced & (self.down.layout().shape.slots - 1);
        self.down.set_head(Ring::Primary, slot, head_of(span));
        self.flight.produced = self.flight.produced.wrapping_add(1);
    }

    /// Puts a packet; false when there is no room for it.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> bool {
        let Some((location, span)) = self.next(bytes.len()) else { return false };
        self.down.copy_in(location, span.start, bytes);
        self.fill(span);
        true
    }

    /// Puts what came back from another pair: one copy. False when there is no room for it.
    #[inline]
    pub fn put_token(&mut self, token: &PairToken<'_>) -> bool {
        let Some((location, span)) = self.next(token.span.len as usize) else { return false };
        let from = Location::Slot(Ring::Primary, token.slot);
        token.up.copy_across(from, token.span, &self.down, location);
        self.fill(span);
        true
    }

    /// As [`thruway_exchange::Master::publish`].
    #[inline]
    pub fn publish<B: Bell>(&mut self, bell: &B, now: u64) {
        self.flight.publish(self.down.word(Word::MasterProduced), bell, now);
    }

    /// As [`thruway_exchange::Master::check_age`].
    #[inline]
    pub fn check_age<B: Bell>(&self, bell: &B, now: u64) {
        self.flight.check_age(bell, now);
    }

    /// Takes what came back, at most `limit` packets.
    #[inline]
    pub fn poll(&mut self, now: u64, limit: u32, mut take: impl FnMut(PairToken<'_>)) -> u32 {
        let known = self.flight.returned;
        let count = self.flight.ready(self.up.word(Word::MasterProduced), now, limit);
        let mask = self.up.layout().shape.slots - 1;
        if known != self.flight.returned {
            for nth in 0..count.min(PREFETCH) {
                self.up.prefetch_take(self.flight.consumed.wrapping_add(nth) & mask);
            }
        }
        for _ in 0..count {
            let slot = self.flight.consumed & mask;
            if self.flight.returned.wrapping_sub(self.flight.consumed) > PREFETCH {
                self.up.prefetch_take(self.flight.consumed.wrapping_add(PREFETCH) & mask);
            }
            let head = self.up.head(Ring::Primary, slot);
            take(PairToken { up: &self.up, slot, span: span_of(&head) });
            self.flight.consumed = self.flight.consumed.wrapping_add(1);
        }
        count
    }
}

fn head_of(span: Span) -> SlotHead {
    SlotHead { start: span.start as u16, len: span.len as u16, ..SlotHead::default() }
}

fn span_of(head: &SlotHead) -> Span {
    Span { start: u32::from(head.start), len: u32::from(head.len) }
}

/// The Worker's end of two one-way rings of frames.
pub struct PairWorker {
    down: Mapped,
    up: Mapped,
    shift: Shift,
}

impl PairWorker {
    /// Opens the two storages that a [`PairMaster`] uses, with mappings of its own.
    ///
    /// # Errors
    /// [`LinkError`]; [`LinkError::Taken`] when another Worker has them.
    pub fn open([down, up]: [OwnedFd; 2], threshold: u32) -> Result<PairWorker, LinkError> {
        let (down, up) = (Mapped::open(down, None)?, Mapped::open(up, None)?);
        if !(down.claim() && up.claim()) {
            return Err(LinkError::Taken);
        }
        Ok(PairWorker { down, up, shift: Shift::new(threshold) })
    }

    /// As [`thruway_exchange::Worker::waiting`].
    #[inline]
    pub fn waiting(&mut self) -> u32 {
        let known = self.shift.limit;
        let waiting = self.shift.waiting(self.down.word(Word::MasterProduced));
        if known != self.shift.limit {
            for nth in 0..waiting.min(PREFETCH) {
                self.down.prefetch_take(self.shift.consumed.wrapping_add(nth));
            }
        }
        waiting
    }

    /// As [`thruway_exchange::Worker::has_work`].
    #[inline]
    pub fn has_work(&mut self) -> bool {
        self.shift.look(self.down.word(Word::MasterProduced)) > 0
    }

    /// Works on the first `n` waiting packets and copies each to the ring back.
    #[inline]
    pub fn work(&mut self, n: u32, mut function: impl FnMut(&mut [u8])) {
        let mask = self.down.layout().shape.slots - 1;
        let waiting = self.shift.limit.wrapping_sub(self.shift.consumed);
        for nth in 0..n.min(waiting) {
            let slot = self.shift.consumed.wrapping_add(nth) & mask;
            if nth + PREFETCH < waiting {
                self.down.prefetch_take(slot.wrapping_add(PREFETCH) & mask);
            }
            self.up.prefetch_fill(slot.wrapping_add(FILL_AHEAD));
            let head = self.down.head(Ring::Primary, slot);
            let (location, span) = (Location::Slot(Ring::Primary, slot), span_of(&head));
            // JUSTIFICATION: functions change packets in place, before they are copied back.
            // SAFETY: the slot lies before the Master's producer index and was not given back, so
            // it is this Worker's; `claim` saw to it that there is only this one, and the mapping
            // is its own.
            let frame = unsafe { self.down.frame_mut(location) };
            if let Some(packet) = frame.get_mut(span.start as usize..).and_then(|rest| {
                let len = rest.len().min(span.len as usize);
                rest.get_mut(..len)
            }) {
                function(packet);
            }
            self.down.copy_across(location, span, &self.up, location);
            let start = self.up.layout().shape.headroom;
            self.up.set_head(Ring::Primary, slot, head_of(Span { start, ..span }));
        }
    }

    /// As [`thruway_exchange::Worker::advance`].
    #[inline]
    pub fn advance(&mut self, n: u32) {
        self.shift.advance(n, self.up.word(Word::MasterProduced));
    }

    /// Publishes what it is done with.
    #[inline]
    pub fn flush(&mut self) {
        self.shift.publish(self.up.word(Word::MasterProduced));
    }
}
