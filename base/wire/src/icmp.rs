//! ICMP for IPv4 (RFC 792, RFC 1191, RFC 1256, RFC 1812).

use crate::checksum;
use crate::{Header, Layer, ParseError};
use core::net::Ipv4Addr;

/// Types, from the IANA registry "ICMP Parameters".
pub mod icmp_type {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable; codes in [`super::unreachable`].
    pub const UNREACHABLE: u8 = 3;
    /// Source quench (deprecated by RFC 6633).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect; codes in [`super::redirect`].
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO: u8 = 8;
    /// Router advertisement (RFC 1256).
    pub const ROUTER_ADVERTISEMENT: u8 = 9;
    /// Router solicitation (RFC 1256).
    pub const ROUTER_SOLICITATION: u8 = 10;
    /// Time exceeded; codes in [`super::time_exceeded`].
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem; codes in [`super::parameter_problem`].
    pub const PARAMETER_PROBLEM: u8 = 12;
    /// Timestamp request.
    pub const TIMESTAMP: u8 = 13;
    /// Timestamp reply.
    pub const TIMESTAMP_REPLY: u8 = 14;
    /// Information request (deprecated by RFC 6918).
    pub const INFORMATION_REQUEST: u8 = 15;
    /// Information reply (deprecated by RFC 6918).
    pub const INFORMATION_REPLY: u8 = 16;
    /// Address mask request (deprecated by RFC 6918).
    pub const MASK_REQUEST: u8 = 17;
    /// Address mask reply (deprecated by RFC 6918).
    pub const MASK_REPLY: u8 = 18;
}

/// Codes of [`icmp_type::UNREACHABLE`] (RFC 792, RFC 1122 section 3.2.2.1,
/// RFC 1812 section 5.2.7.1).
pub mod unreachable {
    /// Network unreachable.
    pub const NET: u8 = 0;
    /// Host unreachable.
    pub const HOST: u8 = 1;
    /// Protocol unreachable.
    pub const PROTOCOL: u8 = 2;
    /// Port unreachable.
    pub const PORT: u8 = 3;
    /// Fragmentation needed and "don't fragment" set; has the next MTU (RFC 1191).
    pub const NEED_FRAGMENT: u8 = 4;
    /// Source route failed.
    pub const SOURCE_ROUTE_FAILED: u8 = 5;
    /// Destination network unknown.
    pub const NET_UNKNOWN: u8 = 6;
    /// Destination host unknown.
    pub const HOST_UNKNOWN: u8 = 7;
    /// Source host isolated.
    pub const SOURCE_ISOLATED: u8 = 8;
    /// Network administratively prohibited.
    pub const NET_PROHIBITED: u8 = 9;
    /// Host administratively prohibited.
    pub const HOST_PROHIBITED: u8 = 10;
    /// Network unreachable for the type of service.
    pub const NET_TOS: u8 = 11;
    /// Host unreachable for the type of service.
    pub const HOST_TOS: u8 = 12;
    /// Communication administratively prohibited by filtering.
    pub const FILTER_PROHIBITED: u8 = 13;
    /// Host precedence violation.
    pub const HOST_PRECEDENCE: u8 = 14;
    /// Precedence cut-off in effect.
    pub const PRECEDENCE_CUTOFF: u8 = 15;
}

/// Codes of [`icmp_type::REDIRECT`].
pub mod redirect {
    /// For the network.
    pub const NET: u8 = 0;
    /// For the host.
    pub const HOST: u8 = 1;
    /// For the type of service and network.
    pub const TOS_NET: u8 = 2;
    /// For the type of service and host.
    pub const TOS_HOST: u8 = 3;
}

/// Codes of [`icmp_type::TIME_EXCEEDED`].
pub mod time_exceeded {
    /// TTL exceeded in transit.
    pub const TRANSIT: u8 = 0;
    /// Fragment reassembly time exceeded.
    pub const REASSEMBLY: u8 = 1;
}

/// Codes of [`icmp_type::PARAMETER_PROBLEM`].
pub mod parameter_problem {
    /// The pointer shows the byte.
    pub const AT_POINTER: u8 = 0;
    /// A required option is missing (RFC 1108).
    pub const MISSING_OPTION: u8 = 1;
    /// Bad length.
    pub const LENGTH: u8 = 2;
}

icmp_header! {
    /// The header, 8 bytes: type, code, checksum and four bytes that depend on the type.
    IcmpHeader: Icmpv4
}

