//! Bytes put in and taken out of the middle of a packet.

use thruway_packet::Packet;

/// Replaces `len` bytes at `at` by `with` (both in `data()`), moving the shorter side; the marks of
/// headers before `at` stay right. False, and nothing changed, when the range is not within the
/// packet, or there is no memory for it.
#[must_use]
pub fn splice(packet: &mut Packet, at: usize, len: usize, with: &[u8]) -> bool {
    let Some(end) = at.checked_add(len).filter(|end| *end <= packet.len()) else { return false };
    let same = len.min(with.len());
    if with.len() > len {
        if !grow(packet, end, with.len() - len) {
            return false;
        }
    } else if len > with.len() {
        shrink(packet, at + same, len - same);
    }
    packet.data_mut()[at..at + with.len()].copy_from_slice(with);
    true
}

/// Makes a gap of `n` bytes at `at`.
fn grow(packet: &mut Packet, at: usize, n: usize) -> bool {
    let len = packet.len();
    // PERF: when held-back bytes are put in front of the content, little else than headers precedes
    // the gap.
    if at <= len - at && n <= packet.headroom() {
        if !packet.push(n) {
            return false;
        }
        packet.data_mut().copy_within(n..n + at, 0);
        packet.move_marks(-(n as isize));
    } else {
        if !packet.put(n) {
            return false;
        }
        packet.data_mut().copy_within(at..len, at + n);
    }
    true
}

/// Takes `n` bytes at `at` out.
fn shrink(packet: &mut Packet, at: usize, n: usize) {
    let len = packet.len();
    if at < len - at - n {
        packet.data_mut().copy_within(0..at, n);
        // There are more bytes than these.
        let _ = packet.pull(n);
        packet.move_marks(n as isize);
    } else {
        packet.data_mut().copy_within(at + n.., at);
        packet.truncate(len - n);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_a_vector_does_it(
            bytes in prop::collection::vec(any::<u8>(), 54..400),
            edits in prop::collection::vec((any::<u16>(), 0..60usize, prop::collection::vec(any::<u8>(), 0..200)), 0..8),
        ) {
            let mut packet = Packet::new(&bytes).unwrap();
            packet.set_mac_offset(0);
            packet.set_network(14, 20);
            let mut plain = bytes;
            for (at, len, with) in &edits {
                let at = 54 + usize::from(*at) % (plain.len() - 53);
                let len = (*len).min(plain.len() - at);
                prop_assert!(splice(&mut packet, at, len, with));
                plain.splice(at..at + len, with.iter().copied());
                prop_assert_eq!(packet.data(), &plain[..]);
                prop_assert_eq!(packet.mac_offset(), Some(0));
                prop_assert_eq!(packet.network_offset(), Some(14));
                prop_assert_eq!(packet.transport_offset(), Some(34));
            }
        }
    }

    #[test]
    fn what_is_outside_is_refused() {
        let mut packet = Packet::new(&[1; 60]).unwrap();
        assert!(!splice(&mut packet, 50, 11, b""));
        assert!(!splice(&mut packet, usize::MAX, 2, b""));
        assert_eq!(packet.data(), [1; 60]);
    }
}
