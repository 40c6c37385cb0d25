//! Packets of a trust group: their bytes lie in the group's frames, and slots hold descriptors.

use std::sync::{Arc, Mutex};

use thruway_exchange::{GroupRegion, Mapped, Master, Refusal, SlotTag, Span, Storage};

/// Free frames of a trust group's region that one thread hands out to all members that it runs.
#[derive(Debug)]
pub(super) struct Frames {
    pub region: GroupRegion,
    count: u32,
    free: Mutex<Vec<u32>>,
    /// Whose frames these were, and are again when nobody uses these any more.
    lender: Option<Arc<Frames>>,
}

impl Frames {
    /// The frames from `first` on, so many.
    pub fn new(region: GroupRegion, first: u32, count: u32) -> Frames {
        let free = Mutex::new((first..first + count).rev().collect());
        Frames { region, count, free, lender: None }
    }

    /// Half of the free frames of another thread, which go back to it with the last user; `None` if
    /// it has none to give.
    pub fn lent(lender: &Arc<Frames>) -> Option<Frames> {
        let free = lender.with(|all| all.split_off(all.len().div_ceil(2)));
        let (region, count) = (lender.region.clone(), free.len() as u32);
        let lender = Some(Arc::clone(lender));
        (count > 0).then(|| Frames { region, count, free: Mutex::new(free), lender })
    }

    /// Frames that are free now.
    pub fn free_count(&self) -> usize {
        self.with(|all| all.len())
    }

    /// All users are elements of one thread, but while a configuration takes over: the lock is
    /// never waited for.
    fn with<T>(&self, f: impl FnOnce(&mut Vec<u32>) -> T) -> T {
        f(&mut self.free.lock().unwrap_or_else(|poison| poison.into_inner()))
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        if let Some(lender) = &self.lender {
            let mut free = self.with(std::mem::take);
            lender.with(|all| all.append(&mut free));
        }
    }
}

/// A slot's frame of the group's region, and where in it the packet lay when it was put.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Framed {
    pub frame: u32,
    pub start: u32,
}

/// Most free frames that a link keeps to itself.
const STOCK_MAX: usize = 64;

/// What a link has of its thread's frames: some that are free, and each slot's.
///
/// PERF: the lock of [`Frames`] is taken once for many packets; it was 30 ns of each packet.
pub(super) struct Lot {
    pub frames: Arc<Frames>,
    of_slot: Box<[Framed]>,
    free: Vec<u32>,
    /// How many free ones it keeps, few where the thread has few in all.
    keeps: usize,
}

impl Lot {
    /// Of a link with so many slots.
    pub fn new(frames: Arc<Frames>, slots: usize) -> Lot {
        let keeps = (frames.count as usize / 32).clamp(2, STOCK_MAX);
        Lot {
            frames,
            of_slot: vec![Framed::default(); slots].into_boxed_slice(),
            free: Vec::with_capacity(keeps),
            keeps,
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        if self.free.is_empty() {
            self.fetch();
        }
        self.free.pop()
    }

    #[cold]
    fn fetch(&mut self) {
        let (free, few) = (&mut self.free, self.keeps / 2);
        self.frames.with(|all| free.extend(all.drain(all.len().saturating_sub(few)..)));
    }

    #[inline]
    fn push(&mut self, Framed { frame, start }: Framed) {
        if self.free.len() == self.keeps {
            let (free, few) = (&mut self.free, self.keeps / 2);
            self.frames.with(|all| all.extend(free.drain(..few)));
        }
        self.free.push(frame);
        // It is filled next, and the last that had it was another core.
        self.frames.region.prefetch_fill(frame, start);
    }

    /// A slot's frame.
    #[inline]
    pub fn of(&self, slot: u32) -> Framed {
        self.of_slot.get(slot as usize).copied().unwrap_or_default()
    }

    /// Notes a slot's frame.
    #[inline]
    pub fn note(&mut self, slot: u32, framed: Framed) {
        if let Some(place) = self.of_slot.get_mut(slot as usize) {
            *place = framed;
        }
    }

    /// A slot's frame is free.
    #[inline]
    pub fn free(&mut self, slot: u32) {
        self.push(self.of(slot));
    }
}

impl Drop for Lot {
    fn drop(&mut self) {
        self.frames.with(|all| all.append(&mut self.free));
    }
}

/// Why [`put_framed`] did not.
pub(super) enum Unput {
    Refusal(Refusal),
    NoFrame,
}

impl From<Refusal> for Unput {
    fn from(refusal: Refusal) -> Unput {
        Unput::Refusal(refusal)
    }
}

/// Puts a packet by way of a frame of the group's region.
pub(super) fn put_framed(
    master: &mut Master<Mapped>,
    lot: &mut Lot,
    mark: SlotTag,
    [first, rest]: [&[u8]; 2],
) -> Result<u32, Unput> {
    let shape = master.storage().layout().shape;
    let len = first.len() + rest.len();
    if len > (shape.frame_len() - shape.headroom) as usize {
        return Err(Refusal::TooLong.into());
    }
    if master.room() == 0 {
        return Err(Refusal::Full.into());
    }
    let frame = lot.pop().ok_or(Unput::NoFrame)?;
    let region = &lot.frames.region;
    region.copy_in(frame, shape.headroom, first);
    region.copy_in(frame, shape.headroom + first.len() as u32, rest);
    let span = Span { start: shape.headroom, len: len as u32 };
    let slot = master.put_frame(mark, frame, span)?;
    lot.note(slot, Framed { frame, start: shape.headroom });
    Ok(slot)
}
