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

use zerocopy::FromBytes;

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

    /// Pseudo header of a TCP, UDP, ICMPv6... segment of `len` bytes in IPv6 (RFC 8200 section 8.1).
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
/// Gives what a full recomputation would, 0x0000 and 0xffff told apart, as long as some covered
/// byte stays other than zero: always so for IP, TCP, UDP and ICMPv6, whose headers and pseudo
/// headers have a constant in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
type Block = [u64; BLOCK / 8];

/// A sum congruent to that of the native-order 16-bit words (an odd last byte padded with zero),
/// 0 only if all are.
#[inline]
fn native_sum(bytes: &[u8]) -> u64 {
    let (sum, tail) = if bytes.len() >= 2 * BLOCK { sum_blocks(bytes) } else { (0, bytes) };
    // Folded so far: the tail's at most 128 bytes cannot overflow it.
    u64::from(fold(sum)) + sum_tail(tail)
}

/// The sum of all whole blocks, and the rest.
///
/// Each lane adds whole 64-bit words (wrapping) and, apart, their upper halves; the sum of the
/// lower halves is then total - (upper << 32), exact as it is below 2^64. That is one vector
/// operation less than masking the halves apart.
fn sum_blocks(bytes: &[u8]) -> (u64, &[u8]) {
    let mut total: Block = [0; BLOCK / 8];
    let mut upper: Block = [0; BLOCK / 8];
    let (blocks, tail) = bytes.as_chunks::<BLOCK>();
    for block in blocks {
        let Ok(words) = Block::read_from_bytes(block) else { continue };
        for lane in 0..BLOCK / 8 {
            total[lane] = total[lane].wrapping_add(words[lane]);
            upper[lane] = upper[lane].wrapping_add(words[lane] >> 32);
        }
    }
    let mut sum = 0;
    for lane in 0..BLOCK / 8 {
        let lower = total[lane].wrapping_sub(upper[lane] << 32);
        sum += u64::from(fold(lower)) + u64::from(fold(upper[lane]));
    }
    (sum, tail)
}

/// The sum of fewer than some million bytes, four at a time.
#[inline]
fn sum_tail(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum = 0;
    for word in words {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    sum + u64::from(u32::from_ne_bytes(last))
}

#[cfg(test)]
mod tests;
