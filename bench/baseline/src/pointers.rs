//! Two one-way rings of frame numbers, and frames that all share.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use thruway_exchange::{Bell, GroupRegion, LinkError, PREFETCH, Tuning};
use thruway_nf_abi::LinkShape;
use thruway_region::{Pages, Region, RegionError};
use thruway_sync::atomic::{AtomicU32, Ordering};

use super::{Flight, Shift};

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
    /// Over two rings of one length; with `shared_indices`, the Worker's index is read at every
    /// poll.
    pub fn new(
        [down, up]: [PointerRing; 2],
        pool: GroupRegion,
        tuning: Tuning,
        shared_indices: bool,
    ) -> PointerMaster {
        let slots = down.slots.min(up.slots);
        PointerMaster { down, up, pool, flight: Flight::new(slots, tuning, shared_indices) }
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

    /// As [`thruway_exchange::Master::publish`].
    #[inline]
    pub fn publish<B: Bell>(&mut self, bell: &B, now: u64) {
        self.flight.publish(self.down.produced(), bell, now);
    }

    /// As [`thruway_exchange::Master::check_age`].
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

    /// As [`thruway_exchange::Worker::waiting`].
    #[inline]
    pub fn waiting(&mut self) -> u32 {
        self.shift.waiting(self.down.produced())
    }

    /// As [`thruway_exchange::Worker::has_work`].
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
                // SAFETY: a number is in one ring at a time, and its taker owns the frame:
                // that everybody keeps to that is what this baseline trusts everybody for.
                unsafe { self.pool.with_mut(frame, function) };
            }
            // Relaxed: `publish` orders it.
            self.up.pointer(index).store(frame, Ordering::Relaxed);
        }
    }

    /// As [`thruway_exchange::Worker::advance`].
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
