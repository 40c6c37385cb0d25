//! Each thread's free frames, in front of the pools: what is taken and freed without an atomic
//! operation.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use crate::mark;
use crate::meta::Meta;
use crate::packet::Packet;
use crate::pool::{BUNDLE, Memory, Pool, SMALL};

/// Frames a thread keeps at most: four bundles cover the largest batch.
const CACHE: usize = 4 * BUNDLE;

/// One thread's free frames of one pool.
pub(crate) struct Cache {
    pub(crate) len: usize,
    pub(crate) frames: [NonNull<Meta>; CACHE],
}

impl Cache {
    const fn new() -> Cache {
        Cache { len: 0, frames: [NonNull::dangling(); CACHE] }
    }

    #[inline]
    pub(crate) fn pop(&mut self, pool: &Pool) -> Option<NonNull<Meta>> {
        if self.len == 0 {
            pool.refill(self);
        }
        self.len = self.len.checked_sub(1)?;
        Some(self.frames[self.len])
    }

    #[inline]
    pub(crate) fn push(&mut self, meta: NonNull<Meta>, pool: impl Fn() -> &'static Pool) {
        if self.len == CACHE {
            pool().give_back(self);
        }
        self.frames[self.len] = meta;
        self.len += 1;
    }
}

struct Caches([Cache; 2]);

impl Drop for Caches {
    fn drop(&mut self) {
        for (id, cache) in self.0.iter().enumerate() {
            if cache.len > 0 {
                Memory::get().pool(id as u8).adopt(&cache.frames[..cache.len]);
            }
        }
    }
}

thread_local! {
    static CACHES: UnsafeCell<Caches> =
        const { UnsafeCell::new(Caches([Cache::new(), Cache::new()])) };
}

/// Runs `f` on this thread's cache; `None` when the thread is ending and has no cache any more.
#[inline]
pub(crate) fn with_cache<T>(pool: u8, f: impl FnOnce(&mut Cache) -> T) -> Option<T> {
    CACHES
        .try_with(|caches| {
            // JUSTIFICATION: a RefCell's check on every packet, for what cannot happen.
            // SAFETY: only this thread reaches its cell, and no `f` here calls back into this
            // function (they move pointers and trade bundles), so the borrow is unique.
            let caches = unsafe { &mut *caches.get() };
            f(&mut caches.0[usize::from(pool & 1)])
        })
        .ok()
}

/// Adds up to `count` packets of small frames, of old content, and says how many: fewer only when
/// there are no more. One look at the thread's cache for all of them.
#[inline]
pub(crate) fn take_many(packets: &mut Vec<Packet>, count: usize) -> usize {
    let pool = Memory::get().small();
    packets.reserve(count);
    with_cache(SMALL, |cache| {
        if let Some(rest) = cache.len.checked_sub(count) {
            let top = cache.frames[rest..cache.len].iter();
            // JUSTIFICATION: a packet is a pointer to its line.
            // SAFETY: the frames are taken off the free ones by the next line, so no other Packet
            // has them; their lines are initialised, with extents inside their frames.
            packets.extend(top.map(|meta| unsafe { Packet::from_meta(*meta) }));
            cache.len = rest;
            return count;
        }
        for made in 0..count {
            let Some(meta) = cache.pop(pool) else { return made };
            // JUSTIFICATION: a packet is a pointer to its line.
            // SAFETY: popped from the free frames, so no other Packet has it; its line is
            // initialised (`first_use` or an earlier packet), with an extent inside the frame.
            packets.push(unsafe { Packet::from_meta(meta) });
        }
        count
    })
    .unwrap_or(0)
}

/// Gives one frame back.
#[inline]
pub(crate) fn release_one(meta: NonNull<Meta>) {
    // JUSTIFICATION: the line is reached by pointer.
    // SAFETY: the caller owned the frame, so its line is initialised and nobody writes it.
    let pool = unsafe { meta.as_ref() }.pool;
    if pool == SMALL { release_to(SMALL, meta) } else { mark::release(meta) }
}

#[inline]
pub(crate) fn release_to(id: u8, meta: NonNull<Meta>) {
    if with_cache(id, |cache| cache.push(meta, || Memory::get().pool(id))).is_none() {
        Memory::get().pool(id).adopt(&[meta]);
    }
}

/// Gives many frames back with one look at the thread's cache.
#[inline]
pub(crate) fn release_all(packets: &mut Vec<Packet>) {
    let released = CACHES.try_with(|caches| {
        // JUSTIFICATION: as in `with_cache`.
        // SAFETY: as in `with_cache`; the loop moves pointers and trades bundles only.
        let caches = unsafe { &mut *caches.get() };
        if release_small(packets, &mut caches.0[usize::from(SMALL)]) {
            return;
        }
        for mut packet in packets.drain(..) {
            mark::unmark(packet.meta_mut());
            let id = packet.meta().pool;
            let meta = packet.into_meta();
            caches.0[usize::from(id & 1)].push(meta, || Memory::get().pool(id));
        }
    });
    if released.is_err() {
        packets.clear();
    }
}

/// Gives all frames back at once, if all are small and the cache has room; else false.
#[inline]
fn release_small(packets: &mut Vec<Packet>, cache: &mut Cache) -> bool {
    let count = packets.len();
    let Some(free) = cache.frames[cache.len..].get_mut(..count) else { return false };
    // No branch per packet: all are small as a rule.
    if packets.iter().fold(SMALL, |all, packet| all | packet.meta().pool) != SMALL {
        return false;
    }
    for (slot, packet) in free.iter_mut().zip(packets.iter()) {
        *slot = packet.line();
    }
    // JUSTIFICATION: draining moves each packet out by itself, 1 ns a packet.
    // SAFETY: fewer than before; the packets beyond are given up without being dropped: their
    // frames are free from here on, held by the cache alone.
    unsafe { packets.set_len(0) };
    cache.len += count;
    true
}
