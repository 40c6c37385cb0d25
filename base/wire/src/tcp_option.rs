//! Options of the TCP header (RFC 9293 section 3.1, RFC 7323, RFC 2018).

use crate::ipv4_option::{data, next_option};
use crate::{Layer, ParseError};
use zerocopy::FromBytes;
use zerocopy::byteorder::network_endian::U32;

/// Kinds, from the IANA registry "TCP Parameters".
pub mod kind {
    /// End of the option list.
    pub const END: u8 = 0;
    /// One byte of nothing.
    pub const NOP: u8 = 1;
    /// Maximum segment size.
    pub const MSS: u8 = 2;
    /// Window scale (RFC 7323).
    pub const WINDOW_SCALE: u8 = 3;
    /// Selective acknowledgement permitted (RFC 2018).
    pub const SACK_PERMITTED: u8 = 4;
    /// Selective acknowledgement (RFC 2018).
    pub const SACK: u8 = 5;
    /// Timestamps (RFC 7323).
    pub const TIMESTAMPS: u8 = 8;
    /// Signature by a shared secret (RFC 2385).
    pub const MD5: u8 = 19;
    /// Authentication (RFC 5925).
    pub const AUTHENTICATION: u8 = 29;
    /// Several paths (RFC 8684).
    pub const MULTIPATH: u8 = 30;
    /// Cookie for data in the SYN (RFC 7413).
    pub const FAST_OPEN: u8 = 34;
}

/// Largest window scale to use; receivers take larger ones for it (RFC 7323 section 2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;

/// One option other than end and no-operation. A known kind of invalid length is
/// [`TcpOption::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TcpOption<'a> {
    /// Maximum segment size in bytes.
    Mss(u16),
    /// Binary logarithm of the window's unit.
    WindowScale(u8),
    /// Selective acknowledgements may be sent.
    SackPermitted,
    /// Blocks received out of order.
    Sack(SackBlocks<'a>),
    /// Clock of the sender, and the last clock it saw.
    Timestamps {
        /// TSval.
        value: u32,
        /// TSecr.
        echo: u32,
    },
    /// Any other.
    Other {
        /// Its first byte.
        kind: u8,
        /// The data after kind and length.
        data: &'a [u8],
    },
}

impl<'a> TcpOption<'a> {
    /// From the kind and the data after the length byte.
    #[inline]
    fn new(kind: u8, data: &'a [u8]) -> Self {
        match (kind, data) {
            (kind::MSS, &[a, b]) => Self::Mss(u16::from_be_bytes([a, b])),
            (kind::WINDOW_SCALE, &[shift]) => Self::WindowScale(shift),
            (kind::SACK_PERMITTED, []) => Self::SackPermitted,
            (kind::TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => Self::Timestamps {
                value: u32::from_be_bytes([a, b, c, d]),
                echo: u32::from_be_bytes([e, f, g, h]),
            },
            (kind::SACK, data) => match <[[U32; 2]]>::ref_from_bytes(data) {
                Ok(blocks) if !blocks.is_empty() => Self::Sack(SackBlocks(blocks)),
                _ => Self::Other { kind, data },
            },
            (kind, data) => Self::Other { kind, data },
        }
    }

    /// Writes the option to the front of `out`; gives the rest.
    ///
    /// # Errors
    /// `TooShort` when `out` is.
    pub fn emit<'o>(&self, out: &'o mut [u8]) -> Result<&'o mut [u8], ParseError> {
        match *self {
            Self::Mss(mss) => put(kind::MSS, &mss.to_be_bytes(), out),
            Self::WindowScale(shift) => put(kind::WINDOW_SCALE, &[shift], out),
            Self::SackPermitted => put(kind::SACK_PERMITTED, &[], out),
            Self::Sack(blocks) => put(kind::SACK, zerocopy::IntoBytes::as_bytes(blocks.0), out),
            Self::Timestamps { value, echo } => {
                let both = (u64::from(value) << 32) | u64::from(echo);
                put(kind::TIMESTAMPS, &both.to_be_bytes(), out)
            }
            Self::Other { kind, data } => put(kind, data, out),
        }
    }
}

