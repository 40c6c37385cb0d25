//! Settings of the engine, from the user and from the functions' needs.

use thruway_payload::Needs;

use super::overlap::Overlap;

/// How much is done to connections: each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Packets are shown as they come.
    Follow,
    /// Payload is put in order.
    Order,
    /// The receiver gets the bytes that functions saw.
    Guard,
    /// Lengths may change: numbers of our own.
    Map,
}

impl Mode {
    /// The least that serves.
    pub fn of(needs: Needs) -> Mode {
        let needs = needs.complete();
        if needs.resize || needs.stall {
            Mode::Map
        } else if needs.guard || needs.close {
            Mode::Guard
        } else if needs.order {
            Mode::Order
        } else {
            Mode::Follow
        }
    }
}

/// Treatment of a connection that would exceed its memory bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AtBound {
    /// Its packets are dropped until there is room: its sender slows down.
    #[default]
    Drop,
    /// Its packets pass without inspection.
    Pass,
    /// It is reset.
    Reset,
}

/// Treatment of urgent data, which receivers take out of the stream or not (RFC 6093).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Urgent {
    /// It is made part of the stream: flag and pointer are cleared.
    #[default]
    Clear,
    /// It goes on as it is.
    Pass,
    /// Segments with urgent data are dropped.
    Drop,
}

/// See the fields.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How much is done.
    pub mode: Mode,
    /// Most connections.
    pub connections_max: usize,
    /// Bytes of packet memory kept of one direction of a connection, waiting in disorder and
    /// waiting to be acknowledged each.
    pub buffer: u32,
    /// The same of all connections, both together.
    pub total: u64,
    /// How many of the packets kept of all connections may be in large frames.
    ///
    /// PERF: eight downloads of 1 MB have 144 in flight. With 128, of which half were kept whole, a
    /// MB cost 811 us instead of 581: `thruway-bench ends --load 1MB`, handlers `split`, `resent`.
    pub large_max: u32,
    /// Nanoseconds after which a connection is reset if its receiver acknowledges no new data, and
    /// segments that wait for a hole are dropped; 0: never.
    pub stall: i64,
    /// The treatment at the bound.
    pub at_bound: AtBound,
    /// Whether connections are taken that were not seen to open.
    pub pick_up: bool,
    /// Treatment of urgent data, where functions guard.
    pub urgent: Urgent,
    /// Which bytes count where waiting segments overlap.
    pub overlap: Overlap,
    /// Whether checksums are verified, where functions guard.
    pub verify: bool,
}

/// Five minutes: the default of TCP's own time limit (RFC 9293 section 3.9.1.1).
pub const STALL_NS: i64 = 300_000_000_000;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            mode: Mode::Order,
            connections_max: 1 << 20,
            buffer: 8 << 20,
            total: 64 << 20,
            large_max: 128,
            stall: STALL_NS,
            at_bound: AtBound::Drop,
            pick_up: true,
            urgent: Urgent::Clear,
            overlap: Overlap::First,
            verify: true,
        }
    }
}
