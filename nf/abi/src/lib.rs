//! What the host (the *Master*) and an isolated function (a *Worker*) share: the layout of a link's
//! region and of the control region, the head of a slot, the messages of the handshake.
//!
//! A function built against one version of this page runs with every host that speaks it: one of
//! the versions from [`OLDEST_VERSION`] to [`VERSION`]. What changes an offset, a flag, a message
//! or the call that carries it changes the version. What is added where earlier sides look away is
//! a [feature](features), on which both agree when they meet, and changes no version.
//!
//! All numbers are little-endian (Thruway runs on x86-64 and arm64 only), all offsets are from the
//! beginning of their region.
//!
//! *Absent here:* any access to memory and any system call. This crate only knows where things are.
#![no_std]
#![forbid(unsafe_code)]

pub mod control;
pub mod features;
mod link;
pub mod machine;
pub mod message;
mod slot;
mod stream;

pub use link::{
    HEADER_LEN, INDEX_STRIDE, LinkHeader, LinkLayout, LinkShape, Ring, ShapeError, Token, Word,
};
pub use slot::{HEAD_LEN, SlotHead, arena_stride, flag};
pub use stream::{StreamHead, stream_flag, stream_need};

/// First bytes of every region and message: `THRU` and `WAY` with the page's name.
pub const MAGIC: u64 = u64::from_le_bytes(*b"THRUWAY\0");

/// Version of everything in this crate.
///
/// | version | since then |
/// |---|---|
/// | 2 | sessions: their number, direction and scratch |
/// | 3 | functions of streams |
/// | 4 | HELLO goes by `send`, descriptors come from the host alone: the sandbox has no `sendmsg` |
/// | 5 | a packet that the function kept is not taken back ([`flag::KEPT`]) |
///
/// A function of version 3 or before cannot even say HELLO to this host, so nothing that it sends
/// tells its version: the host names the cause when one ends without HELLO.
pub const VERSION: u32 = 5;

/// The earliest version that a host speaks. `scripts/old-functions` builds functions of the first
/// commit of that version, and a system test runs them. Raising it makes hosts refuse all functions
/// that were built before.
pub const OLDEST_VERSION: u32 = 5;

const _: () = assert!(OLDEST_VERSION <= VERSION);

/// Bytes of a cache line.
pub const LINE_LEN: u32 = 64;

/// Largest length of a packet in a slot, bytes: a jumbo frame with its link header and tags.
pub const FRAME_LEN_MAX: u32 = 16 << 10;

#[cfg(test)]
mod tests;
