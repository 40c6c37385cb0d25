//! Keys of connections, and their records.

/// 32-bit words of a key. (Few under loom, which counts each.)
pub const KEY_WORDS: usize = if cfg!(loom) { 4 } else { 12 };

/// The key of a connection: narrow keys (IPv4) have zeros at their end.
pub type Key = [u32; KEY_WORDS];

/// A held record: a number below the number of records.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RecordId(pub(super) u32);

impl RecordId {
    /// The number of the record.
    #[inline]
    pub fn index(self) -> u32 {
        self.0
    }

    /// The record with a number from [`RecordId::index`]. An invented number causes a panic or
    /// selects another connection's record.
    #[inline]
    pub fn from_index(index: u32) -> RecordId {
        RecordId(index)
    }
}
