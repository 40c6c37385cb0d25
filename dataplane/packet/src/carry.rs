//! A packet's metadata, as one process passes it to another.

use crate::meta::{NO_HEADER, PacketKind};
use crate::packet::Packet;

/// Words of the metadata, little-endian: three header positions relative to the packet's first byte
/// (16 bits each; the least number for none) and the kind; annotations (28 bytes) and four unused
/// bytes; the time.
pub const CARRIED_WORDS: usize = 6;

/// Bytes of the metadata.
pub const CARRIED_LEN: usize = 8 * CARRIED_WORDS;

/// Stands for a header that is not known.
const NONE: i16 = i16::MIN;

impl Packet {
    /// Header positions, kind, annotations and time.
    ///
    /// PERF: words, which are made in registers. Bytes that were written one by one and are then
    /// read as a vector wait until all of them are in the cache.
    #[inline]
    pub fn carried(&self) -> [u64; CARRIED_WORDS] {
        let meta = self.meta();
        let relative = |mark: u16| match mark {
            NO_HEADER => NONE,
            at => i16::try_from(i64::from(at) - i64::from(meta.start)).unwrap_or(NONE),
        };
        let place = |mark: u16, nth: u32| u64::from(relative(mark).cast_unsigned()) << (16 * nth);
        let (words, rest) = meta.anno.as_chunks::<8>();
        let anno = |nth: usize| words.get(nth).copied().map_or(0, u64::from_le_bytes);
        let rest = rest.first_chunk::<4>().copied().map_or(0, u32::from_le_bytes);
        [
            place(meta.l2, 0) | place(meta.l3, 1) | place(meta.l4, 2) | (self.kind() as u64) << 48,
            anno(0),
            anno(1),
            anno(2),
            rest.into(),
            meta.timestamp.cast_unsigned(),
        ]
    }

    /// Takes the metadata that another process sent with these bytes. Nothing of it is trusted: a
    /// header outside of frame and packet is ignored, an unknown kind becomes the usual one.
    #[inline]
    pub fn set_carried(&mut self, words: &[u64; CARRIED_WORDS]) {
        let end = (self.headroom() + self.len()) as i64;
        let meta = self.meta_mut();
        let [heads, first, second, third, last, time] = *words;
        let absolute = |nth: u32| {
            let relative = ((heads >> (16 * nth)) as u16).cast_signed();
            let mark = i64::from(meta.start) + i64::from(relative);
            let is_known = relative != NONE && (0..=end).contains(&mark);
            u16::try_from(mark).ok().filter(|_| is_known).unwrap_or(NO_HEADER)
        };
        (meta.l2, meta.l3, meta.l4) = (absolute(0), absolute(1), absolute(2));
        for (to, word) in meta.anno.chunks_mut(8).zip([first, second, third, last]) {
            let bytes = word.to_le_bytes();
            to.copy_from_slice(&bytes[..to.len()]);
        }
        meta.timestamp = time.cast_signed();
        self.set_kind(PacketKind::of((heads >> 48) as u8));
    }
}

/// The metadata, as bytes.
#[inline]
pub fn carried_bytes(words: &[u64; CARRIED_WORDS]) -> [u8; CARRIED_LEN] {
    let mut bytes = [0; CARRIED_LEN];
    for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    bytes
}

/// The same from bytes.
#[inline]
pub fn carried_words(bytes: &[u8; CARRIED_LEN]) -> [u64; CARRIED_WORDS] {
    let mut words = [0; CARRIED_WORDS];
    for (to, word) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *to = u64::from_le_bytes(*word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anno::Anno;

    #[test]
    fn what_is_known_arrives() {
        let mut packet = Packet::new(&[7; 60]).unwrap();
        packet.set_mac_offset(0);
        packet.set_network(14, 20);
        packet.set_dst_ip([1, 2, 3, 4]);
        packet.set_kind(PacketKind::Multicast);
        packet.set_timestamp(-5);
        assert!(packet.pull(14));
        let mut other = Packet::new(&[9; 46]).unwrap();
        assert!(other.push(3) && other.pull(3));
        other.set_carried(&packet.carried());
        assert_eq!(other.mac_offset(), Some(-14));
        assert_eq!(other.network_offset(), Some(0));
        assert_eq!(other.transport_offset(), Some(20));
        assert_eq!((other.dst_ip(), other.kind()), ([1, 2, 3, 4], PacketKind::Multicast));
        assert_eq!(other.timestamp(), -5);
        assert_eq!(other.data(), [9; 46]);
    }

    #[test]
    fn bytes_are_the_words() {
        let bytes = std::array::from_fn(|nth| nth as u8);
        assert_eq!(carried_bytes(&carried_words(&bytes)), bytes);
        let mut packet = Packet::new(&[7; 60]).unwrap();
        for at in 0..28 {
            packet.set_anno_number(Anno::at(at, 1).unwrap(), at as u32 + 1);
        }
        let bytes = carried_bytes(&packet.carried());
        assert_eq!(bytes[8..36], (1..=28).collect::<Vec<u8>>());
        assert_eq!(bytes[36..40], [0; 4]);
    }

    #[test]
    fn lies_do_no_harm() {
        for byte in [0x00, 0x7f, 0x80, 0xff] {
            let mut packet = Packet::new(&[7; 10]).unwrap();
            packet.set_carried(&carried_words(&[byte; CARRIED_LEN]));
            let _ = (packet.mac(), packet.network(), packet.transport(), packet.mac_bytes(14));
            assert_eq!(packet.data(), [7; 10]);
        }
    }
}
