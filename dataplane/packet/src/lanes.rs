//! The beginnings of several headers side by side: an array for each word, a lane for each packet.

use crate::packet::Packet;

/// Packets side by side: as many words as a vector of 256 bits has.
pub const LANES: usize = 8;

/// A word of each packet.
pub type Lane = [u32; LANES];

/// Words of a header without options.
const WORDS: usize = 5;

/// The first 20 bytes from some offset on in packets, as words of four bytes, the first byte
/// lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderLanes {
    /// The words.
    pub words: [Lane; WORDS],
    /// Bytes from there to the end of the packet.
    pub room: Lane,
}

impl HeaderLanes {
    /// Those from `offset` on; `None` when a packet has fewer bytes.
    #[inline(always)]
    pub fn of(packets: &[Packet; LANES], offset: usize) -> Option<HeaderLanes> {
        let offset = u32::try_from(offset).ok()?;
        let (mut begins, mut lens) = ([core::ptr::null(); LANES], [0; LANES]);
        let mut shortest = u32::MAX;
        // PERF: loops, not `map`: that of arrays is a call unless the whole program is optimised
        // as one, 150 instructions a packet.
        for (at, packet) in packets.iter().enumerate() {
            let meta = packet.meta();
            begins[at] =
                meta.frame().wrapping_add(meta.start as usize + offset as usize).cast_const();
            lens[at] = meta.len;
            shortest = shortest.min(meta.len);
        }
        if u64::from(shortest) < u64::from(offset) + 4 * WORDS as u64 {
            return None;
        }
        for len in &mut lens {
            *len -= offset;
        }
        // JUSTIFICATION: eight headers in a few vector moves instead of forty loads and stores.
        // SAFETY: each packet has 20 bytes from there on (its length was tested), they are the
        // packet's, which is borrowed.
        let words = unsafe { side_by_side(&begins) };
        Some(HeaderLanes { words, room: lens })
    }
}

/// Consecutive words, side by side.
///
/// # Safety
/// There are 20 bytes at each place.
#[inline(always)]
#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2", not(miri))))]
unsafe fn side_by_side(begins: &[*const u8; LANES]) -> [Lane; WORDS] {
    let mut words = [[0; LANES]; WORDS];
    for (at, begin) in begins.iter().enumerate() {
        for (nth, lane) in words.iter_mut().enumerate() {
            // JUSTIFICATION: as at the call.
            // SAFETY: as the caller promises; the bytes need no alignment.
            lane[at] = u32::from_le(unsafe { begin.add(4 * nth).cast::<u32>().read_unaligned() });
        }
    }
    words
}

/// The same: a first word by itself, the other four as a square that is turned over.
///
/// # Safety
/// There are 20 bytes at each place.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", target_feature = "avx2", not(miri)))]
unsafe fn side_by_side(begins: &[*const u8; LANES]) -> [Lane; WORDS] {
    use core::arch::x86_64::*;
    // JUSTIFICATION: as at the call.
    // SAFETY: as the caller promises: 4 and then 16 bytes at each place, which need no alignment.
    // AVX2 is there (tested when this was compiled), and vectors of 32 bytes are eight words.
    unsafe {
        let mut first = [0; LANES];
        for (at, begin) in begins.iter().enumerate() {
            first[at] = begin.cast::<u32>().read_unaligned();
        }
        let pair = |at: usize| {
            let low = _mm_loadu_si128(begins[at].add(4).cast());
            let high = _mm_loadu_si128(begins[at + 4].add(4).cast());
            _mm256_set_m128i(high, low)
        };
        let rows = [pair(0), pair(1), pair(2), pair(3)];
        let low =
            [_mm256_unpacklo_epi32(rows[0], rows[1]), _mm256_unpacklo_epi32(rows[2], rows[3])];
        let high =
            [_mm256_unpackhi_epi32(rows[0], rows[1]), _mm256_unpackhi_epi32(rows[2], rows[3])];
        let lane = |vector: __m256i| core::mem::transmute::<__m256i, Lane>(vector);
        [
            first,
            lane(_mm256_unpacklo_epi64(low[0], low[1])),
            lane(_mm256_unpackhi_epi64(low[0], low[1])),
            lane(_mm256_unpacklo_epi64(high[0], high[1])),
            lane(_mm256_unpackhi_epi64(high[0], high[1])),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_side_by_side() {
        let packet = |nth: u8| {
            let bytes: Vec<u8> = (0..40 + nth).map(|at| nth.wrapping_mul(40) ^ at).collect();
            Packet::new(&bytes).expect("memory")
        };
        let packets: [Packet; LANES] = core::array::from_fn(|nth| packet(nth as u8));
        for offset in [0, 3, 14, 20] {
            let lanes = HeaderLanes::of(&packets, offset).expect("they are long enough");
            for (at, packet) in packets.iter().enumerate() {
                let bytes = &packet.data()[offset..];
                assert_eq!(lanes.room[at] as usize, bytes.len());
                for (nth, four) in bytes.as_chunks::<4>().0[..5].iter().enumerate() {
                    assert_eq!(lanes.words[nth][at], u32::from_le_bytes(*four), "{offset} {at}");
                }
            }
        }
        assert_eq!(HeaderLanes::of(&packets, 21), None, "the first one ends before");
        assert_eq!(HeaderLanes::of(&packets, usize::MAX), None);
    }
}
