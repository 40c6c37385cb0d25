//! What the exchange is measured against: the two traditional ways of section 6.3 of the paper,
//! built from the same storage, with the same care. For benches; nothing else uses them.
//!
//! - *pair*: two one-way rings of frames, one towards the Worker and one back; the Worker copies
//!   each packet from the one to the other;
//! - *pointers*: two one-way rings of frame numbers, as between the parts of a DPDK application;
//!   frames lie in memory that all share and never move, nobody is isolated from anybody.
//!
//! The same care: private copies of the peer's index, shared words on lines of their own, batched
//! publication, prefetching, the same wake-up word. More than usual: because a packet always comes
//! back, the Master hands out no more than a ring holds, so that neither ring has a consumer index
//! and the Worker never finds its way back full.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use thruway_nf_abi::{LinkShape, Ring, SlotHead, Word};
use thruway_region::{Pages, Region, RegionError};
use thruway_sync::atomic::{AtomicU32, Ordering};

use crate::bell::{Bell, ring};
use crate::mapped::{GroupRegion, LinkError, Mapped};
use crate::storage::{Place, Span, Storage as _};
use crate::tuning::Tuning;

/// Tokens ahead of the one at work whose bytes are asked for; as in the exchange.
const PREFETCH: u32 = crate::master::PREFETCH;

/// Slots ahead of the one being filled whose lines are taken back; as in the exchange.
const FILL_AHEAD: u32 = crate::master::FILL_AHEAD;

/// The Master's indices of a pair of one-way rings, private.
struct Flight {
    slots: u32,
    tuning: Tuning,
    /// Producer index of the ring towards the Worker, with what is not yet published.
    produced: u32,
    /// The same as the Worker sees it.
    published: u32,
    /// Private copy of the producer index of the ring back.
    returned: u32,
    /// Tokens taken out of the ring back.
    consumed: u32,
    oldest: u64,
}

impl Flight {
    fn new(slots: u32, tuning: Tuning) -> Flight {
        Flight { slots, tuning, produced: 0, published: 0, returned: 0, consumed: 0, oldest: 0 }
    }

    fn room(&self) -> u32 {
        self.slots - self.produced.wrapping_sub(self.consumed)
    }

    fn publish<B: Bell>(&mut self, word: &AtomicU32, bell: &B, now: u64) {
        if self.produced == self.published {
            return;
        }
        if self.published == self.consumed {
            self.oldest = now;
        }
        self.published = self.produced;
        // Release: slots before the index; pairs with the Acquire in `Shift::look`.
        word.store(self.published, Ordering::Release);
        if self.published.wrapping_sub(self.returned) > self.tuning.master_threshold {
            ring(bell);
        }
    }

    fn check_age<B: Bell>(&self, bell: &B, now: u64) {
        let is_waiting = self.published != self.returned;
        if is_waiting && now.saturating_sub(self.oldest) >= self.tuning.age_threshold {
            ring(bell);
        }
    }

    /// Tokens that may be taken, at most `limit`. The Worker is trusted here.
    fn ready(&mut self, word: &AtomicU32, now: u64, limit: u32) -> u32 {
        if self.returned == self.consumed || self.tuning.shared_indices {
            // Acquire: slots before the index; pairs with the Release in `Shift::publish`.
            self.returned = word.load(Ordering::Acquire);
        }
        let count = self.returned.wrapping_sub(self.consumed).min(limit);
        if count > 0 {
            self.oldest = now;
        }
        count
    }
}

/// The Worker's indices, private. A token's number is the same in both rings.
struct Shift {
    threshold: u32,
    limit: u32,
    consumed: u32,
    published: u32,
}

impl Shift {
    fn new(threshold: u32) -> Shift {
        Shift { threshold: threshold.max(1), limit: 0, consumed: 0, published: 0 }
    }

    fn look(&mut self, word: &AtomicU32) -> u32 {
        // Acquire: pairs with the Release in `Flight::publish`.
        self.limit = word.load(Ordering::Acquire);
        self.limit.wrapping_sub(self.consumed)
    }

    fn waiting(&mut self, word: &AtomicU32) -> u32 {
        if self.limit == self.consumed {
            self.look(word)
        } else {
            self.limit.wrapping_sub(self.consumed)
        }
    }

    fn advance(&mut self, n: u32, word: &AtomicU32) {
        self.consumed = self.consumed.wrapping_add(n);
        if self.consumed.wrapping_sub(self.published) >= self.threshold {
            self.publish(word);
        }
    }

