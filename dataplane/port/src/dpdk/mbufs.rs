//! DPDK's mbufs, one for each frame of the packet pool for ever; and the pool that DPDK takes them
//! from, which is the packet pool.

use super::messages::{logged, wrong};
use super::sys::{self, FrameCalls, MBUF_FIRST, MBUF_STRIDE, Mbuf, Memory, TextBuffer};
use crate::error::PortError;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::NonNull;
use std::slice;
use std::sync::OnceLock;
use thruway_packet::Frames;
use thruway_region::{HUGE_PAGE_LEN, Pages, Region};

/// Bytes of a normal page.
const PAGE_LEN: usize = 4096;

/// Where mbufs are, and which frame each one has.
#[derive(Clone, Copy)]
pub(super) struct Table {
    base: NonNull<u8>,
    pub(super) frames: Frames,
}

// SAFETY: the pointer is the address of memory that is never freed; this type does
// not decide about the owners of mbufs.
unsafe impl Send for Table {}
// SAFETY: as for Send.
unsafe impl Sync for Table {}

/// For the calls that DPDK makes.
static TABLE: OnceLock<Table> = OnceLock::new();

impl Table {
    /// The mbuf of a frame.
    #[inline]
    pub(super) fn mbuf(&self, number: usize) -> NonNull<Mbuf> {
        debug_assert!(number < self.frames.count());
        // JUSTIFICATION: mbufs are an array reached by index.
        // SAFETY: the number is below the count (every caller has it of the pool), for which there
        // is memory.
        unsafe { self.base.add(MBUF_FIRST + number * MBUF_STRIDE) }.cast()
    }

    /// The number of an mbuf's frame.
    #[inline]
    pub(super) fn number(&self, mbuf: NonNull<Mbuf>) -> usize {
        (mbuf.as_ptr().addr() - MBUF_FIRST - self.base.as_ptr().addr()) / MBUF_STRIDE
    }

    /// Whether this is one of the table's mbufs.
    #[inline]
    pub(super) fn has(&self, mbuf: NonNull<Mbuf>) -> bool {
        let slot = mbuf.as_ptr().addr().wrapping_sub(MBUF_FIRST + self.base.as_ptr().addr());
        slot < self.frames.count() * MBUF_STRIDE
    }
}

/// See the module's description.
pub(super) struct Mbufs {
    table: Table,
    memory: Memory,
    pool: NonNull<c_void>,
    /// Under the mbufs.
    _region: Region,
}

// SAFETY: what is pointed to lives as long as the process and is not changed through this type.
unsafe impl Send for Mbufs {}
// SAFETY: as for Send.
unsafe impl Sync for Mbufs {}

impl Mbufs {
    /// Makes them. The EAL runs.
    pub(super) fn make(frames: Frames) -> Result<Mbufs, PortError> {
        // JUSTIFICATION: a function of the shim.
        // SAFETY: it has no preconditions.
        if unsafe { sys::tw_iova_is_va() } == 0 {
            return Err(wrong(
                "DPDK was started with physical addresses (--iova-mode=pa); devices get the \
                 frames by their virtual ones: leave that argument, and bind devices to vfio-pci",
            ));
        }
        let mbufs_len = frames.count() * MBUF_STRIDE;
        let region = Region::new(mbufs_len, Pages::PreferHuge)
            .map_err(|error| wrong(format!("no memory for DPDK's mbufs: {error}")))?;
        let base = region.as_ptr();
        let table = *TABLE.get_or_init(|| Table { base, frames });
        let (start, region_len) = frames.pool().memory();
        let page_len = match frames.pool().stats().pages {
            Pages::Huge => HUGE_PAGE_LEN,
            _ => PAGE_LEN,
        };
        let memory = Memory {
            region: start.as_ptr(),
            region_len,
            page_len,
            first: Frames::offset(0),
            stride: Frames::LEN,
            count: frames.count() as u32,
            mbufs: base.as_ptr(),
            mbufs_len,
        };
        let mut room = TextBuffer::new();
        let calls = FrameCalls { take, give };
        // JUSTIFICATION: a function of the shim.
        // SAFETY: both memories are as long as said and live as long as the process (the packet
        // memory is never given back, the mbufs' region goes into a static, or no pool was made).
        let pool = unsafe { sys::tw_frames_pool(&memory, calls, room.text()) };
        let pool = NonNull::new(pool).ok_or_else(|| {
            wrong(format!(
                "DPDK does not take the packet memory: {}{}",
                room.into_string(),
                logged()
            ))
        })?;
        Ok(Mbufs { table, memory, pool, _region: region })
    }

    pub(super) fn table(&self) -> Table {
        self.table
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(super) fn pool(&self) -> *mut c_void {
        self.pool.as_ptr()
    }
}

/// DPDK wants mbufs: all of them or none. Called from any thread.
extern "C" fn take(mbufs: *mut NonNull<Mbuf>, count: c_uint) -> c_int {
    let Some(table) = TABLE.get() else { return -libc::ENOENT };
    // JUSTIFICATION: DPDK's array.
    // SAFETY: DPDK gives an array with room for so many, which is its own; pointers are written
    // there only.
    let slots =
        unsafe { slice::from_raw_parts_mut(mbufs.cast::<Option<NonNull<Mbuf>>>(), count as usize) };
    let mut free = slots.iter_mut();
    let taken = table.frames.take(count as usize, |number| {
        if let Some(slot) = free.next() {
            *slot = Some(table.mbuf(number));
        }
    });
    if taken == count as usize {
        return 0;
    }
    let numbers = slots[..taken].iter().flatten().map(|mbuf| table.number(*mbuf));
    // JUSTIFICATION: half of what is asked for is of no use.
    // SAFETY: they were just taken, and nobody has seen them.
    unsafe { table.frames.free(numbers) };
    -libc::ENOBUFS
}

/// DPDK has mbufs that nobody uses. Called from any thread.
extern "C" fn give(mbufs: *const NonNull<Mbuf>, count: c_uint) {
    let Some(table) = TABLE.get() else { return };
    // JUSTIFICATION: DPDK's array.
    // SAFETY: DPDK gives an array of so many pointers to mbufs of its pool.
    let mbufs = unsafe { slice::from_raw_parts(mbufs, count as usize) };
    // JUSTIFICATION: DPDK keeps count of its mbufs.
    // SAFETY: whatever is in DPDK's pool was taken (`take`) or sent (`Sender`), and comes back when
    // the last user has freed it.
    unsafe { table.frames.free(mbufs.iter().map(|mbuf| table.number(*mbuf))) };
}
