//! Extension headers of IPv6 (RFC 8200 section 4) and the walk over them to the upper layer.

use crate::{Defect, Header, Layer, ParseError, ip_protocol};
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Most extension headers that are walked. Each of the standard's six occurs once, destination
/// options twice (RFC 8200 section 4.1); a packet with more is made to cost time.
pub const MAX_EXTENSIONS: usize = 8;

/// Fragment header, 8 bytes (RFC 8200 section 4.5).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct FragmentHeader {
    next_header: u8,
    reserved: u8,
    offset_flags: U16,
    id: U32,
}

impl Header for FragmentHeader {
    const LAYER: Layer = Layer::Ipv6Extension;
}

impl FragmentHeader {
    /// A header; `offset` in bytes is rounded down to 8.
    #[must_use]
    pub fn new(next_header: u8, offset: u16, more: bool, id: u32) -> Self {
        let offset_flags = U16::new((offset & !7) | u16::from(more));
        Self { next_header, reserved: 0, offset_flags, id: U32::new(id) }
    }

    accessors! {
        /// First header of the fragmentable part.
        next_header, set_next_header: u8;
        /// Identification of the fragments of a packet.
        id, set_id: u32;
    }

    /// Where the payload belongs in the whole packet's fragmentable part, in bytes.
    #[must_use]
    #[inline]
    pub fn offset(&self) -> u16 {
        self.offset_flags.get() & !7
    }

    /// Not the last fragment.
    #[must_use]
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.offset_flags.get() & 1 != 0
    }

    /// Has the front of the fragmentable part.
    #[must_use]
    #[inline]
    pub fn is_first(&self) -> bool {
        self.offset() == 0
    }

    /// The whole packet all the same (RFC 6946, "atomic fragment").
    #[must_use]
    #[inline]
    pub fn is_atomic(&self) -> bool {
        self.offset_flags.get() & !6 == 0
    }
}

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Which: a value of [`ip_protocol`].
    pub kind: u8,
    /// Where it starts, in bytes behind the fixed IPv6 header.
    pub offset: usize,
    /// All of it; its first byte is the next header field.
    pub bytes: &'a [u8],
}

/// The walk over extension headers. An error is its last item. It ends before the upper layer's
/// header, behind the header of a later fragment, and before hop-by-hop options that are not
/// first (RFC 8200 section 4.1 has them taken for an unknown next header).
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    payload: &'a [u8],
    at: usize,
    next_header: u8,
    walked: usize,
    later_fragment: bool,
}

impl<'a> Extensions<'a> {
    /// Over the payload of an IPv6 header with this next header field.
    #[must_use]
    #[inline]
    pub const fn new(next_header: u8, payload: &'a [u8]) -> Self {
        Self { payload, at: 0, next_header, walked: 0, later_fragment: false }
    }

    #[inline]
    fn at_end(&self) -> bool {
        let misplaced = self.next_header == ip_protocol::HOP_BY_HOP && self.walked > 0;
        self.later_fragment || misplaced || !is_extension(self.next_header)
    }

    /// Takes the header at `self.at`.
    fn step(&mut self) -> Result<Extension<'a>, ParseError> {
        if self.walked == MAX_EXTENSIONS {
            let defect = Defect::TooDeep { limit: MAX_EXTENSIONS };
            return Err(ParseError::new(Layer::Ipv6Extension, defect));
        }
        let rest = self.payload.get(self.at..).unwrap_or(&[]);
        let too_short = |len| ParseError::too_short(Layer::Ipv6Extension, len, rest.len());
        let [next_header, length, ..] = *rest else { return Err(too_short(8)) };
        let kind = self.next_header;
        let len = extension_len(kind, length);
        let bytes = rest.get(..len).ok_or(too_short(len))?;
        if kind == ip_protocol::FRAGMENT {
            self.later_fragment = !FragmentHeader::view(bytes)?.0.is_first();
        }
        let extension = Extension { kind, offset: self.at, bytes };
        self.at += len;
        self.walked += 1;
        self.next_header = next_header;
        Ok(extension)
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, ParseError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at_end() {
            return None;
        }
        let item = self.step();
        if item.is_err() {
            self.next_header = ip_protocol::NO_NEXT;
        }
        Some(item)
    }
}

