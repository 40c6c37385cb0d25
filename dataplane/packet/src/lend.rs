//! Frames that are lent to someone outside: to the kernel, by the rings of an AF_XDP socket.
//!
//! A lent frame has no [`Packet`]: its borrower reads or writes it. A set of bits records the lent
//! frames, so that a returned address must be that of a lent frame and is accepted once, even from
//! a faulty borrower.

use crate::batch::Batch;
use crate::many;
use crate::packet::Packet;
use crate::pool::{self, Memory, Pool, SMALL_FRAME};

/// The frames of the pool of small frames that one borrower has. Offsets are in bytes from the
/// start of the pool's [memory](Pool::memory).
///
/// Dropping it frees the frames: its owner does so when the borrower is gone.
pub struct Lending {
    pool: &'static Pool,
    /// A bit for each frame of the pool.
    lent: Box<[u64]>,
    count: usize,
    /// Frames taken from the pool but not lent yet; empty between calls.
    fresh: Vec<Packet>,
}

impl Lending {
    /// A borrower that has nothing yet.
    pub fn new() -> Lending {
        let pool = Memory::get().small();
        let lent = vec![0; pool.capacity().div_ceil(64)].into();
        Lending { pool, lent, count: 0, fresh: Vec::new() }
    }

    /// Frames lent.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether nothing is lent.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Lends a packet's frame; returns the offset of the packet's bytes.
    ///
    /// # Errors
    /// The packet, when its frame is a large one.
    #[inline]
    pub fn lend(&mut self, mut packet: Packet) -> Result<u64, Packet> {
        if !packet.leaves_small() {
            return Err(packet);
        }
        let meta = packet.meta();
        let start = meta.start as usize;
        let index = self.pool.index_of(packet.into_meta());
        self.lent[index / 64] |= 1 << (index % 64);
        self.count += 1;
        Ok((pool::frame_start(index) + start) as u64)
    }

    /// Lends up to `count` free frames and passes the offset of each to `give`; fewer when there
    /// are no more. Says how many.
    #[inline]
    pub fn lend_free(&mut self, count: usize, mut give: impl FnMut(u64)) -> usize {
        let mut fresh = core::mem::take(&mut self.fresh);
        let taken = many::take_many(&mut fresh, count);
        for packet in fresh.drain(..) {
            let index = self.pool.index_of(packet.into_meta());
            self.lent[index / 64] |= 1 << (index % 64);
            give(pool::frame_start(index) as u64);
        }
        self.count += taken;
        self.fresh = fresh;
        taken
    }

    /// Takes the frame around `offset` back, as a packet of the `len` bytes there. `None`, and
    /// nothing changed, when that frame is not lent or does not contain so many bytes.
    #[inline]
    pub fn take_back(&mut self, offset: u64, len: u32) -> Option<Packet> {
        let (index, start) = self.pool.frame_around(offset)?;
        if start + len as usize > SMALL_FRAME {
            return None;
        }
        let (word, bit) = (&mut self.lent[index / 64], 1 << (index % 64));
        if *word & bit == 0 {
            return None;
        }
        *word &= !bit;
        self.count -= 1;
        let mut meta = self.pool.line_of(index);
        // JUSTIFICATION: the line is reached by pointer.
        // SAFETY: the frame was lent (its bit was set), so no Packet has it and this is its only
        // user; the line is initialised, for the frame was a packet's before.
        unsafe { meta.as_mut() }.reset(start as u32, len);
        // JUSTIFICATION: the handle was given up when the frame was lent.
        // SAFETY: as above, and the bit is clear now: no second handle can exist. The extent lies
        // in the frame.
        Some(unsafe { Packet::from_meta(meta) })
    }
}

impl Default for Lending {
    fn default() -> Lending {
        Lending::new()
    }
}

impl Drop for Lending {
    fn drop(&mut self) {
        let mut batch = Batch::new();
        for at in 0..self.lent.len() {
            while self.lent[at] != 0 {
                let index = at * 64 + self.lent[at].trailing_zeros() as usize;
                match self.take_back(pool::frame_start(index) as u64, 0) {
                    Some(packet) => batch.push(packet),
                    None => break,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lent_packet_comes_back_once_with_its_bytes() {
        let mut lending = Lending::new();
        let offset = lending.lend(Packet::new(b"hello, ring").expect("memory")).expect("small");
        let other = lending.lend(Packet::new(b"other").expect("memory")).expect("small");
        assert_eq!(lending.len(), 2);
        // A part of it, as a borrower that moved the start may say.
        let packet = lending.take_back(offset + 7, 4).expect("it was lent");
        assert_eq!(packet.data(), b"ring");
        assert!(lending.take_back(offset, 5).is_none(), "it is no longer lent");
        assert_eq!(lending.take_back(other, 5).expect("it was lent").data(), b"other");
        assert!(lending.is_empty());
    }

    #[test]
    fn what_was_not_lent_is_refused() {
        let mut lending = Lending::new();
        let mut offset = 0;
        assert_eq!(lending.lend_free(1, |at| offset = at), 1);
        for wrong in [0, offset - 1, offset + SMALL_FRAME as u64, u64::MAX, u64::MAX >> 1] {
            assert!(lending.take_back(wrong, 0).is_none(), "{wrong}");
        }
        assert!(lending.take_back(offset + 1, SMALL_FRAME as u32).is_none(), "beyond the frame");
        assert!(lending.take_back(offset, u32::MAX).is_none());
        assert_eq!(lending.len(), 1);
        let packet = lending.take_back(offset, SMALL_FRAME as u32).expect("the whole frame");
        assert_eq!((packet.headroom(), packet.tailroom()), (0, 0));
    }

    #[test]
    fn large_frames_are_not_lent() {
        let mut lending = Lending::new();
        let packet = Packet::zeroed(SMALL_FRAME + 1).expect("memory");
        assert_eq!(lending.lend(packet).expect_err("it is large").len(), SMALL_FRAME + 1);
        assert!(lending.is_empty());
    }

    #[test]
    fn dropping_frees_all() {
        // More than there are frames altogether, if they were not freed.
        let capacity = Memory::get().small().capacity();
        for _ in 0..3 {
            let mut lending = Lending::new();
            // The interpreter is slow.
            let wanted = if cfg!(miri) { 300 } else { capacity / 2 };
            assert_eq!(lending.lend_free(wanted, |_| ()), wanted);
        }
    }
}
