//! How a connection is known, and the record that stands for it.

/// 32-bit words of a key. (Few under loom, which counts each.)
pub const KEY_WORDS: usize = if cfg!(loom) { 4 } else { 12 };

/// What a connection is known by: narrow keys (IPv4) have zeros at their end.
pub type Key = [u32; KEY_WORDS];

/// A record that somebody holds: a number below the number of records.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RecordId(pub(super) u32);

impl RecordId {
    /// The number of the record.
    #[inline]
    pub fn index(self) -> u32 {
        self.0
    }

    /// The record of a number that [`RecordId::index`] gave. Whoever makes up a number gets a
    /// panic or another connection's record.
    #[inline]
    pub fn from_index(index: u32) -> RecordId {
        RecordId(index)
    }
}
