//! Packets of a trust group: their bytes lie in the group's frames, and slots hold descriptors.

use std::sync::Mutex;

use thruway_exchange::{GroupRegion, Mapped, Master, Refusal, SlotTag, Span, Storage};

/// Free frames of a trust group's region that one thread hands out to all members that it runs.
#[derive(Debug)]
pub(super) struct Frames {
    pub region: GroupRegion,
    free: Mutex<Vec<u32>>,
}

impl Frames {
    /// The frames from `first` on, so many.
    pub fn new(region: GroupRegion, first: u32, count: u32) -> Frames {
        Frames { region, free: Mutex::new((first..first + count).rev().collect()) }
    }

    /// All users are elements of one thread: the lock is never waited for.
    pub fn with<T>(&self, f: impl FnOnce(&mut Vec<u32>) -> T) -> T {
        f(&mut self.free.lock().unwrap_or_else(|poison| poison.into_inner()))
    }
}

/// A slot's frame of the group's region, and where in it the packet lay when it was put.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Framed {
    pub frame: u32,
    pub start: u32,
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
    frames: &Frames,
    of_slot: &mut [Framed],
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
    let frame = frames.with(Vec::pop).ok_or(Unput::NoFrame)?;
    frames.region.copy_in(frame, shape.headroom, first);
    frames.region.copy_in(frame, shape.headroom + first.len() as u32, rest);
    let span = Span { start: shape.headroom, len: len as u32 };
    let slot = master.put_frame(mark, frame, span)?;
    of_slot[slot as usize] = Framed { frame, start: shape.headroom };
    Ok(slot)
}