/// Length in bytes of the extension header `kind` with the length byte `length`.
#[inline]
fn extension_len(kind: u8, length: u8) -> usize {
    match kind {
        ip_protocol::FRAGMENT => 8,                       // the byte is reserved
        ip_protocol::AH => (usize::from(length) + 2) * 4, // RFC 4302 section 2.2
        _ => (usize::from(length) + 1) * 8,
    }
}

/// The next header value is an extension header that can be walked over (IANA "IPv6 Extension
/// Header Types" without ESP, behind which nothing can be read).
#[must_use]
#[inline]
pub const fn is_extension(next_header: u8) -> bool {
    use ip_protocol::{
        AH, DESTINATION_OPTIONS, FRAGMENT, HIP, HOP_BY_HOP, MOBILITY, ROUTING, SHIM6,
    };
    matches!(
        next_header,
        HOP_BY_HOP | ROUTING | FRAGMENT | AH | DESTINATION_OPTIONS | MOBILITY | HIP | SHIM6
    )
}

/// The upper layer behind the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer<'a> {
    /// Which protocol; that of the whole packet when this is a later fragment.
    pub protocol: u8,
    /// Where it starts, in bytes behind the fixed IPv6 header.
    pub offset: usize,
    /// Its bytes: a header of `protocol` first, unless this is a later fragment.
    pub bytes: &'a [u8],
    /// The fragment header that was passed, if any.
    pub fragment: Option<FragmentHeader>,
}

impl UpperLayer<'_> {
    /// `bytes` start with a header of `protocol`.
    #[must_use]
    #[inline]
    pub fn has_header(&self) -> bool {
        self.fragment.is_none_or(|fragment| fragment.is_first())
    }
}

/// Walks over the extension headers of an IPv6 packet to the upper layer.
///
/// # Errors
/// A cut extension header, or more than [`MAX_EXTENSIONS`].
#[inline]
pub fn upper_layer(next_header: u8, payload: &[u8]) -> Result<UpperLayer<'_>, ParseError> {
    let mut walk = Extensions::new(next_header, payload);
    let mut fragment = None;
    for extension in walk.by_ref() {
        let extension = extension?;
        if extension.kind == ip_protocol::FRAGMENT {
            fragment = Some(*FragmentHeader::view(extension.bytes)?.0);
        }
    }
    let bytes = payload.get(walk.at..).unwrap_or(&[]);
    Ok(UpperLayer { protocol: walk.next_header, offset: walk.at, bytes, fragment })
}

/// One option of a hop-by-hop or destination options header other than padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Option<'a> {
    /// Its first byte; the two high bits define the treatment by a node that does not know it.
    pub kind: u8,
    /// The data after type and length.
    pub data: &'a [u8],
}

/// Options of a hop-by-hop or destination options header (RFC 8200 section 4.2). A cut option is
/// the last item.
#[derive(Clone, Debug)]
pub struct Ipv6Options<'a>(&'a [u8]);

impl<'a> Ipv6Options<'a> {
    /// One byte of padding.
    pub const PAD1: u8 = 0;
    /// Padding with a length.
    pub const PADN: u8 = 1;
    /// Router alert (RFC 2711).
    pub const ROUTER_ALERT: u8 = 5;
    /// Jumbo payload (RFC 2675).
    pub const JUMBO: u8 = 0xc2;

    /// Over the options of `extension`.
    #[must_use]
    #[inline]
    pub fn new(extension: &Extension<'a>) -> Self {
        Self(extension.bytes.get(2..).unwrap_or(&[]))
    }
}

