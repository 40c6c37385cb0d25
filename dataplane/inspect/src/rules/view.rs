//! What there is of a buffer.

use crate::rules::buffer::Buffer;

/// What there is of a buffer, and what of it is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Place of the first of them in the buffer: above 0 where the bytes before it are gone.
    pub base: u64,
    /// Number of bytes seen before. Matches completely within them were reported then.
    pub since: usize,
    /// Nothing was reported on the buffer before.
    pub fresh: bool,
}

impl<'a> View<'a> {
    /// Everything, for the first time.
    pub const fn new(bytes: &'a [u8]) -> View<'a> {
        View { bytes, base: 0, since: 0, fresh: true }
    }

    /// Everything, but it was reported before.
    pub const fn old(bytes: &'a [u8]) -> View<'a> {
        View { bytes, base: 0, since: usize::MAX, fresh: false }
    }

    /// Whether there is something new: so that what stands at the end is not what it was.
    pub(super) const fn has_new(&self) -> bool {
        self.since < self.bytes.len()
    }
}

/// Where the bytes of buffers come from.
pub trait Views {
    /// What there is of a buffer; none where there is no such buffer (now).
    fn view(&self, buffer: Buffer) -> Option<View<'_>>;
}
