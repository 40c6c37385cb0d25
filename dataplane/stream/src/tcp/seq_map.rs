//! Maps the numbers of one direction of a connection to those that leave, and back.
//!
//! The sender numbers its data ("in"), the receiver sees our numbers ("out"). The departed data is
//! a row of pieces (a packet's content, a SYN, a FIN: RFC 9293 section 3.4 counts them as one
//! byte), each of which took some of the sender's numbers and has some of ours. Within a piece that
//! kept its length, numbers differ by a constant; within a changed one, the correspondence of bytes
//! is unknown, so it counts as received when the receiver has all of it.
//!
//! Only pieces that changed their length are kept. Of those that the receiver has acknowledged the
//! last ten or more stay, unless they lie far back: for duplicates that it reports (D-SACK, RFC
//! 2883). That costs a connection with changes up to two chunks (256 bytes) until it is idle
//! ([`SeqMap::forget`]) or ends.

mod slab;
#[cfg(test)]
mod tests;

pub use slab::SeqMapSlab;
use slab::{NONE, Piece};

use crate::tcp::Seq;

/// Numbers that may be sent and not acknowledged, on either side: the largest window is a little
/// less (65,535 << 14, RFC 7323 section 2.3).
pub const OUTSTANDING_MAX: u32 = 1 << 30;
/// From the first to the last piece of a chunk, in numbers of either side. This and the two below:
/// the oldest number kept and the newest must compare modulo 2^32.
const SPAN_MAX: u32 = 1 << 27;
/// Pieces that lie farther behind what is acknowledged are forgotten.
const FAR: u32 = 1 << 27;
/// So far behind what is acknowledged numbers are mapped at all. More than `SPAN_MAX + FAR`.
const REACH: u32 = 1 << 29;

/// The piece cannot be remembered: the slab has reached its limit, or more than
/// [`OUTSTANDING_MAX`] would be outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("edits-full")]
pub struct Full;

/// One place in both streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SeqPair {
    at_in: Seq,
    at_out: Seq,
}

impl SeqPair {
    /// How far a place before this one lies back, in numbers of the side where that is more.
    #[inline]
    fn distance(self, from: SeqPair) -> u32 {
        self.at_in.distance(from.at_in).max(self.at_out.distance(from.at_out))
    }
}

impl Piece {
    #[inline]
    fn begin(&self) -> SeqPair {
        SeqPair { at_in: self.at_in, at_out: self.at_out }
    }

    #[inline]
    fn end(&self) -> SeqPair {
        SeqPair { at_in: self.end_in(), at_out: self.end_out() }
    }
}

/// The edit map of one direction of a connection. Its pieces lie in an [`SeqMapSlab`], the same in
/// each call; [`release`](Self::release) must be the last use of it and of its copies.
#[derive(Clone, Copy, Debug)]
pub struct SeqMap {
    /// Begin of the map's memory.
    base: SeqPair,
    /// The receiver's acknowledgement.
    acked: SeqPair,
    /// End of the departed data.
    end: SeqPair,
    /// The first chunk.
    head: u32,
    /// The first chunk that has, or will have, a piece that is not acknowledged.
    here: u32,
    /// The last chunk.
    tail: u32,
}

impl SeqMap {
    /// Nothing has left yet; the next number is `at_in` for the sender and `at_out` for the
    /// receiver. (Of a connection that is seen from its beginning: that of the SYN.)
    #[must_use]
    pub const fn new(at_in: Seq, at_out: Seq) -> SeqMap {
        let pair = SeqPair { at_in, at_out };
        SeqMap { base: pair, acked: pair, end: pair, head: NONE, here: NONE, tail: NONE }
    }

    /// The sender's number behind all that has left.
    #[inline]
    #[must_use]
    pub const fn end_in(&self) -> Seq {
        self.end.at_in
    }

    /// The receiver's number behind all that has left.
    #[inline]
    #[must_use]
    pub const fn end_out(&self) -> Seq {
        self.end.at_out
    }

    /// The receiver's acknowledgement, in the sender's numbers.
    #[inline]
    #[must_use]
    pub const fn acked_in(&self) -> Seq {
        self.acked.at_in
    }

    /// The receiver's acknowledgement.
    #[inline]
    #[must_use]
    pub const fn acked_out(&self) -> Seq {
        self.acked.at_out
    }

