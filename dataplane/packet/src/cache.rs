//! Each thread's free frames, in front of the pools: taken and freed without an atomic operation.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use crate::mark;
use crate::meta::Meta;
use crate::pool::{Cache, Memory, SMALL};

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

/// Runs `f` on this thread's caches, by their pools' numbers; `None` when the thread is ending and
/// has none any more.
#[inline]
pub(crate) fn with_caches<T>(f: impl FnOnce(&mut [Cache; 2]) -> T) -> Option<T> {
    CACHES
        .try_with(|caches| {
            // JUSTIFICATION: avoids a RefCell's check on every packet, for a conflict that cannot
            // happen.
            // SAFETY: only this thread reaches its cell, and no `f` here calls back into this
            // function (they move pointers and trade bundles), so the borrow is unique.
            let caches = unsafe { &mut *caches.get() };
            f(&mut caches.0)
        })
        .ok()
}

/// Runs `f` on this thread's cache of one pool; `None` as in [`with_caches`].
#[inline]
pub(crate) fn with_cache<T>(pool: u8, f: impl FnOnce(&mut Cache) -> T) -> Option<T> {
    with_caches(|caches| f(&mut caches[usize::from(pool & 1)]))
}

/// Gives one frame back.
#[inline]
pub(crate) fn release_one(meta: NonNull<Meta>) {
    // JUSTIFICATION: the line is reached by pointer.
    // SAFETY: the caller owned the frame, so its line is initialised and no other thread writes it.
    let pool = unsafe { meta.as_ref() }.pool;
    if pool == SMALL { release_to(SMALL, meta) } else { release_cold(meta) }
}

#[inline]
fn release_to(id: u8, meta: NonNull<Meta>) {
    if with_cache(id, |cache| cache.push(meta, || Memory::get().pool(id))).is_none() {
        Memory::get().pool(id).adopt(&[meta]);
    }
}

/// Gives back a large frame, or that of a marked packet.
#[cold]
fn release_cold(mut meta: NonNull<Meta>) {
    // JUSTIFICATION: the line is reached by pointer.
    // SAFETY: the caller owned the frame and gave it up to be freed here, so this is its only user;
    // its line is initialised.
    let line = unsafe { meta.as_mut() };
    mark::unmark(line);
    release_to(line.pool, meta);
}
