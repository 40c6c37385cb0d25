//! What is still to be read of an expression.

/// The bytes still to be read.
pub(super) struct Rest<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Rest<'a> {
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    pub(super) fn after(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub(super) fn skip(&mut self, n: usize) {
        self.at = (self.at + n).min(self.bytes.len());
    }

    /// Moves behind `what` if it stands here.
    pub(super) fn take(&mut self, what: &[u8]) -> bool {
        let here = self.after().starts_with(what);
        self.skip(if here { what.len() } else { 0 });
        here
    }

    /// To the beginning of the next line, or the end.
    pub(super) fn skip_line(&mut self) {
        let after = self.after();
        self.skip(after.iter().position(|byte| *byte == b'\n').map_or(after.len(), |at| at + 1));
    }

    /// The bytes to the next `end`, which is skipped.
    pub(super) fn until(&mut self, end: &[u8]) -> Option<&'a [u8]> {
        let after = self.after();
        let len = after.windows(end.len()).position(|window| window == end)?;
        self.skip(len + end.len());
        Some(&after[..len])
    }
}

/// A byte that stands for itself.
pub(super) fn literal(byte: u8, out: &mut String) {
    if byte.is_ascii_alphanumeric() {
        out.push(char::from(byte));
    } else {
        out.push_str(&format!("\\x{byte:02X}"));
    }
}
