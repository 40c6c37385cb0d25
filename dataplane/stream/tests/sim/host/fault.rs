//! What a correct peer never sends.

/// A rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Lengths, checksums or addresses are wrong.
    Frame,
    /// Flags that do not go together.
    Flags,
    /// An acknowledgement of what was never sent.
    AckBeyond,
    /// Selective acknowledgements of what was never sent, of nothing, or of what is acknowledged.
    Blocks,
    /// Data beyond the window that was advertised.
    Overrun,
    /// Data before the beginning of the stream.
    BeforeStart,
    /// A segment longer than was announced to be welcome.
    TooLong,
    /// The right edge of the window went to the left.
    WindowShrunk,
    /// In-order data with a timestamp older than what was seen.
    Stale,
    /// The echo of a timestamp that was never sent.
    Echo,
    /// Options that were not agreed upon, or not those that were.
    Options,
    /// Other bytes with sequence numbers seen before.
    Content,
    /// Data behind the end, or a second end elsewhere.
    AfterFin,
}

/// One occasion.
#[derive(Debug, Clone)]
pub struct Violation {
    pub fault: Fault,
    pub detail: String,
}