    /// A piece leaves: it took `took` numbers of the sender's, and has `length` of the receiver's.
    ///
    /// # Errors
    /// [`Full`]; nothing has changed then.
    #[inline]
    pub fn push(&mut self, slab: &mut SeqMapSlab, took: u16, length: u16) -> Result<(), Full> {
        let begin = self.end;
        let (at_in, at_out) = (begin.at_in + u32::from(took), begin.at_out + u32::from(length));
        let end = SeqPair { at_in, at_out };
        if end.distance(self.acked) > OUTSTANDING_MAX {
            return Err(Full);
        }
        if took != length {
            let SeqPair { at_in, at_out } = begin;
            self.remember(slab, Piece { at_in, at_out, took, length })?;
        }
        self.end = end;
        if self.acked.at_out == end.at_out {
            // Nothing is outstanding, and nothing became of the piece.
            self.acked.at_in = end.at_in;
        }
        Ok(())
    }

    #[cold]
    fn remember(&mut self, slab: &mut SeqMapSlab, piece: Piece) -> Result<(), Full> {
        if let Some(last) = slab.last_mut(self.tail)
            && (last.length, piece.length) == (0, 0)
            && last.end() == piece.begin()
            && let Some(took) = last.took.checked_add(piece.took)
        {
            last.took = took;
            return Ok(());
        }
        let first = slab.pieces(self.tail).first();
        let spans = first.is_some_and(|first| piece.begin().distance(first.begin()) > SPAN_MAX);
        if self.tail == NONE || spans || slab.is_full(self.tail) {
            self.collapse(slab);
            self.add_chunk(slab)?;
        }
        slab.append(self.tail, piece);
        Ok(())
    }

    fn add_chunk(&mut self, slab: &mut SeqMapSlab) -> Result<(), Full> {
        let chunk = match slab.take() {
            Some(chunk) => chunk,
            None => {
                self.forget(slab);
                slab.take().ok_or(Full)?
            }
        };
        slab.link(self.tail, chunk);
        if self.tail == NONE {
            (self.head, self.here) = (chunk, chunk);
        }
        self.tail = chunk;
        Ok(())
    }

    /// The receiver acknowledges everything before `out`. (Old acknowledgements change nothing, nor
    /// do those of what never left: RFC 9293 section 3.10.7.4.) Gives the number for the sender, as
    /// [`to_in`](Self::to_in).
    #[inline]
    pub fn acknowledge(&mut self, slab: &mut SeqMapSlab, out: Seq) -> Seq {
        let at_in = self.to_in(slab, out);
        if out.after(self.acked.at_out) && !out.after(self.end.at_out) {
            self.acked = SeqPair { at_in, at_out: out };
            self.collapse(slab);
        }
        at_in
    }

    /// Forgets pieces that were acknowledged a while ago.
    #[inline]
    fn collapse(&mut self, slab: &mut SeqMapSlab) {
        if self.head != NONE {
            self.pass(slab);
        }
        let back = self.acked.distance(self.base);
        if back > REACH {
            // No piece is as far back: numbers go on side by side here.
            let step = back - REACH;
            let SeqPair { at_in, at_out } = self.base;
            self.base = SeqPair { at_in: at_in + step, at_out: at_out + step };
        }
    }

    fn pass(&mut self, slab: &mut SeqMapSlab) {
        let before = self.here;
        while self.is_acked(slab, self.here)
            && let Some(next) = slab.next(self.here)
        {
            self.here = next;
        }
        while self.here != before && self.head != before {
            self.drop_head(slab);
        }
        while self.is_acked(slab, self.head)
            && let Some(last) = slab.pieces(self.head).last()
            && self.acked.distance(last.end()) > FAR
        {
            self.drop_head(slab);
        }
    }

    /// Whether all pieces of a chunk are acknowledged.
    #[inline]
    fn is_acked(&self, slab: &SeqMapSlab, chunk: u32) -> bool {
        let last = slab.pieces(chunk).last();
        last.is_some_and(|last| !last.end_out().after(self.acked.at_out))
    }

    fn drop_head(&mut self, slab: &mut SeqMapSlab) {
        if let Some(last) = slab.pieces(self.head).last() {
            self.base = last.end();
        }
        let next = slab.give_back(self.head);
        if self.here == self.head {
            self.here = next;
        }
        if self.tail == self.head {
            self.tail = next;
        }
        self.head = next;
    }

    /// Lets go all memory that is held only for D-SACK: for connections that have been idle.
    pub fn forget(&mut self, slab: &mut SeqMapSlab) {
        while self.is_acked(slab, self.head) {
            self.drop_head(slab);
        }
    }

