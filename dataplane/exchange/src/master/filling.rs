//! A whole batch into the ring: what is the same for all of its packets is done once.

use thruway_nf_abi::{Ring, SlotHead};

use super::{FILL_AHEAD, Master};
use crate::fault::Refusal;
use crate::storage::{Place, Storage};
use crate::token::Mark;

impl<S: Storage> Master<S> {
    /// As [`put`](Self::put) for each of `packets`, until one does not go, with one mark for all.
    /// Each goes on to `park` with the number of its slot. Gives the one that did not go, and why;
    /// those behind it are still in `packets`.
    ///
    /// PERF: the room, the head and the count are worked out once for the batch.
    #[inline]
    pub fn put_all<P: AsRef<[u8]>>(
        &mut self,
        mark: Mark,
        packets: &mut impl Iterator<Item = P>,
        mut park: impl FnMut(u32, P),
    ) -> Option<(P, Refusal)> {
        let (room, mask, start) = (self.room(), self.mask, self.headroom);
        let len_max = self.frame_len.saturating_sub(start) as usize;
        let first = self.produced;
        let head = self.head_of(mark);
        let mut put = 0;
        let left = packets.find_map(|packet| {
            let bytes = packet.as_ref();
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
            self.storage.copy_in(Place::Slot(Ring::Primary, slot), start, bytes);
            let head = SlotHead { len: bytes.len() as u16, ..head };
            self.storage.set_head(Ring::Primary, slot, head);
            park(slot, packet);
            put += 1;
            None
        });
        self.produced = first.wrapping_add(put);
        self.figures.put += u64::from(put);
        left
    }

    /// The head of a packet with this mark that begins behind the head room, but for its length.
    #[inline]
    fn head_of(&self, mark: Mark) -> SlotHead {
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
