//! The control region: one per Worker, shared by it and the host. It holds the wake-up word, what
//! the host asks, and what the Worker reports on itself.
//!
//! ```text
//! 0      magic, version
//! 128    STATUS     the wake-up word (a futex), written by both
//! 256    COMMAND    written by the host
//! 260    REQUESTS   written by the host: changes whenever it sent a request on the socket
//! 264    WORKER_THRESHOLD  written by the host, then REQUESTS
//! 384    HEARTBEAT  written by the Worker: changes whenever it made progress
//! 512    figures    64-bit numbers of the Worker: see `Figure`
//! 1024   counters   COUNTERS entries of COUNTER_LEN bytes: name (NUL-padded), value (u64)
//! ```

/// Bytes of the region.
pub const LEN: u32 = 8192;

/// Offset of the wake-up word: [`RUNNING`], [`WAITING`] or [`SIGNED`].
pub const STATUS: u32 = 128;
/// Offset of what the host asks: [`RUN`], [`DRAIN`].
pub const COMMAND: u32 = 256;
/// Offset of a number that the host changes after it sent a READ or WRITE; it rings the bell then.
/// So a Worker under load need not ask the kernel whether a request waits.
pub const REQUESTS: u32 = 260;
/// Offset of the threshold (WORKER_PKT_THRESHOLD) that the Worker is to use from now on; 0: that of
/// its WELCOME. The host announces a change as it announces a request.
pub const WORKER_THRESHOLD: u32 = 264;
/// Offset of a number that changes whenever the Worker made progress.
pub const HEARTBEAT: u32 = 384;
/// Offset of the Worker's figures.
pub const FIGURES: u32 = 512;
/// Offset of the function's own counters.
pub const COUNTERS: u32 = 1024;

/// Status: the Worker is awake.
pub const RUNNING: u32 = 0;
/// Status: the Worker sleeps or is about to; who has tokens for it must wake it.
pub const WAITING: u32 = 1;
/// Status: a Master is waking it (the paper's SIGNED).
pub const SIGNED: u32 = 2;

/// Command: go on.
pub const RUN: u32 = 0;
/// Command: finish what waits, then exit.
pub const DRAIN: u32 = 1;

/// A 64-bit number that the Worker reports on itself, at `FIGURES + 8 * figure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Figure {
    /// Times it went to sleep.
    Sleeps = 0,
    /// Times it was woken by a Master.
    WakeUps = 1,
    /// Auxiliary packets that found their ring full and were dropped (Algorithm 6 line 6).
    AuxFull = 2,
    /// Injected packets that found their ring full and were refused.
    InjectionFull = 3,
}

/// Counters that a function may have.
pub const COUNTERS_MAX: u32 = 128;
/// Bytes of a counter's name, NUL-padded UTF-8.
pub const COUNTER_NAME_LEN: u32 = 40;
/// Bytes of a counter: name, value.
pub const COUNTER_LEN: u32 = COUNTER_NAME_LEN + 8;

const _: () = assert!(COUNTERS + COUNTERS_MAX * COUNTER_LEN <= LEN);
const _: () = assert!(COUNTER_NAME_LEN.is_multiple_of(8));
