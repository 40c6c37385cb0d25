//! What one step in a file comes upon.

use super::linktype::LinkType;

/// A frame's place: the next `len` bytes of the source, then `padding`.
pub(super) struct Located {
    pub(super) len: usize,
    pub(super) wire_len: u32,
    pub(super) timestamp_ns: u64,
    pub(super) link: LinkType,
    pub(super) interface: u32,
    pub(super) padding: usize,
}

/// What one step in a file came upon.
pub(super) enum Step {
    Frame(Located),
    Other,
    End,
}
