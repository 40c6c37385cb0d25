//! Pools of frames.
//!
//! A frame is free in exactly one of three places: *fresh* (never used: a counter), the pool's
//! *depot* (a lock-free queue of bundles), or a *thread's cache* (a stack: the frame freed last is
//! still in the processor's cache and is taken first). Threads trade with the depot a bundle at a
//! time, so that a packet costs no atomic operation. Memory that was never used is never touched.

use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::sync::{Mutex, OnceLock};

use crossbeam_queue::ArrayQueue;
use thruway_region::{HUGE_PAGE_LEN, Pages, Region, RegionError};
use thruway_sync::CachePadded;
use thruway_sync::atomic::{AtomicU32, Ordering};

use crate::meta::Meta;

/// Bytes of a small frame, head room included: holds an Ethernet frame of 1,856 bytes.
///
/// PERF: an odd number of lines, so that the beginnings of a batch's frames fall into all sets of a
/// first-level cache. At multiples of 2 kB they share two sets, and with six "colours" twelve: then
/// stores to frames were half of the time of a replay (perf annotate, `bench path --case replay`).
/// AF_XDP takes frames at such distances in its unaligned mode (ADR 9).
pub const SMALL_FRAME: usize = 31 * 64;
/// Bytes of a large frame, head room included: holds the largest IP packet with its link header.
pub const LARGE_FRAME: usize = 72 * 1024;
/// Bytes of a region before its first frame: a chunk of an AF_XDP memory, of 2 kB at least, begins
/// a line before the frame that it ends with.
pub(crate) const LEAD: usize = 2048 - SMALL_FRAME;
/// Least head room of a packet just made, bytes: two lines, for tunnel headers.
pub(crate) const HEADROOM: usize = 128;
/// Small frames unless configured otherwise: 128 MiB of address space, touched as used.
pub const DEFAULT_SMALL: u32 = 65_536;
/// Large frames for every so many small ones.
const SMALL_PER_LARGE: u32 = 128;

/// Frames a thread trades with the depot at once.
pub(crate) const BUNDLE: usize = 64;

/// Number of the pool of small frames.
pub(crate) const SMALL: u8 = 0;
const LARGE: u8 = 1;

/// Bytes that packets may use of a frame, by its pool's number in a metadata line, beside which a
/// mark may stand.
#[inline]
pub(crate) fn frame_size(pool: u8) -> usize {
    if pool & 1 == SMALL { SMALL_FRAME } else { LARGE_FRAME }
}

/// Where a frame begins in its pool's region.
fn frame_offset(pool: u8, index: usize) -> usize {
    LEAD + index * frame_size(pool)
}

/// Where a small frame begins in its pool's region.
#[inline]
pub(crate) fn frame_start(index: usize) -> usize {
    frame_offset(SMALL, index)
}

/// Bytes of a region that holds so many frames.
fn region_len(pool: u8, capacity: u32) -> usize {
    LEAD + capacity as usize * frame_size(pool)
}

/// Frames a thread keeps at most: four bundles cover the largest batch.
const CACHE: usize = 4 * BUNDLE;

/// One thread's free frames of one pool.
pub(crate) struct Cache {
    pub(crate) len: usize,
    pub(crate) frames: [NonNull<Meta>; CACHE],
}

