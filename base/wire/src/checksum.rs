//! The internet checksum: full (RFC 1071), with pseudo headers, and incremental (RFC 1624).
//!
//! Checksums are host values, as the accessors of the headers give and take them.
//!
//! ```
//! use thruway_wire::{checksum::{self, Delta, Sum}, ip_protocol};
//!
//! let mut data = [0x45, 0x00, 0x12, 0x34];
//! let before = checksum::checksum(&data);
//! let delta = Delta::of_u16(0x1234, 0xfffe);
//! data[2..].copy_from_slice(&0xfffe_u16.to_be_bytes());
//! assert_eq!(delta.apply(before), checksum::checksum(&data));
//! let pseudo = Sum::pseudo_v4(0x0a00_0001, 0x0a00_0002, ip_protocol::TCP, data.len());
//! assert_ne!(pseudo.with(&data).checksum(), before);
//! ```

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One's complement sum of bytes, taken two at a time in network order. Parts may be added in any
/// lengths, odd ones too: the result is that of their concatenation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Of native-order words, folded to 16 bits: RFC 1071 section 2 (B) allows any byte order.
    native: u16,
    /// The next byte is the second one of its word.
    odd: bool,
}

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Self = Self { native: 0, odd: false };

    /// Adds bytes behind those already summed.
    #[must_use]
    #[inline]
    pub fn with(self, bytes: &[u8]) -> Self {
        let part = fold(native_sum(bytes));
        let part = if self.odd { part.swap_bytes() } else { part };
        Self { native: add16(self.native, part), odd: self.odd ^ (bytes.len() % 2 == 1) }
    }

    /// Pseudo header of a TCP, UDP... segment of `len` bytes in IPv4 (RFC 9293 section 3.1).
    #[must_use]
    #[inline]
    pub fn pseudo_v4(src: u32, dst: u32, protocol: u8, len: usize) -> Self {
        let addresses = u64::from(src) + u64::from(dst);
        Self::of_host(addresses + u64::from(protocol) + (len as u64 & 0xffff_ffff))
    }

    /// Pseudo header of a TCP, UDP, ICMPv6... packet of `len` bytes in IPv6 (RFC 8200, 8.1).
    #[must_use]
    #[inline]
    pub fn pseudo_v6(src: &[u8; 16], dst: &[u8; 16], protocol: u8, len: usize) -> Self {
        let fixed = Self::of_host(u64::from(protocol) + (len as u64 & 0xffff_ffff));
        fixed.add_16(src).add_16(dst)
    }

    /// The value for the checksum field; over data that has its checksum in it, 0 when right.
    #[must_use]
    #[inline]
    pub const fn checksum(self) -> u16 {
        !u16::from_be(self.native)
    }

    /// As [`Sum::checksum`] for UDP, where 0 means "none" and is sent as 0xffff (RFC 768).
    #[must_use]
    #[inline]
    pub const fn checksum_udp(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            value => value,
        }
    }

    /// Of a sum of host-order words.
    #[inline]
    fn of_host(sum: u64) -> Self {
        Self { native: fold(sum).to_be(), odd: false }
    }

    #[inline]
    fn add_16(self, bytes: &[u8; 16]) -> Self {
        let n = u128::from_ne_bytes(*bytes);
        // Truncations take the halves apart.
        let halves = (n as u64 as u128) + (n >> 64);
        let sum = (halves as u64 & 0xffff_ffff) + ((halves >> 32) as u64);
        Self { native: add16(self.native, fold(sum)), odd: self.odd }
    }
}

/// The checksum of `bytes` (RFC 1071), for a field that is zero in them; 0 over data that has its
/// right checksum in it.
#[must_use]
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::ZERO.with(bytes).checksum()
}

