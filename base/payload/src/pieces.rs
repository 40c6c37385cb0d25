//! The bytes under a cursor.

/// Consecutive pieces of payload: one per packet. Piece numbers are below [`Pieces::count`]; other
/// pieces are empty, and cannot change.
pub trait Pieces {
    /// How many pieces there are.
    fn count(&self) -> usize;

    /// The payload of a piece, as far as it is the function's to see.
    fn content(&self, piece: usize) -> &[u8];

    /// The same, to be changed.
    fn content_mut(&mut self, piece: usize) -> &mut [u8];

    /// Replaces `len` bytes from `at` on by `with`, both within the piece. False, and nothing
    /// changed, when there is no memory for that.
    fn splice(&mut self, piece: usize, at: usize, len: usize, with: &[u8]) -> bool;

    /// The packet's headers, from the network header to the payload: for functions that look at
    /// more than the payload. Empty where they are not at hand.
    fn headers(&self, piece: usize) -> &[u8] {
        let _ = piece;
        &[]
    }

    /// The message head that stands in front of the piece's content, where one does (HTTP).
    fn head(&self, piece: usize) -> Option<&[u8]> {
        let _ = piece;
        None
    }

    /// Replaces the message head. False, and nothing changed, when there was none, or there is no
    /// memory for it.
    fn set_head(&mut self, piece: usize, head: &[u8]) -> bool {
        let _ = (piece, head);
        false
    }
}

/// Pieces that are no packets: to try a function on plain bytes.
impl Pieces for Vec<Vec<u8>> {
    fn count(&self) -> usize {
        self.len()
    }

    fn content(&self, piece: usize) -> &[u8] {
        self.get(piece).map_or(&[], Vec::as_slice)
    }

    fn content_mut(&mut self, piece: usize) -> &mut [u8] {
        self.get_mut(piece).map_or(&mut [], Vec::as_mut_slice)
    }

    fn splice(&mut self, piece: usize, at: usize, len: usize, with: &[u8]) -> bool {
        let Some(bytes) = self.get_mut(piece).filter(|bytes| at + len <= bytes.len()) else {
            return false;
        };
        bytes.splice(at..at + len, with.iter().copied());
        true
    }
}
