//! Ownership of frames: pools, batches, metadata.
//!
//! A frame lives in a [`Pool`]'s region; beside the region, in private memory that no isolated
//! function can reach, stands one 64-byte metadata line per frame. A [`Packet`] is the owning
//! handle of one frame: there is exactly one, it cannot be copied, and dropping it gives the frame
//! back. Functions pass packets in [`Batch`]es.
//!
//! *Absent here:* reference counts. A frame has one owner; an element that needs two packets copies
//! ([`Packet::duplicate`]), so rewriting in place never needs to ask.

mod anno;
mod batch;
mod cache;
mod carry;
mod frames;
mod headers;
mod image;
pub mod lanes;
mod lend;
mod many;
mod mark;
mod marked;
mod meta;
mod packet;
mod pool;
mod ring;

pub use anno::Anno;
pub use batch::{Batch, MAX_BATCH};
pub use carry::{CARRIED_LEN, CARRIED_WORDS, carried_bytes, carried_words};
pub use frames::{Extent, Frames};
pub use image::{Image, Marks};
pub use lend::Lending;
pub use mark::{End, MARKS_MAX, Mark, forget_watchers, take_ends, unmarked_copies};
pub use meta::PacketKind;
pub use packet::{Packet, prefetch_bytes};
pub use pool::{DEFAULT_SMALL, LARGE_FRAME, Memory, Pool, PoolStats, SMALL_FRAME};
pub use ring::{PacketConsumer, PacketProducer, packet_ring};
pub use thruway_region::fallible;

/// The processor's cycle counter (time stamp counter), for statistics; 0 if the processor has none.
#[inline]
pub fn cycles() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // JUSTIFICATION: statistics stay on, so reading the clock must cost some 20 cycles, no call.
    // SAFETY: every x86-64 processor has the instruction; it only writes registers.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}
