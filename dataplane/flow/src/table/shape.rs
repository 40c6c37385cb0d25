//! The layout and the bounds of a pool's records.

/// Most sessions of a pool.
pub const SESSIONS_MAX: u32 = (1 << 30) - 1;
/// Longest scratch, in bytes.
pub const SCRATCH_LEN_MAX: usize = 1 << 16;

/// Most words of a key.
pub const KEY_WORDS_MAX: usize = 16;

/// The layout of all records of a pool.
#[derive(Clone, Debug)]
pub struct Shape {
    /// 32-bit words of a key: at least 1, at most [`KEY_WORDS_MAX`].
    pub key_words: usize,
    /// Whether records may have a second key.
    pub alias: bool,
    /// Words beside keys and scratch.
    pub extra_words: usize,
    /// Bytes of scratch, at most [`SCRATCH_LEN_MAX`].
    pub scratch_len: usize,
    /// Alignment of scratch in memory: a power of two up to 64; less than 8 counts as 8.
    pub scratch_align: usize,
    /// The initial bytes of scratch; zeros follow.
    pub initial: Box<[u8]>,
    /// Most sessions, at most [`SESSIONS_MAX`].
    pub sessions_max: u32,
}
