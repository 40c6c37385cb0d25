//! ICMP for IPv6 (RFC 4443). Neighbour discovery messages: [`crate::ndp`].

use crate::checksum::Sum;
use crate::{Header, Layer, ParseError};

/// Types, from the IANA registry "ICMPv6 Parameters".
pub mod icmpv6_type {
    /// Destination unreachable; codes in [`super::unreachable`].
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big; has the next MTU.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded; codes in [`super::time_exceeded`].
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem; codes in [`super::parameter_problem`].
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request.
    pub const ECHO: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Multicast listener query (RFC 2710).
    pub const MLD_QUERY: u8 = 130;
    /// Multicast listener report (RFC 2710).
    pub const MLD_REPORT: u8 = 131;
    /// Multicast listener done (RFC 2710).
    pub const MLD_DONE: u8 = 132;
    /// Router solicitation (RFC 4861).
    pub const ROUTER_SOLICITATION: u8 = 133;
    /// Router advertisement (RFC 4861).
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    /// Neighbour solicitation (RFC 4861).
    pub const NEIGHBOR_SOLICITATION: u8 = 135;
    /// Neighbour advertisement (RFC 4861).
    pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;
    /// Redirect (RFC 4861).
    pub const REDIRECT: u8 = 137;
    /// Multicast listener report, version 2 (RFC 3810).
    pub const MLD2_REPORT: u8 = 143;
}

/// Codes of [`icmpv6_type::UNREACHABLE`] (RFC 4443 section 3.1).
pub mod unreachable {
    /// No route to the destination.
    pub const NO_ROUTE: u8 = 0;
    /// Administratively prohibited.
    pub const PROHIBITED: u8 = 1;
    /// Beyond the scope of the source address.
    pub const BEYOND_SCOPE: u8 = 2;
    /// Address unreachable.
    pub const ADDRESS: u8 = 3;
    /// Port unreachable.
    pub const PORT: u8 = 4;
    /// Source address failed ingress or egress policy.
    pub const POLICY: u8 = 5;
    /// Reject route.
    pub const REJECT_ROUTE: u8 = 6;
}

/// Codes of [`icmpv6_type::TIME_EXCEEDED`] (RFC 4443 section 3.3).
pub mod time_exceeded {
    /// Hop limit exceeded in transit.
    pub const HOP_LIMIT: u8 = 0;
    /// Fragment reassembly time exceeded.
    pub const REASSEMBLY: u8 = 1;
}

/// Codes of [`icmpv6_type::PARAMETER_PROBLEM`] (RFC 4443 section 3.4).
pub mod parameter_problem {
    /// Erroneous header field.
    pub const HEADER_FIELD: u8 = 0;
    /// Unrecognised next header.
    pub const NEXT_HEADER: u8 = 1;
    /// Unrecognised IPv6 option.
    pub const OPTION: u8 = 2;
}

icmp_header! {
    /// The header, 8 bytes: type, code, checksum and the four bytes that every message has next.
    Icmpv6Header: Icmpv6
}

impl Icmpv6Header {
    /// One of the errors, which quote a packet and must never be answered by an error: types below
    /// 128 (RFC 4443 section 2.1).
    #[must_use]
    #[inline]
    pub fn is_error(&self) -> bool {
        self.icmp_type < 128
    }

    /// Computes and sets the checksum of a whole message; `pseudo` is the pseudo header's sum, see
    /// [`crate::ipv6::Ipv6Header::pseudo_sum`].
    ///
    /// # Errors
    /// When `message` is shorter than a header.
    pub fn fill_checksum(message: &mut [u8], pseudo: Sum) -> Result<(), ParseError> {
        Self::view_mut(message)?.0.set_checksum(0);
        let checksum = pseudo.with(message).checksum();
        Self::view_mut(message)?.0.set_checksum(checksum);
        Ok(())
    }

    /// Writes a whole message, this header and `body`, to the front of `out`, its checksum right
    /// for the addresses; gives its length. For an error `body` is the front of the packet in
    /// error, IPv6 header first.
    ///
    /// # Errors
    /// `TooShort` when `out` is.
    pub fn emit_message(
        &self,
        addresses: (&[u8; 16], &[u8; 16]),
        body: &[u8],
        out: &mut [u8],
    ) -> Result<usize, ParseError> {
        let (available, len) = (out.len(), Self::LEN.saturating_add(body.len()));
        let message =
            out.get_mut(..len).ok_or(ParseError::too_short(Layer::Icmpv6, len, available))?;
        self.emit(message)?.copy_from_slice(body);
        let pseudo = Sum::pseudo_v6(addresses.0, addresses.1, crate::ip_protocol::ICMPV6, len);
        Self::fill_checksum(message, pseudo)?;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip_protocol;

    #[test]
    fn a_message_with_its_checksum() {
        let (src, dst) = ([1; 16], [2; 16]);
        let mut out = [0; 20];
        let header = Icmpv6Header::new(icmpv6_type::ECHO, 0, 0x0001_0002);
        let len = header.emit_message((&src, &dst), b"abc", &mut out).unwrap();
        assert_eq!((len, &out[8..11]), (11, &b"abc"[..]));
        let pseudo = Sum::pseudo_v6(&src, &dst, ip_protocol::ICMPV6, 11);
        assert_eq!(pseudo.with(&out[..11]).checksum(), 0);
        let mut copy = out[..11].to_vec();
        let (parsed, body) = Icmpv6Header::parse(&out[..11]).unwrap();
        assert_eq!((parsed.ident(), parsed.sequence(), body), (1, 2, &b"abc"[..]));
        let (rewritten, _) = Icmpv6Header::parse_mut(&mut copy).unwrap();
        rewritten.update_type(icmpv6_type::ECHO_REPLY);
        rewritten.update_rest(9);
        assert_eq!((copy[0], pseudo.with(&copy).checksum()), (129, 0));
        assert!(!parsed.is_error() && Icmpv6Header::new(1, 0, 0).is_error());
        assert!(header.emit_message((&src, &dst), &[0; 13], &mut out).is_err());
    }
}
