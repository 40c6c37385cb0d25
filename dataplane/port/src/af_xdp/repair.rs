//! Checksums that a local stack left to hardware which a virtual interface does not have.
//!
//! The sender's kernel notes such a frame beside it (`CHECKSUM_PARTIAL`), and AF_XDP hands over the
//! frame alone. But the field of such a frame holds the sum of its pseudo header, and a frame with
//! that field either has its checksum open, or has a right one that happens to be the same: then
//! completing it writes what was there. (Of damaged frames one in 65,536 is taken for an open one,
//! where the kernel, too, would not look.)

use thruway_wire::checksum::Sum;
use thruway_wire::ip_protocol::{TCP, UDP};

const ETHERNET_LEN: usize = 14;
const VLAN_LEN: usize = 4;

/// A TCP or UDP segment within a frame.
struct Segment {
    start: usize,
    end: usize,
    /// Where the checksum stands.
    field: usize,
    pseudo: Sum,
    is_udp: bool,
}

/// Completes the checksum of TCP or UDP in an Ethernet frame if it was left open; says whether.
#[inline]
pub(super) fn complete_checksum(frame: &mut [u8]) -> bool {
    let Some(segment) = segment(frame) else { return false };
    let Some(field) = frame.get(segment.field..segment.field + 2) else { return false };
    // The sum itself, where `checksum` is its complement.
    if field != (!segment.pseudo.checksum()).to_be_bytes() {
        return false;
    }
    let Some(bytes) = frame.get(segment.start..segment.end) else { return false };
    // With the pseudo header's sum in the field, the sum over the segment is over both.
    let sum = Sum::ZERO.with(bytes);
    let checksum = if segment.is_udp { sum.checksum_udp() } else { sum.checksum() };
    frame[segment.field..segment.field + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

fn segment(frame: &[u8]) -> Option<Segment> {
    let mut at = ETHERNET_LEN;
    loop {
        match frame.get(at - 2..at)? {
            [0x08, 0x00] => return segment_v4(frame, at),
            [0x86, 0xDD] => return segment_v6(frame, at),
            [0x81, 0x00] | [0x88, 0xA8] if at < ETHERNET_LEN + 2 * VLAN_LEN => at += VLAN_LEN,
            _ => return None,
        }
    }
}

fn segment_v4(frame: &[u8], at: usize) -> Option<Segment> {
    let header = frame.get(at..at + 20)?;
    let header_len = usize::from(header[0] & 0x0F) * 4;
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // A fragment's checksum is never left open.
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3FFF != 0;
    let len = total_len.checked_sub(header_len)?;
    if header[0] >> 4 != 4 || header_len < 20 || is_fragment {
        return None;
    }
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let pseudo = || Sum::pseudo_v4(word(12), word(16), header[9], len);
    of_transport(header[9], at + header_len, len, pseudo)
}

fn segment_v6(frame: &[u8], at: usize) -> Option<Segment> {
    let header = frame.get(at..at + 40)?;
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    // Behind extension headers checksums may be open too; local stacks send none with TCP or UDP
    // unless an application asks for them.
    let address = |at: usize| header[at..at + 16].try_into().expect("sixteen bytes");
    let pseudo = || Sum::pseudo_v6(&address(8), &address(24), header[6], len);
    of_transport(header[6], at + 40, len, pseudo)
}

#[inline]
fn of_transport(
    protocol: u8,
    start: usize,
    len: usize,
    pseudo: impl FnOnce() -> Sum,
) -> Option<Segment> {
    let (offset, header_len) = match protocol {
        TCP => (16, 20),
        UDP => (6, 8),
        _ => return None,
    };
    (len >= header_len).then(|| Segment {
        start,
        end: start + len,
        field: start + offset,
        pseudo: pseudo(),
        is_udp: protocol == UDP,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A frame with an open (`partial`) or valid checksum, and the place of its field.
    fn frame(v6: bool, udp: bool, tags: usize, payload: &[u8], partial: bool) -> (Vec<u8>, usize) {
        let mut frame = vec![2; 12];
        for _ in 0..tags {
            frame.extend([0x81, 0x00, 0x00, 0x07]);
        }
        let protocol = if udp { UDP } else { TCP };
        let mut segment = vec![1; if udp { 8 } else { 20 }];
        segment.extend(payload);
        let (len, at) = (segment.len() as u16, if udp { 6 } else { 16 });
        segment[at..at + 2].fill(0);
        let pseudo = if v6 {
            frame.extend([0x86, 0xDD, 0x60, 0, 0, 0]);
            frame.extend(len.to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend(0..32);
            let address = |from: u8| std::array::from_fn(|i| from + i as u8);
            Sum::pseudo_v6(&address(0), &address(16), protocol, len.into())
        } else {
            frame.extend([0x08, 0x00, 0x45, 0]);
            frame.extend((len + 20).to_be_bytes());
            frame.extend([0, 9, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            Sum::pseudo_v4(0x0A00_0001, 0x0A00_0002, protocol, len.into())
        };
        let whole = pseudo.with(&segment);
        let right = if udp { whole.checksum_udp() } else { whole.checksum() };
        let field = if partial { !pseudo.checksum() } else { right };
        segment[at..at + 2].copy_from_slice(&field.to_be_bytes());
        let place = frame.len() + at;
        frame.extend(segment);
        (frame, place)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn open_checksums_become_right_ones_and_right_ones_stay(
            (v6, udp) in any::<(bool, bool)>(),
            tags in 0..3_usize,
            payload in prop::collection::vec(any::<u8>(), 0..200),
            padding in 0..20_usize,
        ) {
            let (mut right, _) = frame(v6, udp, tags, &payload, false);
            let (mut open, place) = frame(v6, udp, tags, &payload, true);
            // Behind the packet there may be padding of any content.
            right.extend(vec![0xAB; padding]);
            open.extend(vec![0xAB; padding]);
            prop_assert!(complete_checksum(&mut open));
            prop_assert_eq!(&open, &right);
            complete_checksum(&mut right);
            prop_assert_eq!(&open, &right);
            // A wrong one is left as it is, unless it looks open.
            let mut wrong = right.clone();
            wrong[place] ^= 0x55;
            let before = wrong.clone();
            if !complete_checksum(&mut wrong) {
                prop_assert_eq!(wrong, before);
            }
        }

        #[test]
        fn hostile_frames_are_left_alone_or_completed_without_panic(
            (v6, udp) in any::<(bool, bool)>(),
            tags in 0..4_usize,
            cut in any::<prop::sample::Index>(),
            at in any::<prop::sample::Index>(),
            value in any::<u8>(),
        ) {
            let (mut frame, _) = frame(v6, udp, tags, &[7; 40], true);
            let at = at.index(frame.len());
            frame[at] = value;
            frame.truncate(cut.index(frame.len()));
            complete_checksum(&mut frame);
        }
    }

    #[test]
    fn fragments_and_other_protocols_are_left_alone() {
        for (at, value) in [(20, 0x20), (21, 0x01), (23, 1), (14, 0x55), (12, 0x09)] {
            let (mut frame, _) = frame(false, false, 0, &[1, 2, 3], true);
            frame[at] = value;
            assert!(!complete_checksum(&mut frame), "byte {at}");
        }
    }
}
