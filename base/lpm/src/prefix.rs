//! Addresses as integers, and prefixes of them.

use num_traits::{CheckedShr, PrimInt, Unsigned};
use std::fmt;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};

/// An address as an unsigned integer in host order: `u32` for IPv4, `u128` for IPv6.
pub trait Key: PrimInt + Unsigned + CheckedShr + Hash + fmt::Debug + Send + Sync + 'static {
    /// Length of an address in bits.
    const BITS: u8;

    /// Writes the address as people do.
    fn fmt_address(self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// `WIDTH` bits that start `offset` bits from the left, zeros beyond the address's end.
    ///
    /// `offset` must be less than [`Key::BITS`], `WIDTH` from 1 to 16.
    #[inline]
    fn chunk<const WIDTH: usize>(self, offset: usize) -> usize {
        let chunk = (self << offset) >> (Self::BITS as usize - WIDTH);
        chunk.to_usize().unwrap_or(0)
    }
}

impl Key for u32 {
    const BITS: u8 = 32;

    fn fmt_address(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Ipv4Addr::from(self))
    }
}

impl Key for u128 {
    const BITS: u8 = 128;

    fn fmt_address(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Ipv6Addr::from(self))
    }
}

/// A prefix longer than the address it is a prefix of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("prefix length {len} is over {max}")]
pub struct PrefixLenError {
    /// The length asked for, in bits.
    pub len: u8,
    /// The longest there is, in bits.
    pub max: u8,
}

/// The first `len` bits of an address; the bits after them are zero.
///
/// Ordered by address, then length: a prefix comes right before those it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix<K> {
    addr: K,
    len: u8,
}

impl<K: Key> Prefix<K> {
    /// The prefix of `len` bits of `addr`; bits of `addr` beyond them are cleared.
    ///
    /// # Errors
    /// When `len` is over the address's length.
    pub fn new(addr: K, len: u8) -> Result<Self, PrefixLenError> {
        if len > K::BITS {
            return Err(PrefixLenError { len, max: K::BITS });
        }
        Ok(Self::truncate(addr, len))
    }

    /// The prefix of at most `len` bits of `addr`: a longer `len` means the whole address.
    pub(crate) fn truncate(addr: K, len: u8) -> Self {
        let len = len.min(K::BITS);
        Prefix { addr: addr & !Self::host_bits(len), len }
    }

    /// The prefix of length zero, which covers every address.
    pub fn default_route() -> Self {
        Prefix { addr: K::zero(), len: 0 }
    }

    /// The prefix that is a single address.
    pub fn host(addr: K) -> Self {
        Prefix { addr, len: K::BITS }
    }

    fn host_bits(len: u8) -> K {
        K::max_value().checked_shr(u32::from(len)).unwrap_or_else(K::zero)
    }

    /// The lowest address of the prefix: its bits and then zeros.
    #[inline]
    pub fn first(self) -> K {
        self.addr
    }

    /// The highest address of the prefix: its bits and then ones.
    #[inline]
    pub fn last(self) -> K {
        self.addr | Self::host_bits(self.len)
    }

    /// Length in bits.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // a length in bits, not a count of things
    pub fn len(self) -> u8 {
        self.len
    }

    /// Whether `addr` begins with this prefix.
    #[inline]
    pub fn contains(self, addr: K) -> bool {
        addr & !Self::host_bits(self.len) == self.addr
    }
}

impl<K: Key> fmt::Display for Prefix<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.addr.fmt_address(f)?;
        write!(f, "/{}", self.len)
    }
}
