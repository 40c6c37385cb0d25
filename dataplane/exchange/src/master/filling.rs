//! A whole batch into the ring: what is the same for all of its packets is done once.

use thruway_nf_abi::{Ring, SlotHead};

use super::{FILL_AHEAD, Master};
use crate::fault::Refusal;
use crate::storage::{Location, Storage};
use crate::token::SlotTag;

/// A packet that goes into a slot with so many words in front of its bytes.
pub trait Put<const WORDS: usize> {
    /// The words.
    fn words(&self) -> [u64; WORDS];

    /// The bytes behind them.
    fn bytes(&self) -> &[u8];
}

impl<T: AsRef<[u8]>> Put<0> for T {
    #[inline]
    fn words(&self) -> [u64; 0] {
        []
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.as_ref()
    }
}

impl<S: Storage> Master<S> {
    /// As [`put`](Self::put) for each of `packets`, until one does not go, with one mark for all.
    /// Each goes on to `park` with the number of its slot. Gives the one that did not go, and why;
    /// those behind it are still in `packets`.
    ///
    /// PERF: the room, the head and the count are worked out once for the batch.
    #[inline]
    pub fn put_all<const WORDS: usize, P: Put<WORDS>>(
        &mut self,
        mark: SlotTag,
        packets: &mut impl Iterator<Item = P>,
        mut park: impl FnMut(u32, P),
    ) -> Option<(P, Refusal)> {
        let (room, mask, start) = (self.room(), self.mask, self.headroom);
        let begin = start + 8 * WORDS as u32;
        let len_max = self.frame_len.saturating_sub(begin) as usize;
        let first = self.produced;
        let head = self.head_of(mark).to_words();
        let mut put = 0;
        let left = packets.find_map(|packet| {
            let bytes = packet.bytes();
            if bytes.len() > len_max {
                return Some((packet, Refusal::TooLong));
            }
            if put == room {
                return Some((packet, Refusal::Full));
            }
            let index = first.wrapping_add(put);
            if room - put > FILL_AHEAD {
                self.storage.prefetch_fill(index.wrapping_add(FILL_AHEAD));
            }
            let slot = index & mask;
            let location = Location::Slot(Ring::Primary, slot);
            if WORDS > 0 {
                self.storage.set_words(location, start, &packet.words());
            }
            self.storage.copy_in(location, begin, bytes);
            let len = (8 * WORDS + bytes.len()) as u16;
            let head = SlotHead::words_of_length(head, len);
            self.storage.set_head_words(Ring::Primary, slot, head);
            park(slot, packet);
            put += 1;
            None
        });
        self.produced = first.wrapping_add(put);
        self.figures.put += u64::from(put);
        left
    }

    /// The head of a packet with this mark that begins behind the head room, of length 0.
    #[inline]
    fn head_of(&self, mark: SlotTag) -> SlotHead {
        SlotHead {
            start: self.headroom as u16,
            flags: mark.flags,
            input: mark.input,
            direction: mark.direction,
            fcb: mark.fcb,
            ..SlotHead::default()
        }
    }
}
