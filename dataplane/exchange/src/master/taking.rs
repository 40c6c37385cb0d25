//! Taking slots back (Algorithms 4 and 7 of the paper).

use thruway_nf_abi::{Ring, SlotHead, Word, flag};
use thruway_sync::atomic::Ordering;

use super::{Master, PREFETCH};
use crate::fault::PeerFault;
use crate::storage::Storage;
use crate::token::{Origin, Token};

/// A consumer of returned slots.
pub trait Take<S: Storage> {
    /// Takes a packet that the Worker kept as it was put, without a drop and without auxiliary
    /// packets: the number of its slot, and its output. False if it wants it as a token.
    #[inline]
    fn kept(&mut self, _slot: u32, _output: u32) -> bool {
        false
    }

    /// Takes any other slot, or an auxiliary packet.
    fn token(&mut self, token: Token<'_, S>);
}

/// A consumer that takes everything as a token.
struct Tokens<F>(F);

impl<S: Storage, F: FnMut(Token<'_, S>)> Take<S> for Tokens<F> {
    #[inline]
    fn token(&mut self, token: Token<'_, S>) {
        self.0(token);
    }
}

impl<S: Storage> Master<S> {
    /// Takes back what the Worker is done with, at most `limit` slots (Algorithms 4 and 7):
    /// returned and dropped packets in the order in which they were put, each followed by its
    /// auxiliary packets. Gives the number of slots.
    ///
    /// # Errors
    /// A [`PeerFault`]; tokens given before it were good. From then on every call says the same.
    #[inline(always)]
    pub fn poll(
        &mut self,
        now: u64,
        limit: u32,
        take: impl FnMut(Token<'_, S>),
    ) -> Result<u32, PeerFault> {
        self.poll_by(now, limit, &mut Tokens(take))
    }

    /// As [`poll`](Self::poll), for a consumer that needs no token of kept packets.
    ///
    /// # Errors
    /// As `poll`.
    #[inline(always)]
    pub fn poll_by(
        &mut self,
        now: u64,
        limit: u32,
        taker: &mut impl Take<S>,
    ) -> Result<u32, PeerFault> {
        if self.returned == self.consumed || S::READS_INDEX_EACH_POLL {
            self.look()?;
        }
        let count = self.returned.wrapping_sub(self.consumed).min(limit);
        if count == 0 {
            return Ok(0);
        }
        // Algorithm 4 line 5: what waits now is not older than this.
        self.oldest = now;
        let end = self.consumed.wrapping_add(count);
        let aux_before = self.aux_consumed;
        let mut kept = 0;
        while self.consumed != end {
            let slot = self.consumed & self.mask;
            // Not beyond what was given back: the Worker is at those, and would lose the line.
            if self.returned.wrapping_sub(self.consumed) > PREFETCH {
                self.prefetch(self.consumed.wrapping_add(PREFETCH) & self.mask);
            }
            let head = self.storage.head(Ring::Primary, slot);
            // PERF: most packets of most functions are only looked at. No token is made of them.
            if head.flags & !flag::FROM_MASTER == flag::KEPT
                && self.check(&head).is_ok()
                && taker.kept(slot, u32::from(head.output))
            {
                self.consumed = self.consumed.wrapping_add(1);
                kept += 1;
            } else if let Err(fault) = self.take_slot(slot, &head, taker) {
                self.figures.returned += kept;
                return Err(self.fail(fault));
            }
        }
        self.figures.returned += kept;
        if self.aux_consumed != aux_before {
            // Release: our copies out of the slots before they are free; pairs with the Acquire
            // in Worker::emit.
            self.storage.word(Word::AuxConsumed).store(self.aux_consumed, Ordering::Release);
        }
        Ok(count)
    }

    /// Takes a slot after its head was read.
    #[inline(always)]
    fn take_slot(
        &mut self,
        slot: u32,
        head: &SlotHead,
        taker: &mut impl Take<S>,
    ) -> Result<(), PeerFault> {
        let is_dropped = head.flags & flag::DROPPED != 0;
        if !is_dropped {
            self.check(head)?;
        }
        if head.flags & !(flag::DROPPED | flag::AUX | flag::FROM_MASTER | flag::LOST | flag::KEPT)
            != 0
        {
            return Err(PeerFault::Flags(head.flags));
        }
        taker.token(Token {
            storage: &self.storage,
            location: self.location(slot),
            start: if is_dropped { 0 } else { u32::from(head.start) },
            len: if is_dropped { 0 } else { u32::from(head.len) },
            origin: if is_dropped { Origin::Dropped(slot) } else { Origin::Slot(slot) },
            output: if is_dropped { 0 } else { u32::from(head.output) },
            is_kept: head.flags & (flag::KEPT | flag::DROPPED) == flag::KEPT,
        });
        // From here on the slot is the Master's again, whatever its auxiliary packets are.
        self.consumed = self.consumed.wrapping_add(1);
        self.figures.returned += u64::from(!is_dropped);
        self.figures.dropped += u64::from(is_dropped);
        if head.flags & flag::LOST != 0 {
            self.figures.aux_lost = self.figures.aux_lost.saturating_add(head.fcb.into());
        }
        if head.flags & flag::AUX != 0 {
            self.take_chain(slot, taker)?;
        }
        Ok(())
    }

    /// Algorithm 7: the auxiliary packets of a slot, at most as many as the ring holds.
    fn take_chain(&mut self, slot: u32, taker: &mut impl Take<S>) -> Result<(), PeerFault> {
        loop {
            if self.aux_limit == self.aux_consumed {
                self.look_aux()?;
            }
            if self.aux_limit == self.aux_consumed {
                return Err(PeerFault::Chain);
            }
            let take = &mut |token: Token<'_, S>| taker.token(token);
            let head = self.take_side(Ring::Aux, self.aux_consumed, Origin::Aux(slot), take)?;
            self.aux_consumed = self.aux_consumed.wrapping_add(1);
            self.figures.aux += 1;
            if head.flags & flag::NEXT == 0 {
                return Ok(());
            }
        }
    }
}