    fn publish(&mut self, word: &AtomicU32) {
        if self.published != self.consumed {
            self.published = self.consumed;
            // Release: slots before the index; pairs with the Acquire in `Flight::ready`.
            word.store(self.published, Ordering::Release);
        }
    }
}

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
        self.up.copy_out(Place::Slot(Ring::Primary, self.slot), self.span.start, &mut bytes[..len]);
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
    /// Over two storages of the same shape.
    pub fn new(down: Mapped, up: Mapped, tuning: Tuning) -> PairMaster {
        let slots = down.layout().shape.slots.min(up.layout().shape.slots);
        PairMaster { down, up, flight: Flight::new(slots, tuning) }
    }

    /// Packets that can be put.
    #[inline]
    pub fn room(&self) -> u32 {
        self.flight.room()
    }

    #[inline]
    fn next(&self, len: usize) -> Option<(Place, Span)> {
        let shape = &self.down.layout().shape;
        let fits = len <= (shape.frame_len() - shape.headroom) as usize;
        if self.room() > FILL_AHEAD {
            self.down.prefetch_fill(self.flight.produced.wrapping_add(FILL_AHEAD));
        }
        let slot = self.flight.produced & (shape.slots - 1);
        let span = Span { start: shape.headroom, len: len as u32 };
        (fits && self.room() > 0).then_some((Place::Slot(Ring::Primary, slot), span))
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
        let Some((place, span)) = self.next(bytes.len()) else { return false };
        self.down.copy_in(place, span.start, bytes);
        self.fill(span);
        true
    }

    /// Puts what came back from another pair: one copy. False when there is no room for it.
    #[inline]
    pub fn put_token(&mut self, token: &PairToken<'_>) -> bool {
        let Some((place, span)) = self.next(token.span.len as usize) else { return false };
        let from = Place::Slot(Ring::Primary, token.slot);
        token.up.copy_across(from, token.span, &self.down, place);
        self.fill(span);
        true
    }

    /// As [`crate::Master::publish`].
    #[inline]
    pub fn publish<B: Bell>(&mut self, bell: &B, now: u64) {
        self.flight.publish(self.down.word(Word::MasterProduced), bell, now);
    }

    /// As [`crate::Master::check_age`].
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

    /// As [`crate::Worker::waiting`].
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

    /// As [`crate::Worker::has_work`].
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
            let (place, span) = (Place::Slot(Ring::Primary, slot), span_of(&head));
            // JUSTIFICATION: functions change packets in place, before they are copied back.
            // SAFETY: the slot lies before the Master's producer index and was not given back, so
            // it is this Worker's; `claim` saw to it that there is only this one, and the mapping
            // is its own.
            let frame = unsafe { self.down.frame_mut(place) };
            if let Some(packet) = frame.get_mut(span.start as usize..).and_then(|rest| {
                let len = rest.len().min(span.len as usize);
                rest.get_mut(..len)
            }) {
                function(packet);
            }
            self.down.copy_across(place, span, &self.up, place);
            let start = self.up.layout().shape.headroom;
            self.up.set_head(Ring::Primary, slot, head_of(Span { start, ..span }));
        }
    }

    /// As [`crate::Worker::advance`].
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

/// A one-way ring of frame numbers: a producer index on a line of its own, then the numbers.
#[derive(Clone)]
pub struct PointerRing {
    region: Arc<Region>,
    slots: u32,
}

/// Where the numbers of a [`PointerRing`] begin, and where the word that claims it is.
const POINTERS: usize = 256;
const CLAIM: usize = 128;

impl PointerRing {
    /// A ring of so many numbers, a power of two.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn create(slots: u32) -> Result<PointerRing, RegionError> {
        let slots = slots.next_power_of_two();
        let region = Region::new(POINTERS + 4 * slots as usize, Pages::Normal)?;
        Ok(PointerRing { region: Arc::new(region), slots })
    }

    fn open(fd: OwnedFd, slots: u32) -> Result<PointerRing, RegionError> {
        let region = Region::open(fd)?;
        let slots = slots.next_power_of_two();
        region.bytes(POINTERS, 4 * slots as usize)?;
        Ok(PointerRing { region: Arc::new(region), slots })
    }

    /// The descriptor to hand to the other side.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd()
    }

    #[inline]
    fn produced(&self) -> &AtomicU32 {
        self.region.word(0).expect("the first word")
    }

    #[inline]
    fn pointer(&self, index: u32) -> &AtomicU32 {
        let slot = (index & (self.slots - 1)) as usize;
        self.region.word(POINTERS + 4 * slot).expect("a slot of the ring")
    }

    fn claim(&self) -> bool {
        let word = self.region.word(CLAIM).expect("a word of the ring");
        word.swap(1, Ordering::Relaxed) == 0
    }
}

/// The Master's end of two rings of frame numbers.
pub struct PointerMaster {
    down: PointerRing,
    up: PointerRing,
    pool: GroupRegion,
    flight: Flight,
}

