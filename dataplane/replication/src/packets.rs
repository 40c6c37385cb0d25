//! Packets that a host passes on to the other one, which serves their traffic now.
//!
//! ```text
//! length of the frame (2) | network (1) | frame
//! ```

/// Bytes in front of a frame.
const HEAD: usize = 3;

/// Appends a frame that came from a network; false, and nothing appended, if there are then more
/// than `len_max` bytes or the frame is none that can travel.
pub fn write_packet(network: usize, frame: &[u8], len_max: usize, out: &mut Vec<u8>) -> bool {
    let (Ok(len), Ok(network)) = (u16::try_from(frame.len()), u8::try_from(network)) else {
        return false;
    };
    if len == 0 || out.len() + HEAD + frame.len() > len_max {
        return false;
    }
    out.extend_from_slice(&len.to_be_bytes());
    out.push(network);
    out.extend_from_slice(frame);
    true
}

/// The packets of a batch, each with its network; nothing follows one that is malformed.
#[derive(Clone, Debug)]
pub struct Packets<'a>(&'a [u8]);

impl<'a> Packets<'a> {
    /// Of these bytes.
    pub fn new(bytes: &'a [u8]) -> Packets<'a> {
        Packets(bytes)
    }

    /// How many there are; `None` if one is malformed.
    pub fn count_valid(bytes: &[u8]) -> Option<u64> {
        let mut packets = Packets(bytes);
        let count = packets.by_ref().count();
        packets.0.is_empty().then_some(count as u64)
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let ([a, b, network], rest) = self.0.split_first_chunk::<HEAD>()?;
        let (frame, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([*a, *b])))?;
        if frame.is_empty() {
            return None;
        }
        self.0 = rest;
        Some((usize::from(*network), frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_come_as_they_were_sent(
            packets in prop::collection::vec(
                (0usize..256, prop::collection::vec(any::<u8>(), 1..200)), 0..9),
        ) {
            let mut bytes = Vec::new();
            for (network, frame) in &packets {
                prop_assert!(write_packet(*network, frame, 4096, &mut bytes));
            }
            let read: Vec<(usize, Vec<u8>)> =
                Packets::new(&bytes).map(|(network, frame)| (network, frame.to_vec())).collect();
            prop_assert_eq!(&read, &packets);
            prop_assert_eq!(Packets::count_valid(&bytes), Some(packets.len() as u64));
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let count = Packets::new(&bytes).count() as u64;
            prop_assert!(Packets::count_valid(&bytes).is_none_or(|valid| valid == count));
        }
    }

    #[test]
    fn what_cannot_travel_is_not_written() {
        let mut bytes = Vec::new();
        assert!(!write_packet(0, &[], 100, &mut bytes), "an empty frame");
        assert!(!write_packet(256, &[1], 100, &mut bytes), "a network that has no number");
        assert!(!write_packet(0, &[1; 98], 100, &mut bytes), "no room");
        assert!(!write_packet(0, &[1; 1 << 16], 1 << 20, &mut bytes), "a frame that is too long");
        assert!(bytes.is_empty());
        assert!(write_packet(0, &[1; 97], 100, &mut bytes));
        assert_eq!(Packets::count_valid(&bytes[..99]), None, "cut short");
    }
}
