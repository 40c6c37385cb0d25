//! The common interface of all headers: a fixed part over bytes, and one check.

use crate::{Layer, MacAddr, ParseError};
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where a checked header ends and where its payload ends, in bytes from the header's start.
/// `LEN <= header_len <= end <= available`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The fixed part and the options.
    pub header_len: usize,
    /// The end according to the header; the rest is padding.
    pub end: usize,
}

/// A header: plain bytes with names, readable and writable in place.
pub trait Header: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned + Sized {
    /// The protocol of the header.
    const LAYER: Layer;
    /// Length of the fixed part in bytes.
    const LEN: usize = size_of::<Self>();

    /// Checks this header's lengths and version against the `available` bytes from its start.
    ///
    /// # Errors
    /// A version or length that cannot be.
    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        Ok(Extent { header_len: Self::LEN, end: available })
    }

    /// The fixed part over the front of `bytes`, its contents unchecked, and all bytes behind.
    ///
    /// # Errors
    /// `TooShort`.
    #[inline]
    fn view(bytes: &[u8]) -> Result<(&Self, &[u8]), ParseError> {
        let len = bytes.len();
        Self::ref_from_prefix(bytes).map_err(|_| too_short::<Self>(len))
    }

    /// As [`Header::view`], to rewrite in place.
    ///
    /// # Errors
    /// `TooShort`.
    #[inline]
    fn view_mut(bytes: &mut [u8]) -> Result<(&mut Self, &mut [u8]), ParseError> {
        let len = bytes.len();
        Self::mut_from_prefix(bytes).map_err(|_| too_short::<Self>(len))
    }

    /// The checked header, its options (the bytes between the fixed part and the payload), and the
    /// payload, without padding where the header knows its length.
    ///
    /// # Errors
    /// The errors of [`Header::extent`].
    #[inline]
    fn parse_with_options(bytes: &[u8]) -> Result<(&Self, &[u8], &[u8]), ParseError> {
        let available = bytes.len();
        let (header, rest) = Self::view(bytes)?;
        let (options, body) = lengths::<Self>(header.extent(available)?);
        let (options, rest) = rest.split_at_checked(options).ok_or(too_short::<Self>(available))?;
        let payload = rest.get(..body).ok_or(too_short::<Self>(available))?;
        Ok((header, options, payload))
    }

    /// As [`Header::parse_with_options`], to rewrite in place.
    ///
    /// # Errors
    /// The errors of [`Header::extent`].
    #[inline]
    #[allow(clippy::type_complexity)] // the type of the reading twin, three times `mut`
    fn parse_with_options_mut(
        bytes: &mut [u8],
    ) -> Result<(&mut Self, &mut [u8], &mut [u8]), ParseError> {
        let available = bytes.len();
        let (header, rest) = Self::view_mut(bytes)?;
        let (options, body) = lengths::<Self>(header.extent(available)?);
        let (options, rest) =
            rest.split_at_mut_checked(options).ok_or(too_short::<Self>(available))?;
        let payload = rest.get_mut(..body).ok_or(too_short::<Self>(available))?;
        Ok((header, options, payload))
    }

    /// The checked header and its payload.
    ///
    /// # Errors
    /// The errors of [`Header::extent`].
    #[inline]
    fn parse(bytes: &[u8]) -> Result<(&Self, &[u8]), ParseError> {
        Self::parse_with_options(bytes).map(|(header, _, payload)| (header, payload))
    }

    /// As [`Header::parse`], to rewrite in place.
    ///
    /// # Errors
    /// The errors of [`Header::extent`].
    #[inline]
    fn parse_mut(bytes: &mut [u8]) -> Result<(&mut Self, &mut [u8]), ParseError> {
        Self::parse_with_options_mut(bytes).map(|(header, _, payload)| (header, payload))
    }

    /// Writes the fixed part to the front of `out`; returns the rest.
    ///
    /// # Errors
    /// `TooShort` when `out` is.
    #[inline]
    fn emit<'a>(&self, out: &'a mut [u8]) -> Result<&'a mut [u8], ParseError> {
        let len = out.len();
        self.write_to_prefix(out).map_err(|_| too_short::<Self>(len))?;
        out.get_mut(Self::LEN..).ok_or(too_short::<Self>(len))
    }
}

/// Lengths of options and payload. Wrong extents give lengths that the slicing refuses.
#[inline]
fn lengths<H: Header>(extent: Extent) -> (usize, usize) {
    (extent.header_len.wrapping_sub(H::LEN), extent.end.wrapping_sub(extent.header_len))
}

#[inline]
fn too_short<H: Header>(len: usize) -> ParseError {
    ParseError::too_short(H::LAYER, H::LEN, len)
}

/// A field in memory format, and its host value.
pub(crate) trait Field: Copy {
    type Value;
    fn load(self) -> Self::Value;
    fn store(value: Self::Value) -> Self;
}

macro_rules! fields {
    ($($wire:ty => $value:ty: $load:expr, $store:expr;)*) => {$(
        impl Field for $wire {
            type Value = $value;
            #[inline]
            fn load(self) -> $value { $load(self) }
            #[inline]
            fn store(value: $value) -> Self { $store(value) }
        }
    )*};
}

fields! {
    u8 => u8: core::convert::identity, core::convert::identity;
    U16 => u16: U16::get, U16::new;
    U32 => u32: U32::get, U32::new;
    MacAddr => MacAddr: core::convert::identity, core::convert::identity;
    [u8; 16] => [u8; 16]: core::convert::identity, core::convert::identity;
}

/// A getter named like the field and a setter, for each field.
macro_rules! accessors {
    ($($(#[$doc:meta])* $get:ident, $set:ident: $ty:ty;)*) => {$(
        $(#[$doc])*
        #[must_use]
        #[inline]
        pub fn $get(&self) -> $ty { $crate::header::Field::load(self.$get) }

        #[doc = concat!("Sets [`Self::", stringify!($get), "`] and nothing else (no checksum).")]
        #[inline]
        pub fn $set(&mut self, value: $ty) { self.$get = $crate::header::Field::store(value); }
    )*};
}

/// For each field under the checksum, a setter that updates it.
macro_rules! updates {
    ($($update:ident: $get:ident, $set:ident, $ty:ty, $delta:ident;)*) => {$(
        #[doc = concat!("Sets [`Self::", stringify!($get), "`] and updates the checksum.")]
        /// Gives the change.
        #[inline]
        pub fn $update(&mut self, value: $ty) -> $crate::checksum::Delta {
            let delta = $crate::checksum::Delta::$delta(self.$get(), value);
            self.update_checksum(delta);
            self.$set(value);
            delta
        }
    )*};
}