impl<'a> Iterator for Ipv6Options<'a> {
    type Item = Result<Ipv6Option<'a>, ParseError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (kind, len, rest) = match *self.0 {
                [] => return None,
                [Self::PAD1, ref rest @ ..] => {
                    self.0 = rest;
                    continue;
                }
                [kind] => (kind, 0xff, &[][..]), // its length is cut
                [kind, len, ref rest @ ..] => (kind, usize::from(len), rest),
            };
            let Some((data, rest)) = rest.split_at_checked(len) else {
                let error = ParseError::too_short(Layer::Ipv6Extension, len + 2, self.0.len());
                self.0 = &[];
                return Some(Err(error));
            };
            self.0 = rest;
            if kind != Self::PADN {
                return Some(Ok(Ipv6Option { kind, data }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_extensions() {
        let upper = upper_layer(ip_protocol::UDP, &[1, 2]).unwrap();
        assert_eq!((upper.protocol, upper.offset, upper.bytes), (17, 0, &[1u8, 2][..]));
        assert!(upper.has_header());
    }

    /// Hop-by-hop with a router alert, routing, AH, destination options, TCP.
    #[test]
    fn all_sorts() {
        let mut bytes = vec![43, 0, 5, 2, 0, 0, 1, 0];
        bytes.extend([51, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([60, 4]);
        bytes.extend([0; 22]);
        bytes.extend([6, 0, 1, 4, 0, 0, 0, 0, 0xaa]);
        let walk = Extensions::new(ip_protocol::HOP_BY_HOP, &bytes);
        let items: Vec<_> = walk.map(|e| e.unwrap()).collect();
        let fields: Vec<_> = items.iter().map(|e| (e.kind, e.offset, e.bytes.len())).collect();
        assert_eq!(fields, [(0, 0, 8), (43, 8, 16), (51, 24, 24), (60, 48, 8)]);
        let options: Vec<_> = Ipv6Options::new(&items[0]).map(Result::unwrap).collect();
        assert_eq!(options, [Ipv6Option { kind: Ipv6Options::ROUTER_ALERT, data: &[0, 0] }]);
        let upper = upper_layer(0, &bytes).unwrap();
        assert_eq!((upper.protocol, upper.offset, upper.bytes), (6, 56, &[0xaau8][..]));
        for cut in 0..56 {
            assert!(upper_layer(0, &bytes[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn fragments() {
        let mut bytes = [0; 24];
        FragmentHeader::new(ip_protocol::DESTINATION_OPTIONS, 0, true, 7).emit(&mut bytes).unwrap();
        bytes[8] = ip_protocol::UDP;
        let first = upper_layer(ip_protocol::FRAGMENT, &bytes).unwrap();
        assert_eq!((first.protocol, first.offset, first.has_header()), (17, 16, true));
        let later = FragmentHeader::new(ip_protocol::DESTINATION_OPTIONS, 1480, false, 7);
        later.emit(&mut bytes).unwrap();
        let upper = upper_layer(ip_protocol::FRAGMENT, &bytes).unwrap();
        assert_eq!((upper.protocol, upper.offset, upper.has_header()), (60, 8, false));
        assert_eq!(upper.fragment, Some(later));
        assert!(!later.is_atomic() && FragmentHeader::new(6, 0, false, 1).is_atomic());
        assert_eq!((later.offset(), later.more_fragments(), later.id()), (1480, false, 7));
    }

    #[test]
    fn the_walk_is_bounded_and_in_order() {
        let chain = [60, 0, 1, 4, 0, 0, 0, 0].repeat(MAX_EXTENSIONS + 1);
        let error = upper_layer(ip_protocol::DESTINATION_OPTIONS, &chain).unwrap_err();
        assert_eq!(error.defect, Defect::TooDeep { limit: MAX_EXTENSIONS });
        let late = [0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0];
        let upper = upper_layer(ip_protocol::DESTINATION_OPTIONS, &late).unwrap();
        assert_eq!((upper.protocol, upper.offset), (ip_protocol::HOP_BY_HOP, 8));
    }

    #[test]
    fn cut_options() {
        let cut = |bytes| Ipv6Options(bytes).last().unwrap().is_err();
        assert!(cut(&[5]) && cut(&[5, 1]) && cut(&[0, 0, 1, 7, 0]) && cut(&[5, 0, 5, 255]));
        assert!(Ipv6Options(&[0, 1, 1, 0, 1, 0]).next().is_none());
    }
}