fn put<'o>(kind: u8, data: &[u8], out: &'o mut [u8]) -> Result<&'o mut [u8], ParseError> {
    let (available, len) = (out.len(), data.len().saturating_add(2));
    let error = ParseError::too_short(Layer::TcpOption, len, available);
    let len_byte = u8::try_from(len).map_err(|_| error)?;
    let (front, rest) = out.split_at_mut_checked(len).ok_or(error)?;
    front[..2].copy_from_slice(&[kind, len_byte]);
    front[2..].copy_from_slice(data);
    Ok(rest)
}

/// Blocks of a selective acknowledgement, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackBlocks<'a>(&'a [[U32; 2]]);

impl SackBlocks<'_> {
    /// Each block's first sequence number, and the one behind its last.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, u32)> {
        self.0.iter().map(|[left, right]| (left.get(), right.get()))
    }
}

/// The options in their order, up to the end option or the end of the bytes. A bad length is the
/// last item.
#[derive(Clone, Debug)]
pub struct TcpOptions<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> TcpOptions<'a> {
    /// Over the options that [`crate::Header::parse_with_options`] of a TCP header gives.
    #[must_use]
    #[inline]
    pub const fn new(options: &'a [u8]) -> Self {
        Self { bytes: options, at: 0 }
    }

    /// Where the next option (or padding before it) starts, in bytes.
    #[must_use]
    #[inline]
    pub const fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = Result<TcpOption<'a>, ParseError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (offset, kind, rest) = next_option(self.bytes, self.at)?;
        let data = data(rest, Layer::TcpOption);
        self.at = match data {
            Ok(data) => offset + 2 + data.len(),
            Err(_) => self.bytes.len(),
        };
        Some(data.map(|data| TcpOption::new(kind, data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Options of a SYN as common stacks send it.
    #[test]
    fn syn() {
        let bytes = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7];
        let options: Vec<_> = TcpOptions::new(&bytes).map(Result::unwrap).collect();
        assert_eq!(
            options,
            [
                TcpOption::Mss(1460),
                TcpOption::SackPermitted,
                TcpOption::Timestamps { value: 1, echo: 2 },
                TcpOption::WindowScale(7),
            ]
        );
    }

    #[test]
    fn sack() {
        let bytes = [1, 1, 5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 255, 255, 255, 255, 0, 0, 0, 9];
        let Some(Ok(TcpOption::Sack(blocks))) = TcpOptions::new(&bytes).next() else {
            panic!("no blocks");
        };
        assert!(blocks.iter().eq([(1, 2), (u32::MAX, 9)]));
        let odd = [5, 9, 0, 0, 0, 0, 0, 0, 0];
        let other = TcpOption::Other { kind: kind::SACK, data: &odd[2..] };
        assert_eq!(TcpOptions::new(&odd).next(), Some(Ok(other)));
    }

    #[test]
    fn bad_lengths_end_the_walk() {
        for invalid in [&[2][..], &[2, 0], &[2, 1], &[2, 4, 5], &[3, 3, 1, 8, 255]] {
            let items: Vec<_> = TcpOptions::new(invalid).collect();
            assert!(items.last().unwrap().is_err(), "{invalid:?}");
        }
    }

    proptest! {
        #[test]
        fn emitted_is_parsed(
            mss in any::<u16>(), shift in any::<u8>(), value in any::<u32>(), echo in any::<u32>(),
            blocks in proptest::collection::vec(any::<[u32; 2]>(), 1..4),
            data in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let blocks: Vec<_> = blocks.iter().map(|b| b.map(U32::new)).collect();
            let options = [
                TcpOption::Mss(mss), TcpOption::WindowScale(shift), TcpOption::SackPermitted,
                TcpOption::Timestamps { value, echo }, TcpOption::Sack(SackBlocks(&blocks)),
                TcpOption::Other { kind: 253, data: &data },
            ];
            let mut bytes = [0; 100];
            let mut out = &mut bytes[..];
            for option in &options {
                out = option.emit(out).unwrap();
            }
            let parsed: Result<Vec<_>, _> = TcpOptions::new(&bytes).collect();
            prop_assert_eq!(parsed.unwrap(), options);
        }
    }
}
