//! Output of decompression.

use flate2::{Decompress, FlushDecompress, Status};

use super::fault::Fault;

/// Bytes that are unpacked at once.
pub(super) const STEP: usize = 16 << 10;

/// The output of decompression.
pub(super) struct OutputBuffer<'a> {
    pub(super) bytes: &'a mut Vec<u8>,
    pub(super) limit: usize,
}

impl OutputBuffer<'_> {
    /// Work that makes no bytes, as if it had made so many.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.limit = self.limit.saturating_sub(bytes);
    }

    /// Has `make` append some bytes; gives them.
    pub(super) fn append(
        &mut self,
        make: impl FnOnce(&mut Vec<u8>) -> Result<(), Fault>,
    ) -> Result<&[u8], Fault> {
        let start = self.bytes.len();
        if start >= self.limit {
            return Err(Fault::Bomb);
        }
        make(self.bytes)?;
        Ok(&self.bytes[start..])
    }

    /// Lets `make` fill some bytes; it returns their number.
    pub(super) fn fill<T>(
        &mut self,
        make: impl FnOnce(&mut [u8]) -> Result<(usize, T), Fault>,
    ) -> Result<(usize, T), Fault> {
        let start = self.bytes.len();
        if start >= self.limit {
            return Err(Fault::Bomb);
        }
        self.bytes.resize(start + STEP, 0);
        let result = make(&mut self.bytes[start..]);
        self.bytes.truncate(start + result.as_ref().map_or(0, |(made, _)| *made));
        result
    }
}

/// Decompresses the available bytes: returns how many were taken, the output, and whether it was
/// the end.
pub(super) fn inflate<'o>(
    state: &mut Decompress,
    bytes: &[u8],
    out: &'o mut OutputBuffer<'_>,
) -> Result<(usize, &'o [u8], bool), Fault> {
    let (mut left, from) = (bytes, out.bytes.len());
    loop {
        let (made, (taken, status)) = out.fill(|space| {
            let before = (state.total_in(), state.total_out());
            let status = state.decompress(left, space, FlushDecompress::None);
            let status = status.map_err(|_| Fault::BadCoding)?;
            let taken = (state.total_in() - before.0) as usize;
            Ok(((state.total_out() - before.1) as usize, (taken, status)))
        })?;
        left = &left[taken..];
        let is_over = status == Status::StreamEnd;
        if is_over || (left.is_empty() && made < STEP) {
            return Ok((bytes.len() - left.len(), &out.bytes[from..], is_over));
        }
        if taken == 0 && made == 0 {
            return Err(Fault::BadCoding);
        }
    }
}
