//! Storage of the changed pieces of many connections.

use crate::tcp::Seq;
use thruway_packet::fallible;

/// A piece of stream that left with another length than it came with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Where it begins, as the sender numbers.
    pub(super) at_in: Seq,
    /// Where it begins, as the receiver sees it.
    pub(super) at_out: Seq,
    /// Numbers that it took of the sender's.
    pub(super) took: u16,
    /// Numbers that became of it.
    pub(super) length: u16,
}

impl Piece {
    const NONE: Piece = Piece { at_in: Seq::new(0), at_out: Seq::new(0), took: 0, length: 0 };

    /// The sender's number behind it.
    #[inline]
    pub(super) fn end_in(&self) -> Seq {
        self.at_in + u32::from(self.took)
    }

    /// The receiver's number behind it.
    #[inline]
    pub(super) fn end_out(&self) -> Seq {
        self.at_out + u32::from(self.length)
    }
}

/// Pieces in a chunk: with them it has 128 bytes.
const CHUNK_LEN: usize = 10;
/// Chunks that the first one makes room for.
const FIRST_CHUNKS: usize = 16;
/// No chunk.
pub(super) const NONE: u32 = u32::MAX;

/// Some pieces of one connection, in their order; at least one once it is linked.
#[derive(Clone, Copy)]
struct Chunk {
    pieces: [Piece; CHUNK_LEN],
    count: u32,
    next: u32,
}

impl Chunk {
    const EMPTY: Chunk = Chunk { pieces: [Piece::NONE; CHUNK_LEN], count: 0, next: NONE };
}

/// Memory for the changed pieces of all connections of a thread. It grows by doubling up to a
/// limit; what connections no longer need is used again.
pub struct SeqMapSlab {
    chunks: Vec<Chunk>,
    free: u32,
    in_use: usize,
    limit: usize,
}

impl SeqMapSlab {
    /// For at most about so many changed pieces (12.8 bytes each) at once.
    #[must_use]
    pub fn new(pieces_max: usize) -> SeqMapSlab {
        let limit = pieces_max.div_ceil(CHUNK_LEN).min(NONE as usize);
        SeqMapSlab { chunks: Vec::new(), free: NONE, in_use: 0, limit }
    }

    /// Bytes that connections use now.
    #[must_use]
    pub fn bytes_in_use(&self) -> usize {
        self.in_use * size_of::<Chunk>()
    }

    /// An empty chunk.
    pub(super) fn take(&mut self) -> Option<u32> {
        let at = match self.chunks.get_mut(self.free as usize) {
            Some(chunk) => {
                let at = self.free;
                self.free = chunk.next;
                *chunk = Chunk::EMPTY;
                at
            }
            None => self.fresh()?,
        };
        self.in_use += 1;
        Some(at)
    }

    /// A chunk that was never used.
    fn fresh(&mut self) -> Option<u32> {
        let len = self.chunks.len();
        if len >= self.limit {
            return None;
        }
        if len == self.chunks.capacity() {
            let more = len.max(FIRST_CHUNKS).min(self.limit - len);
            fallible(|| self.chunks.try_reserve_exact(more)).ok()?;
        }
        self.chunks.push(Chunk::EMPTY);
        u32::try_from(len).ok()
    }

    /// Takes a chunk back; gives the one behind it.
    pub(super) fn give_back(&mut self, chunk: u32) -> u32 {
        let Some(freed) = self.chunks.get_mut(chunk as usize) else { return NONE };
        let next = freed.next;
        freed.next = self.free;
        self.free = chunk;
        self.in_use -= 1;
        next
    }

    /// Makes `next` the one behind `chunk`.
    pub(super) fn link(&mut self, chunk: u32, next: u32) {
        if let Some(chunk) = self.chunks.get_mut(chunk as usize) {
            chunk.next = next;
        }
    }

    /// The chunk behind `chunk`.
    #[inline]
    pub(super) fn next(&self, chunk: u32) -> Option<u32> {
        self.chunks.get(chunk as usize).map(|chunk| chunk.next).filter(|next| *next != NONE)
    }

    /// The pieces of a chunk; none of [`NONE`].
    #[inline]
    pub(super) fn pieces(&self, chunk: u32) -> &[Piece] {
        let Some(chunk) = self.chunks.get(chunk as usize) else { return &[] };
        chunk.pieces.get(..chunk.count as usize).unwrap_or_default()
    }

    /// The last piece of a chunk, to be changed.
    pub(super) fn last_mut(&mut self, chunk: u32) -> Option<&mut Piece> {
        let chunk = self.chunks.get_mut(chunk as usize)?;
        chunk.pieces.get_mut(..chunk.count as usize)?.last_mut()
    }

    /// Whether a chunk has no room for one more piece.
    #[inline]
    pub(super) fn is_full(&self, chunk: u32) -> bool {
        self.pieces(chunk).len() == CHUNK_LEN
    }

    /// Puts a piece behind those of a chunk that is not full.
    pub(super) fn append(&mut self, chunk: u32, piece: Piece) {
        let Some(chunk) = self.chunks.get_mut(chunk as usize) else { return };
        if let Some(pair) = chunk.pieces.get_mut(chunk.count as usize) {
            *pair = piece;
            chunk.count += 1;
        }
    }
}
