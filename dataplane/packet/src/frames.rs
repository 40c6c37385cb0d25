//! Frames by number, for a library of this process that accounts for them itself, as a driver with
//! its own pools does. Unlike a [`Lending`](crate::Lending), this module does not record the holder
//! of a frame, so several threads may give and take at once, and one thread may return a frame that
//! another one took.

use crate::cache;
use crate::meta::PacketKind;
use crate::packet::Packet;
use crate::pool::{self, Memory, Pool, SMALL, SMALL_FRAME};

/// Position of a packet in a frame that was given away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Number of its frame.
    pub number: usize,
    /// Where its bytes begin, from the frame's start.
    pub start: u16,
    /// Length in bytes.
    pub len: u16,
}

/// The frames of the pool of small frames.
#[derive(Clone, Copy)]
pub struct Frames {
    pool: &'static Pool,
}

impl Frames {
    /// Bytes of a frame.
    pub const LEN: usize = SMALL_FRAME;

    /// The frames of the process's packet memory.
    pub fn small() -> Frames {
        Frames { pool: Memory::get().small() }
    }

    /// The pool of these frames.
    pub fn pool(&self) -> &'static Pool {
        self.pool
    }

    /// How many there are; numbers are below.
    pub fn count(&self) -> usize {
        self.pool.capacity()
    }

    /// Where a frame begins, in bytes from the start of the pool's [memory](Pool::memory).
    pub fn offset(number: usize) -> usize {
        pool::frame_start(number)
    }

    /// Takes up to `count` free frames and passes the number of each to `give`; returns how many:
    /// fewer when there are no more. They are the caller's until [`free`](Self::free) or
    /// [`packet`](Self::packet).
    #[inline]
    pub fn take(&self, count: usize, mut give: impl FnMut(usize)) -> usize {
        cache::with_cache(SMALL, |cache| {
            for taken in 0..count {
                let Some(meta) = cache.pop(self.pool) else { return taken };
                give(self.pool.index_of(meta));
            }
            count
        })
        .unwrap_or(0)
    }

    /// Frees frames.
    ///
    /// # Safety
    /// Each number came from [`take`](Self::take) or [`give`](Self::give), and no one uses that
    /// frame any more.
    #[inline]
    pub unsafe fn free(&self, numbers: impl Iterator<Item = usize>) {
        let mut lines = numbers.map(|number| self.pool.line_of(number));
        let freed = cache::with_cache(SMALL, |cache| {
            for line in &mut lines {
                cache.push(line, || self.pool);
            }
        });
        if freed.is_none() {
            // The thread is ending.
            self.pool.adopt(&lines.collect::<Vec<_>>());
        }
    }

    /// Gives a packet's frame away, and returns the packet's position in it.
    ///
    /// # Errors
    /// The packet, when its frame is a large one.
    #[inline]
    pub fn give(&self, mut packet: Packet) -> Result<Extent, Packet> {
        if !packet.leaves_small() {
            return Err(packet);
        }
        let meta = packet.meta();
        // Both are below the frame's size.
        let (start, len) = (meta.start as u16, meta.len as u16);
        Ok(Extent { number: self.pool.index_of(packet.into_meta()), start, len })
    }

    /// The packet in a frame, which begins with its link-layer header.
    ///
    /// # Safety
    /// The number came from [`take`](Self::take) or [`give`](Self::give), no one else uses that
    /// frame any more, and the extent is within the frame.
    #[inline]
    pub unsafe fn packet(&self, extent: Extent, kind: PacketKind, timestamp: i64) -> Packet {
        let mut line = self.pool.line_of(extent.number);
        // JUSTIFICATION: the line is reached by pointer.
        // SAFETY: the frame was taken or given (as the caller says), so no Packet has it and this
        // is its only user; the line was initialised when it first left the pool.
        let meta = unsafe { line.as_mut() };
        meta.reset(u32::from(extent.start), u32::from(extent.len));
        meta.l2 = extent.start;
        meta.kind_and_tag = kind as u8;
        meta.timestamp = timestamp;
        // JUSTIFICATION: the handle was given up when the frame was. SAFETY: as above; the caller
        // has given up the frame, so this is its only handle. The extent is within the frame, as
        // the caller promises.
        unsafe { Packet::from_meta(line) }
    }

    /// Asks the processor for the metadata line of a frame.
    #[inline]
    pub fn prefetch(&self, number: usize) {
        crate::packet::prefetch_line(self.pool.line_of(number).as_ptr().cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Batch;

    fn taken(count: usize) -> Vec<usize> {
        let mut numbers = Vec::new();
        assert_eq!(Frames::small().take(count, |number| numbers.push(number)), count);
        numbers
    }

    #[test]
    fn a_frame_that_was_taken_becomes_a_packet() {
        let frames = Frames::small();
        let number = taken(1)[0];
        let extent = Extent { number, start: 200, len: 60 };
        // JUSTIFICATION: the operation under test.
        // SAFETY: it was taken, and the extent lies in the frame.
        let mut packet = unsafe { frames.packet(extent, PacketKind::Multicast, 7) };
        assert_eq!((packet.headroom(), packet.len(), packet.mac_offset()), (200, 60, Some(0)));
        assert_eq!((packet.kind(), packet.timestamp()), (PacketKind::Multicast, 7));
        packet.data_mut().fill(9);
        assert_eq!(frames.give(packet).expect("a small one"), extent);
        // SAFETY: it was given, and has no other user.
        unsafe { frames.free([number].into_iter()) };
    }

    #[test]
    fn the_mark_of_a_packet_ends_where_its_frame_is_given_away() {
        let mut packet = Packet::new(b"x").expect("memory");
        assert!(packet.follow(1).is_some());
        let extent = Frames::small().give(packet).expect("a small one");
        // JUSTIFICATION: the operation under test.
        // SAFETY: it was given, and has no other user.
        let packet = unsafe { Frames::small().packet(extent, PacketKind::Host, 0) };
        assert!(packet.mark().is_none());
    }

    #[test]
    fn taken_frames_are_given_to_no_other() {
        let frames = Frames::small();
        let mut numbers = taken(700);
        let batch: Batch = (0..300).map(|_| Packet::new(b"x").expect("memory")).collect();
        numbers.extend(batch.iter().map(|packet| frames.pool.index_of(packet.line())));
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 1000);
        let given = batch.iter().map(|packet| frames.pool.index_of(packet.line()));
        let given: Vec<usize> = given.collect();
        // JUSTIFICATION: the operation under test.
        // SAFETY: they were taken, and have no other user; the filter excludes those of the batch.
        unsafe { frames.free(numbers.into_iter().filter(|number| !given.contains(number))) };
    }

    #[test]
    fn large_frames_are_not_given() {
        let packet = Packet::zeroed(SMALL_FRAME + 1).expect("memory");
        assert_eq!(Frames::small().give(packet).expect_err("large").len(), SMALL_FRAME + 1);
    }

    #[test]
    fn what_is_freed_can_be_taken_again() {
        let frames = Frames::small();
        // The interpreter is slow.
        let wanted = if cfg!(miri) { 300 } else { frames.count() / 4 };
        for _ in 0..6 {
            let numbers = taken(wanted);
            // JUSTIFICATION: the operation under test; and in another thread.
            // SAFETY: they were taken, and have no other user.
            let free = move || unsafe { frames.free(numbers.into_iter()) };
            std::thread::spawn(free).join().unwrap();
        }
    }
}