/// [`checksum`] of a 20-byte IPv4 header, without a loop.
#[must_use]
#[inline]
pub fn checksum_20(header: &[u8; 20]) -> u16 {
    let (words, _) = header.as_chunks::<4>();
    let mut sum = 0;
    for word in words {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    !u16::from_be(fold(sum))
}

/// The change of a checksum when covered data changes: -m + m' of RFC 1624 equation 3. Computed
/// once (per flow, say) it can be applied to every packet.
///
/// Gives the result of a full recomputation, with 0x0000 and 0xffff distinguished, as long as some
/// covered byte stays other than zero: always so for IP, TCP, UDP and ICMPv6, which have a constant
/// in their headers or pseudo headers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(transparent)]
pub struct Delta(u16);

impl Delta {
    /// No change.
    pub const NONE: Self = Self(0);

    /// An aligned 16-bit field goes from `old` to `new`.
    #[must_use]
    #[inline]
    pub const fn of_u16(old: u16, new: u16) -> Self {
        Self(add16(!old, new))
    }

    /// The first byte of an aligned 16-bit word goes from `old` to `new`.
    #[must_use]
    #[inline]
    pub const fn of_high(old: u8, new: u8) -> Self {
        Self::of_u16((old as u16) << 8, (new as u16) << 8)
    }

    /// The second byte of an aligned 16-bit word goes from `old` to `new`.
    #[must_use]
    #[inline]
    pub const fn of_low(old: u8, new: u8) -> Self {
        Self::of_u16(old as u16, new as u16)
    }

    /// A 16-bit aligned 32-bit field (an IPv4 address, a sequence number) goes from `old` to `new`.
    #[must_use]
    #[inline]
    pub const fn of_u32(old: u32, new: u32) -> Self {
        Self(fold(!old as u64 + new as u64))
    }

    /// An IPv6 address goes from `old` to `new`.
    #[must_use]
    #[inline]
    pub fn of_ipv6(old: &[u8; 16], new: &[u8; 16]) -> Self {
        let (old, new) = (Sum::ZERO.add_16(old), Sum::ZERO.add_16(new));
        Self::of_u16(u16::from_be(old.native), u16::from_be(new.native))
    }

    /// This change and another.
    #[must_use]
    #[inline]
    pub const fn and(self, other: Self) -> Self {
        Self(add16(self.0, other.0))
    }

    /// The change back: from the new value to the old one.
    #[must_use]
    #[inline]
    pub const fn inverse(self) -> Self {
        // -(m' - m): in one's complement a number is negated by inverting its bits.
        Self(!self.0)
    }

    /// The checksum after the change, from the one before: HC' = ~(~HC + ~m + m').
    #[must_use]
    #[inline]
    pub const fn apply(self, checksum: u16) -> u16 {
        !add16(!checksum, self.0)
    }

    /// As [`Delta::apply`] for UDP: "none" (0) stays none, and a sum of 0 is sent as 0xffff.
    #[must_use]
    #[inline]
    pub const fn apply_udp(self, checksum: u16) -> u16 {
        if checksum == 0 {
            return 0;
        }
        match self.apply(checksum) {
            0 => 0xffff,
            value => value,
        }
    }
}

/// One's complement addition.
#[inline]
const fn add16(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

/// Carries folded into 16 bits. 0 only for 0.
#[inline]
const fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff); // < 2^33
    let sum = (sum >> 16) + (sum & 0xffff); // < 2^18
    let sum = (sum >> 16) + (sum & 0xffff); // <= 0x10002
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

/// Bytes per turn of the vector loop: four 16-byte registers, or two of 32.
const BLOCK: usize = 64;
/// Bytes summed before folding, so that no lane overflows: 2^28 words of 32 bits each.
const MAX_PART: usize = 1 << 30;
type Lanes = [u64; BLOCK / 8];

/// A sum congruent to that of the native-order 16-bit words (an odd last byte padded with zero),
/// 0 only if all are.
#[inline]
fn native_sum(bytes: &[u8]) -> u64 {
    if bytes.len() < 2 * BLOCK { sum_short(bytes) } else { sum_long(bytes) }
}

/// PERF: ns per call on the x86-64 baseline (a shared 3 GHz machine), a plain loop over 16-bit
/// words first: 64 bytes 4.9, 4.1; 576 bytes 31, 13; 1460 bytes 78, 28; 9000 bytes 506, 135; and
/// 20 bytes 3.3, [`checksum_20`] 1.4. `cargo bench -p thruway-wire --bench checksum`.
fn sum_long(bytes: &[u8]) -> u64 {
    let mut sum = 0;
    for part in bytes.chunks(MAX_PART) {
        let (blocks, tail) = part.as_chunks::<BLOCK>();
        sum += u64::from(fold(sum_blocks(blocks))) + u64::from(fold(sum_short(tail)));
    }
    sum
}

/// Each lane adds whole 64-bit words (wrapping) and, apart, their upper halves; the sum of the
/// lower halves is then total - (upper << 32), exact as it is below 2^64. That is one vector
/// operation less than masking the halves apart.
#[inline]
fn sum_blocks(blocks: &[[u8; BLOCK]]) -> u64 {
    let mut totals: Lanes = [0; BLOCK / 8];
    let mut uppers: Lanes = [0; BLOCK / 8];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for lane in 0..BLOCK / 8 {
            let word = u64::from_ne_bytes(words[lane]);
            totals[lane] = totals[lane].wrapping_add(word);
            uppers[lane] = uppers[lane].wrapping_add(word >> 32);
        }
    }
    let total = totals.iter().fold(0, |sum: u64, lane| sum.wrapping_add(*lane));
    let upper = uppers.iter().fold(0, |sum: u64, lane| sum.wrapping_add(*lane));
    total.wrapping_sub(upper << 32).wrapping_add(upper)
}

/// The sum of fewer than 2^30 bytes, eight at a time.
#[inline]
fn sum_short(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut sum: u128 = 0;
    for word in words {
        sum += u128::from(u64::from_ne_bytes(*word));
    }
    let (half, rest) = match rest.split_first_chunk::<4>() {
        Some((half, rest)) => (u32::from_ne_bytes(*half), rest),
        None => (0, rest),
    };
    let last = match *rest {
        [a, b, c] => u32::from_ne_bytes([a, b, c, 0]),
        [a, b] => u32::from_ne_bytes([a, b, 0, 0]),
        [a] => u32::from_ne_bytes([a, 0, 0, 0]),
        _ => 0,
    };
    // Truncations take the parts apart.
    let (low, carries) = (sum as u64, (sum >> 64) as u64);
    carries + (low >> 32) + (low & 0xffff_ffff) + u64::from(half) + u64::from(last)
}

#[cfg(test)]
mod tests;
