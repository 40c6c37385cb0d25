//! Counters of the beginning of the context of HTTP.

use super::fault::Fault;

/// Counters of [`Enter`](super::Enter).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnterCounts {
    /// Heads of requests.
    pub requests: u64,
    /// Heads of responses, interim ones included.
    pub responses: u64,
    /// Messages with a body that functions are shown.
    pub shown: u64,
    /// Messages with a body that they are not shown.
    pub hidden: u64,
    /// Messages with a body that is decompressed for functions.
    pub unpacked: u64,
    /// Messages with chunk extensions or trailers that functions inspected.
    pub asides: u64,
    /// Connections that became something else than HTTP.
    pub switched: u64,
    /// Connections closed because there was no memory.
    pub no_memory: u64,
    /// Connections refused, by fault.
    pub refused: [u64; Fault::ALL.len()],
    /// Packets with faults that were put up with, by fault.
    pub tolerated: [u64; Fault::ALL.len()],
}

impl Default for EnterCounts {
    fn default() -> EnterCounts {
        EnterCounts {
            requests: 0,
            responses: 0,
            shown: 0,
            hidden: 0,
            unpacked: 0,
            asides: 0,
            switched: 0,
            no_memory: 0,
            refused: [0; Fault::ALL.len()],
            tolerated: [0; Fault::ALL.len()],
        }
    }
}
