//! Batches: the vectors of packets that functions pass on.

use crate::image::Image;
use crate::many;
use crate::packet::Packet;

/// Packets a batch is meant to hold at most. Elements that multiply packets may exceed it; the
/// engine then cuts the batch.
pub const MAX_BATCH: usize = 256;

/// How many packets ahead [`Batch::prefetch`] works.
const AHEAD: usize = 8;

/// A vector of packets in order of arrival. Dropping or clearing it frees the packets in it, at
/// once.
#[derive(Default, Debug)]
pub struct Batch {
    packets: Vec<Packet>,
}

impl Batch {
    /// An empty batch that holds no memory yet.
    pub const fn new() -> Batch {
        Batch { packets: Vec::new() }
    }

    /// An empty batch with room for [`MAX_BATCH`].
    pub fn with_room() -> Batch {
        Batch { packets: Vec::with_capacity(MAX_BATCH) }
    }

    /// Packets in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Adds a packet at the end.
    #[inline]
    pub fn push(&mut self, packet: Packet) {
        self.packets.push(packet);
    }

    /// Adds a packet for each image; returns the number added: fewer when packet memory is used up,
    /// and without images that exceed the largest frame.
    #[inline]
    pub fn fill<'a>(&mut self, images: impl ExactSizeIterator<Item = Image<'a>>) -> usize {
        let first = self.packets.len();
        let taken = many::take_many(&mut self.packets, images.len());
        let mut lost = Vec::new();
        for (at, (packet, image)) in self.packets[first..].iter_mut().zip(images).enumerate() {
            if !packet.become_image(image) {
                lost.push(first + at);
            }
        }
        // Rare: there was no large frame for one. Its small frame goes back.
        for at in lost.iter().rev() {
            drop(self.packets.remove(*at));
        }
        taken - lost.len()
    }

    /// Takes the last packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        self.packets.pop()
    }

    /// The packets in order.
    #[inline]
    pub fn iter(&self) -> core::slice::Iter<'_, Packet> {
        self.packets.iter()
    }

    /// The packets in order, to be changed.
    #[inline]
    pub fn iter_mut(&mut self) -> core::slice::IterMut<'_, Packet> {
        self.packets.iter_mut()
    }

    /// Takes all packets out, in order.
    #[inline]
    pub fn drain(&mut self) -> std::vec::Drain<'_, Packet> {
        self.packets.drain(..)
    }

    /// Takes the first `n` packets (or all, when there are fewer) out, in order.
    #[inline]
    pub fn drain_front(&mut self, n: usize) -> std::vec::Drain<'_, Packet> {
        self.packets.drain(..n.min(self.packets.len()))
    }

    /// Moves all of `other`'s packets to the end; when this one is empty, that is a swap.
    #[inline]
    pub fn append(&mut self, other: &mut Batch) {
        if self.packets.is_empty() {
            core::mem::swap(&mut self.packets, &mut other.packets);
        } else {
            self.packets.append(&mut other.packets);
        }
    }

    /// Sum of the packets' lengths in bytes.
    pub fn bytes(&self) -> u64 {
        self.iter().map(|packet| packet.len() as u64).sum()
    }

    /// Frees all packets.
    #[inline]
    pub fn clear(&mut self) {
        many::release_all(&mut self.packets);
    }

    /// Keeps the packets for which `judge` returns `None`, in order, and passes the others to
    /// `take` with the result of `judge`. One pass; nothing moves while every packet is kept.
    #[inline]
    pub fn extract<T>(
        &mut self,
        mut judge: impl FnMut(&mut Packet) -> Option<T>,
        mut take: impl FnMut(Packet, T),
    ) {
        let len = self.packets.len();
        let base = self.packets.as_mut_ptr();
        // PERF: counts removed packets, not kept ones: mostly there are none.
        let mut left = 0;
        // JUSTIFICATION: safe alternatives move every packet or test for a hole at each step; this
        // loop is on every packet's path.
        // SAFETY: length 0 while the loop owns the packets: if `judge` or `take` panics, the rest
        // leaks instead of being dropped twice.
        unsafe { self.packets.set_len(0) };
        for at in 0..len {
            // SAFETY: at < len, initialised, and not yet moved out.
            let verdict = judge(unsafe { &mut *base.add(at) });
            match verdict {
                None if left == 0 => {}
                // SAFETY: slot `at - left` was moved out before, slot `at` is moved out by this.
                None => unsafe {
                    core::ptr::copy_nonoverlapping(base.add(at), base.add(at - left), 1);
                },
                Some(word) => {
                    left += 1;
                    // SAFETY: slot `at` is initialised; it is not read again.
                    take(unsafe { base.add(at).read() }, word);
                }
            }
        }
        // SAFETY: slots 0..len - left are initialised and have no other owner.
        unsafe { self.packets.set_len(len - left) };
    }

    /// Moves each packet to the end of the lane given by its entry in `numbers`, in order; a number
    /// beyond the last lane means the last lane. Packets without a number stay.
    #[inline]
    pub fn deal(&mut self, numbers: &[u32], lanes: &mut [Batch]) {
        let count = self.packets.len().min(numbers.len());
        let Some(last) = lanes.len().checked_sub(1) else { return };
        // Any lane may get all of them.
        lanes.iter_mut().for_each(|lane| lane.packets.reserve(count));
        let len = self.packets.len();
        let base = self.packets.as_mut_ptr();
        // JUSTIFICATION: draining and pushing tests each packet's place and each lane's room.
        // SAFETY: length 0 while the loop owns the packets; nothing in it panics.
        unsafe { self.packets.set_len(0) };
        for (at, number) in numbers[..count].iter().enumerate() {
            let lane = &mut lanes[(*number as usize).min(last)].packets;
            let end = lane.len();
            // SAFETY: at < len, each packet is moved out once; the lane has room for `count` more
            // than it had, and no more than that come.
            unsafe {
                lane.as_mut_ptr().add(end).write(base.add(at).read());
                lane.set_len(end + 1);
            }
        }
        // SAFETY: packets count..len are initialised and were not moved; they go to the front.
        unsafe {
            core::ptr::copy(base.add(count), base, len - count);
            self.packets.set_len(len - count);
        }
    }

    /// Asks for the first line of every packet, a few packets apart, so that the misses overlap.
    /// Worth it where packets come from memory that this core has not just written.
    #[inline]
    pub fn prefetch(&self) {
        for packet in self.packets.iter().take(AHEAD) {
            packet.prefetch_meta();
        }
        for (at, packet) in self.packets.iter().enumerate() {
            if let Some(ahead) = self.packets.get(at + AHEAD) {
                ahead.prefetch_meta();
            }
            packet.prefetch_data();
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Extend<Packet> for Batch {
    fn extend<I: IntoIterator<Item = Packet>>(&mut self, packets: I) {
        self.packets.extend(packets);
    }
}

impl FromIterator<Packet> for Batch {
    fn from_iter<I: IntoIterator<Item = Packet>>(packets: I) -> Batch {
        Batch { packets: packets.into_iter().collect() }
    }
}

impl<'a> IntoIterator for &'a mut Batch {
    type Item = &'a mut Packet;
    type IntoIter = core::slice::IterMut<'a, Packet>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = &'a Packet;
    type IntoIter = core::slice::Iter<'a, Packet>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