impl Cache {
    pub(crate) const fn new() -> Cache {
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

/// The process's packet memory: a pool of small frames and one of large ones.
///
/// It lives as long as the process: packets outlive configurations (hot swap), and handles need no
/// count of references.
pub struct Memory {
    small: Pool,
    large: Pool,
}

static MEMORY: OnceLock<Memory> = OnceLock::new();

impl Memory {
    /// The packet memory, made with defaults at the first call.
    ///
    /// # Panics
    /// If the system has no memory for even the defaults; [`Memory::configure`] reports instead.
    #[inline]
    pub fn get() -> &'static Memory {
        MEMORY.get_or_init(|| {
            Memory::make(DEFAULT_SMALL, Pages::Normal).expect("no memory for packets")
        })
    }

    /// Makes the packet memory with defaults, unless it is made, so that packets need not.
    ///
    /// # Errors
    /// When the system has no such memory.
    pub fn prepare() -> Result<(), RegionError> {
        if MEMORY.get().is_none() {
            Memory::configure(DEFAULT_SMALL, Pages::Normal)?;
        }
        Ok(())
    }

    /// Sets the number of small frames and the page size, once, before the first packet.
    /// False when the memory is in use already.
    ///
    /// # Errors
    /// When the system has no such memory.
    pub fn configure(small_frames: u32, pages: Pages) -> Result<bool, RegionError> {
        let memory = Memory::make(small_frames, pages)?;
        Ok(MEMORY.set(memory).is_ok())
    }

    fn make(small: u32, pages: Pages) -> Result<Memory, RegionError> {
        let large = (small / SMALL_PER_LARGE).max(64);
        // Large frames are rare; huge pages would be spent on air.
        let large_pages = if pages == Pages::Private { pages } else { Pages::Normal };
        Ok(Memory {
            small: Pool::new(SMALL, small.max(BUNDLE as u32), pages)?,
            large: Pool::new(LARGE, large, large_pages)?,
        })
    }

    /// The pool of small frames.
    #[inline]
    pub fn small(&'static self) -> &'static Pool {
        &self.small
    }

    /// The pool of large frames.
    pub fn large(&'static self) -> &'static Pool {
        &self.large
    }

    pub(crate) fn pool(&'static self, id: u8) -> &'static Pool {
        if id == SMALL { &self.small } else { &self.large }
    }
}

/// A number of equal frames with their metadata lines.
pub struct Pool {
    region: Region,
    metas: NonNull<Meta>,
    id: u8,
    capacity: u32,
    /// Frames below were used at least once. Alone on its line: every thread's refill writes it.
    fresh: CachePadded<AtomicU32>,
    depot: ArrayQueue<[NonNull<Meta>; BUNDLE]>,
    /// Frames from the caches of threads that ended; never touched by a packet.
    orphans: Mutex<Vec<NonNull<Meta>>>,
}

// SAFETY: the raw pointers refer to free frames. A thread that pops one from `depot` or `orphans`,
// or draws its number from `fresh`, is its only owner.
unsafe impl Send for Pool {}
// SAFETY: as for Send; all shared fields synchronise themselves.
unsafe impl Sync for Pool {}

/// Counts of a pool's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStats {
    /// Frames there are.
    pub capacity: u32,
    /// Frames ever used: the rest costs no memory.
    pub touched: u32,
    /// Bytes per frame.
    pub frame_len: usize,
    /// Page size of the memory under them.
    pub pages: Pages,
}

impl Pool {
    fn new(id: u8, capacity: u32, pages: Pages) -> Result<Pool, RegionError> {
        let region = Region::new(region_len(id, capacity), pages)?;
        let layout = Layout::array::<Meta>(capacity as usize)
            .map_err(|_| RegionError::BadLength { len: capacity as usize })?;
        // JUSTIFICATION: zeroed pages straight from the system cost nothing until touched.
        // SAFETY: the layout is not empty (capacity is at least a bundle).
        let metas = unsafe { alloc_zeroed(layout) };
        let metas =
            NonNull::new(metas.cast::<Meta>()).unwrap_or_else(|| handle_alloc_error(layout));
        Ok(Pool {
            region,
            metas,
            id,
            capacity,
            fresh: CachePadded(AtomicU32::new(0)),
            depot: ArrayQueue::new(capacity as usize / BUNDLE + 1),
            orphans: Mutex::new(Vec::new()),
        })
    }

    /// How many frames there are and were used.
    pub fn stats(&self) -> PoolStats {
        PoolStats {
            capacity: self.capacity,
            touched: self.fresh.0.load(Ordering::Relaxed).min(self.capacity),
            frame_len: frame_size(self.id),
            pages: self.region.pages(),
        }
    }

    /// The memory under the frames, for registration with a device that reads and writes lent
    /// frames: the first byte (aligned to a page) and the length in bytes (whole pages).
    pub fn memory(&self) -> (NonNull<u8>, usize) {
        (self.region.as_ptr(), self.region.len())
    }

    /// Its number in metadata lines.
    #[inline]
    pub(crate) fn id(&self) -> u8 {
        self.id
    }

    /// Number of frames.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Number of the frame of a metadata line of this pool.
    #[inline]
    pub(crate) fn index_of(&self, meta: NonNull<Meta>) -> usize {
        (meta.as_ptr().addr() - self.metas.as_ptr().addr()) / size_of::<Meta>()
    }

    /// The metadata line of a frame. `index` is below the capacity.
    #[inline]
    pub(crate) fn line_of(&self, index: usize) -> NonNull<Meta> {
        debug_assert!(index < self.capacity());
        // JUSTIFICATION: lines are an array reached by index.
        // SAFETY: index < capacity, the array's length (every caller tests it).
        unsafe { self.metas.add(index) }
    }

    /// The frame around a place of the region, and the place's distance from the frame's start.
    #[inline]
    pub(crate) fn frame_around(&self, offset: u64) -> Option<(usize, usize)> {
        let offset = usize::try_from(offset).ok()?.checked_sub(LEAD)?;
        let index = offset / frame_size(self.id);
        (index < self.capacity()).then(|| (index, offset - index * frame_size(self.id)))
    }

    /// Whether a frame is contiguous for a device that uses physical pages: neither the frame nor
    /// the line before it, where its chunk begins, crosses from one huge page to the next. Normal
    /// pages do not matter: no device gets them.
    fn is_in_one_page(&self, index: u32) -> bool {
        let first = frame_offset(self.id, index as usize) - LEAD;
        let last = first + LEAD + frame_size(self.id) - 1;
        self.region.pages() != Pages::Huge || first / HUGE_PAGE_LEN == last / HUGE_PAGE_LEN
    }

    /// Fills an empty cache from the depot, else from fresh frames, else from orphans.
    #[cold]
    pub(crate) fn refill(&self, cache: &mut Cache) {
        if let Some(bundle) = self.depot.pop() {
            cache.frames[..BUNDLE].copy_from_slice(&bundle);
            cache.len = BUNDLE;
            return;
        }
        let step = BUNDLE as u32;
        // Relaxed: the number alone is the frame's ownership; its line is written by this thread.
        let first = self.fresh.0.load(Ordering::Relaxed);
        if first < self.capacity {
            let first = self.fresh.0.fetch_add(step, Ordering::Relaxed);
            for index in first..self.capacity.min(first.saturating_add(step)) {
                if self.id == SMALL && !self.is_in_one_page(index) {
                    continue;
                }
                cache.frames[cache.len] = self.first_use(index);
                cache.len += 1;
            }
        }
        if cache.len == 0 {
            let mut orphans = self.orphans.lock().unwrap_or_else(|poison| poison.into_inner());
            while cache.len < BUNDLE
                && let Some(meta) = orphans.pop()
            {
                cache.frames[cache.len] = meta;
                cache.len += 1;
            }
        }
    }

    /// Initialises the line of a frame that was never used.
    fn first_use(&self, index: u32) -> NonNull<Meta> {
        // JUSTIFICATION: lines and frames are arrays reached by index.
        // SAFETY: index < capacity, the length of both arrays.
        let (meta, buffer) = unsafe {
            let at = index as usize;
            (self.metas.add(at), self.region.as_ptr().add(frame_offset(self.id, at)))
        };
        let line = meta.as_ptr();
        // SAFETY: this thread drew `index`, so no other thread has the line. Its bytes are zero, as
        // any field may be but the pointer: it is a valid Meta afterwards.
        unsafe {
            (&raw mut (*line).buffer).write(buffer);
            (&raw mut (*line).pool).write(self.id);
        }
        meta
    }

    /// Takes a full cache's oldest bundle back; the newest frames stay, their lines are warm.
    #[cold]
    pub(crate) fn give_back(&self, cache: &mut Cache) {
        let mut bundle = [NonNull::dangling(); BUNDLE];
        bundle.copy_from_slice(&cache.frames[..BUNDLE]);
        cache.frames.copy_within(BUNDLE.., 0);
        cache.len -= BUNDLE;
        if let Err(bundle) = self.depot.push(bundle) {
            self.adopt(&bundle);
        }
    }

    /// Takes odd numbers of frames from a thread that ends, and bundles them for the others.
    #[cold]
    pub(crate) fn adopt(&self, frames: &[NonNull<Meta>]) {
        let mut orphans = self.orphans.lock().unwrap_or_else(|poison| poison.into_inner());
        orphans.extend_from_slice(frames);
        while let Some(bundle) = orphans.last_chunk::<BUNDLE>().copied() {
            if self.depot.push(bundle).is_err() {
                return;
            }
            let rest = orphans.len() - BUNDLE;
            orphans.truncate(rest);
        }
    }
}
