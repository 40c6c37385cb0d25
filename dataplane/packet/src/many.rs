//! Many packets at once, taken and freed with one look at the thread's caches.

use crate::cache::{with_cache, with_caches};
use crate::mark;
use crate::packet::Packet;
use crate::pool::{Cache, Memory, SMALL};

/// Adds up to `count` packets of small frames, with old content; returns the number added: fewer
/// only when there are no more. One look at the thread's cache for all of them.
#[inline]
pub(crate) fn take_many(packets: &mut Vec<Packet>, count: usize) -> usize {
    let pool = Memory::get().small();
    packets.reserve(count);
    with_cache(SMALL, |cache| {
        if let Some(rest) = cache.len.checked_sub(count) {
            let top = cache.frames[rest..cache.len].iter();
            // JUSTIFICATION: a packet is a pointer to its line. SAFETY: the next line removes the
            // frames from the free ones, so no other Packet has them; their lines are initialised,
            // with extents inside their frames.
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

/// Gives many frames back with one look at the thread's cache.
#[inline]
pub(crate) fn release_all(packets: &mut Vec<Packet>) {
    let released = with_caches(|caches| {
        if release_small(packets, &mut caches[usize::from(SMALL)]) {
            return;
        }
        for mut packet in packets.drain(..) {
            mark::unmark(packet.meta_mut());
            let id = packet.meta().pool;
            let meta = packet.into_meta();
            caches[usize::from(id & 1)].push(meta, || Memory::get().pool(id));
        }
    });
    if released.is_none() {
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
