//! A place in the payload, from which it is read and changed.

use crate::pieces::Pieces;

/// State of the bytes under a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct About {
    /// 0: from the side that opened the session; 1: from the other.
    pub direction: usize,
    /// Nothing of this direction (of this message, where there are messages) follows.
    pub is_last: bool,
    /// Held-back bytes are released because nothing came for too long: the function will not see
    /// bytes again that it does not read now.
    pub is_late: bool,
    /// Present time, nanoseconds since the Unix epoch.
    pub now: i64,
}

/// A place in the payload of a session: between two bytes of one or several packets.
///
/// Reading advances it. Changes are made in the packets themselves; lengths, checksums and sequence
/// numbers are updated when the packets leave. A change without memory for it ends the connection
/// rather than letting it go on unchanged.
pub struct StreamCursor<'a> {
    pieces: &'a mut dyn Pieces,
    about: About,
    piece: usize,
    at: usize,
    changed: bool,
    failed: bool,
}

impl<'a> StreamCursor<'a> {
    /// At the first byte.
    pub fn new(pieces: &'a mut dyn Pieces, about: About) -> StreamCursor<'a> {
        StreamCursor { pieces, about, piece: 0, at: 0, changed: false, failed: false }
    }

    /// 0: this is from the side that opened the session; 1: from the other.
    pub fn direction(&self) -> usize {
        self.about.direction
    }

    /// Whether nothing of this direction (of this message, if there are messages) follows these
    /// bytes.
    pub fn is_last(&self) -> bool {
        self.about.is_last
    }

    /// Whether these bytes were held back and go on now in any case, because nothing more came in
    /// time.
    pub fn is_late(&self) -> bool {
        self.about.is_late
    }

    /// Present time, nanoseconds since the Unix epoch.
    pub fn now(&self) -> i64 {
        self.about.now
    }

    /// The message head in front of these bytes, if a message begins here (HTTP): from its first
    /// line to the empty line.
    pub fn head(&self) -> Option<&[u8]> {
        self.pieces.head(0)
    }

    /// Replaces the message head.
    pub fn set_head(&mut self, head: &[u8]) {
        self.changed = true;
        self.failed |= !self.pieces.set_head(0, head);
    }

    /// Headers of the packet that the cursor is in, from the network header to the payload.
    pub fn headers(&self) -> &[u8] {
        self.pieces.headers(self.piece)
    }

    /// Where the cursor stands: piece, and byte in it.
    pub fn position(&self) -> (usize, usize) {
        (self.piece, self.at)
    }

    /// Whether anything was changed.
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// Whether a change could not be made.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Goes to the beginning of the next piece that has bytes if this one is read to its end.
    #[inline]
    fn skip_consumed(&mut self) {
        while self.at >= self.pieces.content(self.piece).len()
            && self.piece + 1 < self.pieces.count()
        {
            self.piece += 1;
            self.at = 0;
        }
    }

    /// The bytes from here to the end of the packet; empty only where nothing is left at all.
    #[inline]
    pub fn chunk(&mut self) -> &[u8] {
        self.skip_consumed();
        self.pieces.content(self.piece).get(self.at..).unwrap_or(&[])
    }

    /// The same, to be changed.
    #[inline]
    pub fn chunk_mut(&mut self) -> &mut [u8] {
        self.skip_consumed();
        self.changed = true;
        self.pieces.content_mut(self.piece).get_mut(self.at..).unwrap_or(&mut [])
    }

    /// Moves on by `n` bytes, or to the end.
    #[inline]
    pub fn advance(&mut self, n: usize) {
        let mut left = n;
        loop {
            let here = self.chunk().len();
            let step = here.min(left);
            self.at += step;
            left -= step;
            if left == 0 || step == 0 {
                return;
            }
        }
    }

    /// Moves to the end.
    pub fn skip_all(&mut self) {
        self.piece = self.pieces.count().saturating_sub(1);
        self.at = self.pieces.content(self.piece).len();
    }

    /// Moves back by `n` bytes, or to the beginning.
    pub fn back(&mut self, n: usize) {
        let mut left = n;
        while left > self.at && self.piece > 0 {
            left -= self.at;
            self.piece -= 1;
            self.at = self.pieces.content(self.piece).len();
        }
        self.at = self.at.saturating_sub(left);
    }

    /// Bytes from here to the end.
    pub fn remaining(&self) -> usize {
        let behind = self.piece + 1..self.pieces.count();
        let here = self.pieces.content(self.piece).len().saturating_sub(self.at);
        here + behind.map(|piece| self.pieces.content(piece).len()).sum::<usize>()
    }

    /// Writes `bytes` over as many bytes from here on, as far as there are any, and moves behind
    /// them.
    pub fn overwrite(&mut self, bytes: &[u8]) {
        let mut left = bytes;
        while !left.is_empty() {
            let chunk = self.chunk_mut();
            let n = chunk.len().min(left.len());
            if n == 0 {
                return;
            }
            chunk[..n].copy_from_slice(&left[..n]);
            self.at += n;
            left = &left[n..];
        }
    }

    /// Inserts bytes here and moves behind them.
    pub fn insert(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.changed = true;
        if self.pieces.splice(self.piece, self.at, 0, bytes) {
            self.at += bytes.len();
        } else {
            self.failed = true;
        }
    }

    /// Removes the next `n` bytes, or as many as there are.
    pub fn remove(&mut self, n: usize) {
        let mut left = n;
        while left > 0 {
            let here = self.chunk().len().min(left);
            if here == 0 {
                return;
            }
            self.changed = true;
            if !self.pieces.splice(self.piece, self.at, here, &[]) {
                self.failed = true;
                return;
            }
            left -= here;
        }
    }

    /// Puts `with` in the place of the `n` bytes before the cursor, which stands behind it then.
    pub fn replace_back(&mut self, n: usize, with: &[u8]) {
        self.back(n);
        let same = n.min(with.len());
        self.overwrite(&with[..same]);
        self.insert(&with[same..]);
        self.remove(n - same);
    }

    /// Overwrites the `n` bytes before the cursor by `byte`; the cursor stays.
    pub fn mask_back(&mut self, n: usize, byte: u8) {
        self.fill_back(n, &[byte], 0);
    }

    /// Overwrites the `n` bytes before the cursor by `pattern` from its byte `from` on, again and
    /// again; the cursor stays. An empty pattern changes nothing.
    pub fn fill_back(&mut self, n: usize, pattern: &[u8], from: usize) {
        let mut bytes = pattern.iter().cycle().skip(from % pattern.len().max(1)).copied();
        self.back(n);
        let mut left = n;
        while left > 0 {
            let chunk = self.chunk_mut();
            let here = chunk.len().min(left);
            if here == 0 {
                return;
            }
            chunk[..here].iter_mut().zip(&mut bytes).for_each(|(position, byte)| *position = byte);
            self.at += here;
            left -= here;
        }
    }
}

/// Reads byte after byte, across packets.
impl Iterator for StreamCursor<'_> {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let byte = self.chunk().first().copied()?;
        self.at += 1;
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Advance(usize),
        Back(usize),
        Next,
        Overwrite(Vec<u8>),
        Insert(Vec<u8>),
        Remove(usize),
        Replace(usize, Vec<u8>),
        Mask(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..6);
        let step = prop_oneof![
            (0..9usize).prop_map(Step::Advance),
            (0..9usize).prop_map(Step::Back),
            Just(Step::Next),
            bytes().prop_map(Step::Overwrite),
            bytes().prop_map(Step::Insert),
            (0..7usize).prop_map(Step::Remove),
            (0..7usize, bytes()).prop_map(|(n, with)| Step::Replace(n, with)),
            (0..7usize).prop_map(Step::Mask),
        ];
        prop::collection::vec(step, 0..20)
    }

    /// One vector and one index.
    fn plainly(all: &mut Vec<u8>, at: &mut usize, step: &Step) {
        let over = |all: &mut Vec<u8>, at: usize, bytes: &[u8]| {
            let n = bytes.len().min(all.len() - at);
            all[at..at + n].copy_from_slice(&bytes[..n]);
            at + n
        };
        match step {
            Step::Advance(n) => *at = (*at + n).min(all.len()),
            Step::Back(n) => *at = at.saturating_sub(*n),
            Step::Next => *at = (*at + 1).min(all.len()),
            Step::Overwrite(bytes) => *at = over(all, *at, bytes),
            Step::Insert(bytes) => {
                all.splice(*at..*at, bytes.iter().copied());
                *at += bytes.len();
            }
            Step::Remove(n) => {
                let end = (*at + n).min(all.len());
                all.drain(*at..end);
            }
            Step::Replace(n, with) => {
                let from = at.saturating_sub(*n);
                let end = (from + n).min(all.len());
                all.splice(from..end, with.iter().copied());
                *at = from + with.len();
            }
            Step::Mask(n) => {
                let from = at.saturating_sub(*n);
                let end = (from + n).min(all.len());
                all[from..end].fill(b'*');
                *at = end;
            }
        }
    }

    fn by_cursor(cursor: &mut StreamCursor<'_>, step: &Step) {
        match step {
            Step::Advance(n) => cursor.advance(*n),
            Step::Back(n) => cursor.back(*n),
            Step::Next => drop(cursor.next()),
            Step::Overwrite(bytes) => cursor.overwrite(bytes),
            Step::Insert(bytes) => cursor.insert(bytes),
            Step::Remove(n) => cursor.remove(*n),
            Step::Replace(n, with) => cursor.replace_back(*n, with),
            Step::Mask(n) => cursor.mask_back(*n, b'*'),
        }
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            mut pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..8), 1..6),
            steps in steps(),
        ) {
            let (mut all, mut at) = (pieces.concat(), 0);
            let mut cursor = StreamCursor::new(&mut pieces, About::default());
            for step in &steps {
                // A replacement that reaches back beyond the beginning takes the following bytes
                // instead: no function asks for that.
                if matches!(step, Step::Replace(n, _) | Step::Mask(n) if *n > at) {
                    continue;
                }
                plainly(&mut all, &mut at, step);
                by_cursor(&mut cursor, step);
                prop_assert_eq!(cursor.remaining(), all.len() - at, "{:?}", step);
            }
            prop_assert_eq!(pieces.concat(), all);
        }

        #[test]
        fn the_rest_is_read_in_order(
            mut pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..8), 1..6),
        ) {
            let all = pieces.concat();
            let cursor = StreamCursor::new(&mut pieces, About::default());
            prop_assert_eq!(cursor.collect::<Vec<u8>>(), all);
        }
    }
}
