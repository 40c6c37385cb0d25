//! Options of the IPv4 header (RFC 791 section 3.1; numbers from IANA "IP Parameters").

use crate::{Defect, Layer, ParseError};

/// End of the option list.
pub const END: u8 = 0;
/// One byte of nothing.
pub const NOP: u8 = 1;
/// Record route (RFC 791).
pub const RECORD_ROUTE: u8 = 7;
/// Timestamps (RFC 791).
pub const TIMESTAMP: u8 = 68;
/// Security (RFC 1108).
pub const SECURITY: u8 = 130;
/// Loose source and record route (RFC 791).
pub const LOOSE_ROUTE: u8 = 131;
/// Stream identifier (RFC 791).
pub const STREAM_ID: u8 = 136;
/// Strict source and record route (RFC 791).
pub const STRICT_ROUTE: u8 = 137;
/// Router alert (RFC 2113).
pub const ROUTER_ALERT: u8 = 148;
/// Bit of the kind: the option goes into every fragment.
pub const COPIED: u8 = 0x80;

/// One option other than [`END`] and [`NOP`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Option<'a> {
    /// Its first byte.
    pub kind: u8,
    /// Where it starts in the options, in bytes.
    pub offset: usize,
    /// The data after type and length.
    pub data: &'a [u8],
}

impl Ipv4Option<'_> {
    /// Length with kind and length bytes.
    #[must_use]
    #[inline]
    #[allow(clippy::len_without_is_empty)] // never empty
    pub const fn len(&self) -> usize {
        self.data.len() + 2
    }

    /// Must be copied into every fragment.
    #[must_use]
    #[inline]
    pub const fn is_copied(&self) -> bool {
        self.kind & COPIED != 0
    }
}

/// The options in their order, up to the end option or the end of the bytes. A bad length is the
/// last item.
#[derive(Clone, Debug)]
pub struct Ipv4Options<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Ipv4Options<'a> {
    /// Over the options that [`crate::Header::parse_with_options`] of an IPv4 header gives.
    #[must_use]
    #[inline]
    pub const fn new(options: &'a [u8]) -> Self {
        Self { bytes: options, at: 0 }
    }
}

impl<'a> Iterator for Ipv4Options<'a> {
    type Item = Result<Ipv4Option<'a>, ParseError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (offset, kind, rest) = next_option(self.bytes, self.at)?;
        let option = data(rest, Layer::Ipv4Option);
        self.at = match option {
            Ok(data) => offset + 2 + data.len(),
            Err(_) => self.bytes.len(),
        };
        Some(option.map(|data| Ipv4Option { kind, offset, data }))
    }
}

/// The first option that is not a no-operation at or behind `at`: where, its kind, and all bytes
/// behind the kind. The format is that of IPv4's and TCP's options.
#[inline]
pub(crate) fn next_option(bytes: &[u8], mut at: usize) -> Option<(usize, u8, &[u8])> {
    loop {
        match bytes.get(at..)? {
            [END, ..] | [] => return None,
            [NOP, ..] => at += 1,
            [kind, rest @ ..] => return Some((at, *kind, rest)),
        }
    }
}

/// The data of the option with its length byte first in `bytes`.
#[inline]
pub(crate) fn data(bytes: &[u8], layer: Layer) -> Result<&[u8], ParseError> {
    let Some((&len, rest)) = bytes.split_first() else {
        return Err(ParseError::too_short(layer, 2, 1));
    };
    let len = usize::from(len);
    let Some(data_len) = len.checked_sub(2) else {
        return Err(ParseError::new(layer, Defect::BadHeaderLength { header_len: len }));
    };
    rest.get(..data_len).ok_or(ParseError::too_short(layer, len, bytes.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walk() {
        let bytes = [NOP, RECORD_ROUTE, 7, 4, 0, 0, 0, 0, ROUTER_ALERT, 4, 0, 0, NOP, END, 9, 9];
        let options: Vec<_> = Ipv4Options::new(&bytes).map(Result::unwrap).collect();
        let route = Ipv4Option { kind: RECORD_ROUTE, offset: 1, data: &[4, 0, 0, 0, 0] };
        let alert = Ipv4Option { kind: ROUTER_ALERT, offset: 8, data: &[0, 0] };
        assert_eq!(options, [route, alert]);
        assert!(!route.is_copied() && alert.is_copied() && route.len() == 7);
    }

    #[test]
    fn bad_lengths_end_the_walk() {
        for invalid in [&[7][..], &[7, 0], &[7, 1], &[7, 3], &[7, 2, 7, 255]] {
            let items: Vec<_> = Ipv4Options::new(invalid).collect();
            assert!(items.last().unwrap().is_err(), "{invalid:?}");
            assert!(items.len() <= 2);
        }
        assert_eq!(Ipv4Options::new(&[]).next(), None);
    }
}
