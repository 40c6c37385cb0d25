//! The internet checksum (RFC 1071), for frames whose sender left it to hardware.

/// Adds `bytes` to a running sum of 16-bit words in network byte order. Only the last piece of a
/// message may have an odd length.
pub(crate) fn add(mut sum: u64, bytes: &[u8]) -> u64 {
    // Words of 32 bits in a sum of 64 cannot overflow below 4 G words; RFC 1071 section 2 allows any
    // width.
    let words = bytes.chunks_exact(4);
    let tail = words.remainder();
    for word in words {
        sum += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    let mut last = [0; 4];
    last[..tail.len()].copy_from_slice(tail);
    fold(sum + u64::from(u32::from_be_bytes(last)))
}

/// Folds a sum to 16 bits with end-around carries.
fn fold(mut sum: u64) -> u64 {
    while sum > 0xFFFF {
        sum = (sum >> 16) + (sum & 0xFFFF);
    }
    sum
}

/// The checksum of a sum: its complement.
pub(crate) fn finish(sum: u64) -> u16 {
    !(fold(sum) as u16)
}

/// Finishes a checksum whose field, at `start + offset`, holds the sum of the pseudo-header: the
/// sum runs from `start` to the end of the frame. `udp` checksums of zero are sent as all ones
/// (RFC 768). False, and nothing done, if the field is outside the frame.
pub(crate) fn complete(frame: &mut [u8], start: usize, offset: usize, udp: bool) -> bool {
    let at = start + offset;
    if at + 2 > frame.len() {
        return false;
    }
    let checksum = match finish(add(0, &frame[start..])) {
        0 if udp => 0xFFFF,
        checksum => checksum,
    };
    frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_section_3() {
        let bytes = [0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7];
        assert_eq!(add(0, &bytes), 0xDDF2);
        assert_eq!(add(add(0, &bytes[..4]), &bytes[4..]), 0xDDF2);
        assert_eq!(add(0, &bytes[..7]), add(0, &[0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0x00]));
    }

    #[test]
    fn fields_outside_the_frame_are_left_alone() {
        assert!(!complete(&mut [0; 10], 8, 1, false));
        assert!(!complete(&mut [], 0, 0, false));
        assert!(complete(&mut [0; 10], 4, 4, false));
    }
}
