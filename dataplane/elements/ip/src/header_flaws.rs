//! Defects of the fixed IPv4 headers of several packets.
//!
//! It is plain arithmetic on arrays of eight numbers. The compiler makes vector instructions of it,
//! of the width that the target has.

use thruway_packet::lanes::{HeaderLanes, LANES, Lane};

/// Not 0 for a header that is not one of 20 bytes of version 4, or with a total length below 20 or
/// above the bytes that are there. With `checksum`, also for a wrong checksum.
#[inline]
pub(super) fn flaws(headers: &HeaderLanes, checksum: bool) -> Lane {
    let total = total_lens(headers);
    let asked = if checksum { u32::from(u16::MAX) } else { 0 };
    let mut flaws = [0; LANES];
    for at in 0..LANES {
        let mut sum = 0;
        for lane in &headers.words {
            sum += (lane[at] & 0xffff) + (lane[at] >> 16);
        }
        // Ten words of 16 bits have at most four bits more, and those at most one.
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        let version = headers.words[0][at] & 0xff ^ 0x45;
        let length = u32::from(total[at] < 20) | u32::from(total[at] > headers.room[at]);
        flaws[at] = version | length | (sum ^ 0xffff) & asked;
    }
    flaws
}

/// The total length that each header says.
#[inline]
pub(super) fn total_lens(headers: &HeaderLanes) -> Lane {
    let mut lens = headers.words[0];
    for word in &mut lens {
        *word = *word >> 24 | *word >> 8 & 0xff00;
    }
    lens
}

/// Source addresses, the first byte lowest.
#[inline]
pub(super) fn sources(headers: &HeaderLanes) -> &Lane {
    &headers.words[3]
}

/// Destination addresses, the first byte lowest.
#[inline]
pub(super) fn destinations(headers: &HeaderLanes) -> &Lane {
    &headers.words[4]
}