    /// Lets go all memory: the connection has ended.
    pub fn release(&mut self, slab: &mut SeqMapSlab) {
        while self.head != NONE {
            self.drop_head(slab);
        }
        (self.base, self.acked) = (self.end, self.end);
    }

    /// The last piece of which `passes` is true, and the first of which it is not; it is true of
    /// none behind one of which it is not.
    #[inline]
    fn find(
        &self,
        slab: &SeqMapSlab,
        passes: impl Fn(&Piece) -> bool,
    ) -> (Option<Piece>, Option<Piece>) {
        let begins = |chunk: u32| slab.pieces(chunk).first().is_some_and(&passes);
        // PERF: most questions are of what is sent now or acknowledged now; what is kept for
        // duplicates lies before that.
        let mut chunk = match () {
            () if begins(self.tail) => self.tail,
            () if begins(self.here) => self.here,
            () => self.head,
        };
        while let Some(next) = slab.next(chunk).filter(|next| begins(*next)) {
            chunk = next;
        }
        let pieces = slab.pieces(chunk);
        let count = pieces.iter().take_while(|piece| passes(piece)).count();
        let (passed, rest) = pieces.split_at(count);
        let behind = || slab.next(chunk).and_then(|next| slab.pieces(next).first());
        (passed.last().copied(), rest.first().or_else(behind).copied())
    }

    /// The sender's number for an acknowledgement number of the receiver's: of all pieces that are
    /// acknowledged wholly, and all before them. Never beyond the departed data; before the map's
    /// memory, at the same distance.
    #[inline]
    #[must_use]
    pub fn to_in(&self, slab: &SeqMapSlab, out: Seq) -> Seq {
        if !out.before(self.end.at_out) {
            return self.end.at_in;
        }
        let (_, next) = self.find(slab, |piece| !piece.end_out().after(out));
        let next = next.map_or(self.end, |piece| piece.begin());
        if next.at_out.after(out) { next.at_in - next.at_out.distance(out) } else { next.at_in }
    }

    /// The receiver's number for a sequence number of the sender's. Within a changed piece: where
    /// that begins. Before bytes that took none of the sender's numbers: where those begin. Behind
    /// all departed data, and before the map's memory: at the same distance.
    /// A probe for keep-alive repeats the number before the last one (RFC 9293 section 3.8.4): it
    /// is not for this map, because that number may have become nothing: use
    /// [`end_out`](Self::end_out)` - 1`.
    #[inline]
    #[must_use]
    pub fn to_out(&self, slab: &SeqMapSlab, at_in: Seq) -> Seq {
        if !at_in.before(self.end.at_in) {
            return self.end.at_out + at_in.distance(self.end.at_in);
        }
        let (_, next) = self.find(slab, |piece| {
            if piece.took == 0 { piece.at_in.before(at_in) } else { !piece.end_in().after(at_in) }
        });
        let next = next.map_or(self.end, |piece| piece.begin());
        if next.at_in.after(at_in) { next.at_out - next.at_in.distance(at_in) } else { next.at_out }
    }

    /// The sender's numbers for a SACK block (RFC 2018 section 3; left edge, and right edge behind
    /// its last byte) in a segment with acknowledgement number `ack`: the pieces that it covers
    /// wholly. `None` if it covers none that took anything, or only forgotten ones (a D-SACK, RFC
    /// 2883), or if the sender misses nothing before it, so that the receiver would seem to renege
    /// (section 8): filling the hole is up to us.
    #[must_use]
    pub fn to_in_range(
        &self,
        slab: &SeqMapSlab,
        (left, right): (Seq, Seq),
        ack: Seq,
    ) -> Option<(Seq, Seq)> {
        let from = left.max(self.base.at_out);
        let to = right.min(self.end.at_out);
        if !left.before(right) || !from.before(to) {
            return None;
        }
        let (last, next) = self.find(slab, |piece| piece.at_out.before(from));
        let next = next.map_or(self.end, |piece| piece.begin());
        let even = next.at_in - next.at_out.distance(from);
        let left_in = last.map_or(even, |last| even.max(last.end_in()));
        let right_in = self.to_in(slab, to);
        let nothing_misses = left.after(ack) && !left_in.after(self.to_in(slab, ack));
        (left_in.before(right_in) && !nothing_misses).then_some((left_in, right_in))
    }
}
