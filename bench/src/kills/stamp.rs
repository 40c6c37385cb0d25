//! What `thruway-bench kills` and its function write into packets: where in a packet it stands.

use std::ops::Range;

/// Which process of the function had it: when that began, in nanoseconds.
pub const PROCESS: Range<usize> = 42..50;
/// How many packets of its session the function has had.
pub const COUNT: Range<usize> = 50..54;
/// The packet's number.
pub const NUMBER: Range<usize> = 54..62;