impl PointerMaster {
    /// Over two rings of one length.
    pub fn new(rings: [PointerRing; 2], pool: GroupRegion, tuning: Tuning) -> PointerMaster {
        let [down, up] = rings;
        let slots = down.slots.min(up.slots);
        PointerMaster { down, up, pool, flight: Flight::new(slots, tuning) }
    }

    /// Numbers that can be put.
    #[inline]
    pub fn room(&self) -> u32 {
        self.flight.room()
    }

    /// Puts a frame's number; false when there is no room.
    #[inline]
    pub fn put(&mut self, frame: u32) -> bool {
        let is_room = self.room() > 0;
        if is_room {
            // Relaxed: `publish` orders it.
            self.down.pointer(self.flight.produced).store(frame, Ordering::Relaxed);
            self.flight.produced = self.flight.produced.wrapping_add(1);
        }
        is_room
    }

    /// As [`crate::Master::publish`].
    #[inline]
    pub fn publish<B: Bell>(&mut self, bell: &B, now: u64) {
        self.flight.publish(self.down.produced(), bell, now);
    }

    /// As [`crate::Master::check_age`].
    #[inline]
    pub fn check_age<B: Bell>(&self, bell: &B, now: u64) {
        self.flight.check_age(bell, now);
    }

    /// Takes what came back, at most `limit` numbers. `reads` says whether `take` looks at the
    /// frames: then their lines are asked for ahead.
    #[inline]
    pub fn poll(&mut self, now: u64, limit: u32, reads: bool, mut take: impl FnMut(u32)) -> u32 {
        let count = self.flight.ready(self.up.produced(), now, limit);
        for nth in 0..count {
            let index = self.flight.consumed.wrapping_add(nth);
            if reads && nth + PREFETCH < count {
                let ahead = self.up.pointer(index.wrapping_add(PREFETCH));
                self.pool.prefetch(ahead.load(Ordering::Relaxed));
            }
            take(self.up.pointer(index).load(Ordering::Relaxed));
        }
        self.flight.consumed = self.flight.consumed.wrapping_add(count);
        count
    }
}

/// The Worker's end of two rings of frame numbers.
pub struct PointerWorker {
    down: PointerRing,
    up: PointerRing,
    pool: GroupRegion,
    shift: Shift,
}

impl PointerWorker {
    /// Opens the rings of so many numbers that a [`PointerMaster`] uses, and frames of a shape,
    /// with mappings of its own.
    ///
    /// # Errors
    /// [`LinkError`]; [`LinkError::Taken`] when another Worker has the rings.
    pub fn open(
        [down, up, pool]: [OwnedFd; 3],
        slots: u32,
        shape: &LinkShape,
        threshold: u32,
    ) -> Result<PointerWorker, LinkError> {
        let pool = GroupRegion::open(pool, shape)?;
        let (down, up) = (PointerRing::open(down, slots)?, PointerRing::open(up, slots)?);
        if !(down.claim() && up.claim()) {
            return Err(LinkError::Taken);
        }
        Ok(PointerWorker { down, up, pool, shift: Shift::new(threshold) })
    }

    /// As [`crate::Worker::waiting`].
    #[inline]
    pub fn waiting(&mut self) -> u32 {
        self.shift.waiting(self.down.produced())
    }

    /// As [`crate::Worker::has_work`].
    #[inline]
    pub fn has_work(&mut self) -> bool {
        self.shift.look(self.down.produced()) > 0
    }

    /// Works on the frames that the first `n` waiting numbers name, and puts the numbers into the
    /// ring back. With no `function`, the frames are not touched.
    #[inline]
    pub fn work(&mut self, n: u32, mut function: Option<impl FnMut(&mut [u8])>) {
        let n = n.min(self.shift.limit.wrapping_sub(self.shift.consumed));
        for nth in 0..n {
            let index = self.shift.consumed.wrapping_add(nth);
            let frame = self.down.pointer(index).load(Ordering::Relaxed);
            if let Some(function) = &mut function {
                if nth + PREFETCH < n {
                    let ahead = self.down.pointer(index.wrapping_add(PREFETCH));
                    self.pool.prefetch(ahead.load(Ordering::Relaxed));
                }
                // JUSTIFICATION: functions change packets in place.
                // SAFETY: a number is in one ring at a time, and who took it out has its frame:
                // that everybody keeps to that is what this baseline trusts everybody for.
                unsafe { self.pool.with_mut(frame, function) };
            }
            // Relaxed: `publish` orders it.
            self.up.pointer(index).store(frame, Ordering::Relaxed);
        }
    }

    /// As [`crate::Worker::advance`].
    #[inline]
    pub fn advance(&mut self, n: u32) {
        self.shift.advance(n, self.up.produced());
    }

    /// Publishes what it is done with.
    #[inline]
    pub fn flush(&mut self) {
        self.shift.publish(self.up.produced());
    }
}