impl IcmpHeader {
    /// Gateway of a redirect.
    #[must_use]
    #[inline]
    pub fn gateway(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.rest())
    }

    /// MTU of the next hop in "fragmentation needed" (RFC 1191).
    #[must_use]
    #[inline]
    pub fn mtu(&self) -> u16 {
        self.rest() as u16
    }

    /// Offset of the bad byte in a parameter problem.
    #[must_use]
    #[inline]
    pub fn pointer(&self) -> u8 {
        (self.rest() >> 24) as u8
    }

    /// One of the errors, which quote a packet and must never be answered by an error (RFC 1812
    /// section 4.3.2.7).
    #[must_use]
    #[inline]
    pub fn is_error(&self) -> bool {
        is_error(self.icmp_type)
    }

    /// Computes and sets the checksum of a whole message.
    ///
    /// # Errors
    /// When `message` is shorter than a header.
    pub fn fill_checksum(message: &mut [u8]) -> Result<(), ParseError> {
        Self::view_mut(message)?.0.set_checksum(0);
        let checksum = checksum::checksum(message);
        Self::view_mut(message)?.0.set_checksum(checksum);
        Ok(())
    }

    /// To be called once a message was changed and its checksum by the difference: where nothing
    /// but zeros is left (an echo reply, for example), the right checksum is 0xffff, which no
    /// difference distinguishes from 0.
    #[inline]
    pub fn fix_zero_checksum(message: &mut [u8]) {
        if let Some([_, _, 0, 0]) = message.first_chunk::<4>() {
            Self::fix_zeros(message);
        }
    }

    #[cold]
    fn fix_zeros(message: &mut [u8]) {
        if message.iter().all(|byte| *byte == 0) {
            message[2..4].fill(0xff);
        }
    }

    /// Writes a whole message, this header and `body`, to the front of `out`, its checksum right;
    /// gives its length. For an error `body` is the front of the packet in error, IP header first.
    ///
    /// # Errors
    /// `TooShort` when `out` is.
    pub fn emit_message(&self, body: &[u8], out: &mut [u8]) -> Result<usize, ParseError> {
        let (available, len) = (out.len(), Self::LEN.saturating_add(body.len()));
        let message =
            out.get_mut(..len).ok_or(ParseError::too_short(Layer::Icmpv4, len, available))?;
        self.emit(message)?.copy_from_slice(body);
        Self::fill_checksum(message)?;
        Ok(len)
    }
}

/// The type is one of the errors, see [`IcmpHeader::is_error`].
#[must_use]
#[inline]
pub const fn is_error(icmp_type: u8) -> bool {
    matches!(
        icmp_type,
        icmp_type::UNREACHABLE
            | icmp_type::SOURCE_QUENCH
            | icmp_type::REDIRECT
            | icmp_type::TIME_EXCEEDED
            | icmp_type::PARAMETER_PROBLEM
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echo_and_reply() {
        let mut out = [0; 32];
        let echo = IcmpHeader::new(icmp_type::ECHO, 0, 0x1234_0007);
        let len = echo.emit_message(b"payload", &mut out).unwrap();
        assert_eq!((len, checksum::checksum(&out[..len])), (15, 0));
        let (header, body) = IcmpHeader::parse_mut(&mut out[..15]).unwrap();
        assert_eq!((header.ident(), header.sequence(), &body[..]), (0x1234, 7, &b"payload"[..]));
        header.update_type(icmp_type::ECHO_REPLY);
        header.update_rest(0x4321_0007);
        assert_eq!((out[0], checksum::checksum(&out[..15])), (0, 0));
        assert!(echo.emit_message(&[0; 25], &mut out).is_err());
    }

    #[test]
    fn a_message_of_zeros_has_a_checksum() {
        for (ident, checksum) in [(0, [0xff; 2]), (1, [0xff, 0xfe])] {
            let mut out = [0; 12];
            let echo = IcmpHeader::new(icmp_type::ECHO, 0, 7 << 16);
            let len = echo.emit_message(&[0; 4], &mut out).unwrap();
            let (header, _) = IcmpHeader::view_mut(&mut out).unwrap();
            header.update_type(icmp_type::ECHO_REPLY);
            header.update_rest(ident << 16);
            IcmpHeader::fix_zero_checksum(&mut out);
            assert_eq!((&out[2..4], checksum::checksum(&out[..len])), (&checksum[..], 0));
        }
    }

    #[test]
    fn errors_and_their_fields() {
        let header = IcmpHeader::new(icmp_type::UNREACHABLE, unreachable::NEED_FRAGMENT, 1400);
        assert!(header.is_error() && header.mtu() == 1400);
        let header = IcmpHeader::new(icmp_type::PARAMETER_PROBLEM, 0, 20 << 24);
        assert!(header.is_error() && header.pointer() == 20);
        assert!(!is_error(icmp_type::ECHO));
    }
}
