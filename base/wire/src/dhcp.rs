//! DHCP for IPv4 (RFC 2131): the fixed part of a message, its options (RFC 2132), and a writer.

use crate::{Defect, Extent, Header, Layer, MacAddr, ParseError};
use core::net::Ipv4Addr;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// UDP port of servers (RFC 2131 section 4.1).
pub const SERVER_PORT: u16 = 67;
/// UDP port of clients (RFC 2131 section 4.1).
pub const CLIENT_PORT: u16 = 68;
/// `op` of messages from clients.
pub const BOOTREQUEST: u8 = 1;
/// `op` of messages from servers.
pub const BOOTREPLY: u8 = 2;
/// Hardware type of Ethernet (RFC 1700 "Number Hardware Type").
pub const ETHERNET: u8 = 1;
/// The flag of a client that takes replies by broadcast only (RFC 2131 section 2).
pub const BROADCAST: u16 = 0x8000;
/// First four bytes of the options (RFC 2131 section 3).
pub const COOKIE: u32 = 0x6382_5363;
/// Shortest message that all relays and clients take, bytes (RFC 1542 section 2.1).
pub const LEN_MIN: usize = 300;
/// Longest message that all clients take, bytes: a datagram of 576 without its IP and UDP headers
/// (RFC 2131 section 2).
pub const LEN_MAX: usize = 548;

/// Values of [`option::MESSAGE_TYPE`] (RFC 2132 section 9.6).
#[allow(missing_docs)] // the names are the RFC's
pub mod message_type {
    pub const DISCOVER: u8 = 1;
    pub const OFFER: u8 = 2;
    pub const REQUEST: u8 = 3;
    pub const DECLINE: u8 = 4;
    pub const ACK: u8 = 5;
    pub const NAK: u8 = 6;
    pub const RELEASE: u8 = 7;
    pub const INFORM: u8 = 8;
}

/// Codes of options (RFC 2132).
pub mod option {
    /// Fills space; has no length.
    pub const PAD: u8 = 0;
    /// Subnet mask.
    pub const MASK: u8 = 1;
    /// Routers, the best first.
    pub const ROUTER: u8 = 3;
    /// Resolvers, the best first.
    pub const DNS: u8 = 6;
    /// Name of the client.
    pub const HOST_NAME: u8 = 12;
    /// Domain in which clients look names up.
    pub const DOMAIN: u8 = 15;
    /// Address that a client would like to have.
    pub const REQUESTED_ADDRESS: u8 = 50;
    /// Time of a lease in seconds.
    pub const LEASE_TIME: u8 = 51;
    /// Whether `file` (1) and `sname` (2) have options too.
    pub const OVERLOAD: u8 = 52;
    /// The message type, see [`super::message_type`].
    pub const MESSAGE_TYPE: u8 = 53;
    /// The server that is meant or answers.
    pub const SERVER_ID: u8 = 54;
    /// Codes of the options that a client asks for.
    pub const PARAMETERS: u8 = 55;
    /// Longest message that a client takes.
    pub const MAX_SIZE: u8 = 57;
    /// Seconds until a client asks its server to renew the lease.
    pub const RENEWAL_TIME: u8 = 58;
    /// Seconds until a client asks any server.
    pub const REBINDING_TIME: u8 = 59;
    /// The client's identifier, if other than its hardware address.
    pub const CLIENT_ID: u8 = 61;
    /// Ends the options; has no length.
    pub const END: u8 = 255;
}

/// The fixed part with the cookie, 240 bytes; [`Header::parse`] gives the options behind.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DhcpHeader {
    op: u8,
    hardware_type: u8,
    hardware_len: u8,
    hops: u8,
    xid: U32,
    secs: U16,
    flags: U16,
    ciaddr: U32,
    yiaddr: U32,
    siaddr: U32,
    giaddr: U32,
    chaddr: [u8; 16],
    sname: [u8; 64],
    file: [u8; 128],
    cookie: U32,
}

impl Header for DhcpHeader {
    const LAYER: Layer = Layer::Dhcp;

    /// The operation, the length of the hardware address and the cookie must be legal.
    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        let invalid =
            |name, value| Err(ParseError::new(Layer::Dhcp, Defect::BadField { name, value }));
        match (self.op, self.hardware_len, self.cookie.get()) {
            (BOOTREQUEST | BOOTREPLY, 0..=16, COOKIE) => {
                Ok(Extent { header_len: Self::LEN, end: available })
            }
            (BOOTREQUEST | BOOTREPLY, 0..=16, cookie) => invalid("cookie", cookie),
            (BOOTREQUEST | BOOTREPLY, len, _) => invalid("hardware address length", u32::from(len)),
            (op, ..) => invalid("operation", u32::from(op)),
        }
    }
}

impl DhcpHeader {
    /// A message from the client with this Ethernet address, or to it; all else is 0.
    #[must_use]
    pub fn new(op: u8, mac: MacAddr, xid: u32) -> Self {
        let mut chaddr = [0; 16];
        chaddr[..6].copy_from_slice(&mac.0);
        Self {
            op,
            hardware_type: ETHERNET,
            hardware_len: 6,
            hops: 0,
            xid: U32::new(xid),
            secs: U16::ZERO,
            flags: U16::ZERO,
            ciaddr: U32::ZERO,
            yiaddr: U32::ZERO,
            siaddr: U32::ZERO,
            giaddr: U32::ZERO,
            chaddr,
            sname: [0; 64],
            file: [0; 128],
            cookie: U32::new(COOKIE),
        }
    }

    accessors! {
        /// [`BOOTREQUEST`] or [`BOOTREPLY`].
        op, set_op: u8;
        /// Hardware type, see [`ETHERNET`].
        hardware_type, set_hardware_type: u8;
        /// Length of the hardware address, at most 16 once parsed.
        hardware_len, set_hardware_len: u8;
        /// Number that the client has chosen, the same in the replies.
        xid, set_xid: u32;
        /// Seconds since the client began.
        secs, set_secs: u16;
        /// See [`BROADCAST`].
        flags, set_flags: u16;
        /// The client's address, if it has one that it can answer ARP for.
        ciaddr, set_ciaddr: u32;
        /// The address that the client is given.
        yiaddr, set_yiaddr: u32;
        /// The server that is next in booting.
        siaddr, set_siaddr: u32;
        /// The relay through which the message came.
        giaddr, set_giaddr: u32;
    }

    /// The client's Ethernet address, if its hardware is Ethernet.
    #[must_use]
    #[inline]
    pub fn mac(&self) -> Option<MacAddr> {
        let [a, b, c, d, e, f, ..] = self.chaddr;
        let is_ethernet = self.hardware_type == ETHERNET && self.hardware_len == 6;
        is_ethernet.then_some(MacAddr([a, b, c, d, e, f]))
    }
}

/// The options of one field in their order, without padding. One that is cut is the last item.
#[derive(Clone, Debug)]
pub struct DhcpOptions<'a>(&'a [u8]);

impl<'a> DhcpOptions<'a> {
    /// Over the bytes behind the header, or in `sname` or `file`.
    #[must_use]
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for DhcpOptions<'a> {
    type Item = Result<(u8, &'a [u8]), ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut bytes = core::mem::take(&mut self.0);
        while let [option::PAD, rest @ ..] = bytes {
            bytes = rest;
        }
        let (code, len, rest) = match *bytes {
            [] | [option::END, ..] => return None,
            [code, len, ref rest @ ..] => (code, usize::from(len), rest),
            [_] => return Some(Err(ParseError::too_short(Layer::Dhcp, 2, 1))),
        };
        let Some((data, rest)) = rest.split_at_checked(len) else {
            let error = ParseError::too_short(Layer::Dhcp, len.saturating_add(2), bytes.len());
            return Some(Err(error));
        };
        self.0 = rest;
        Some(Ok((code, data)))
    }
}

/// A whole message with all options checked.
#[derive(Clone, Copy, Debug)]
pub struct DhcpMessage<'a> {
    header: &'a DhcpHeader,
    /// Where options are, in the order in which they count (RFC 2131 section 4.1).
    fields: [&'a [u8]; 3],
}

impl<'a> DhcpMessage<'a> {
    /// Checks the payload of a UDP datagram.
    ///
    /// # Errors
    /// A wrong header, or an option that is cut.
    pub fn parse(payload: &'a [u8]) -> Result<Self, ParseError> {
        let (header, options) = DhcpHeader::parse(payload)?;
        let mut message = Self { header, fields: [options, &[], &[]] };
        let overload = match message.option(option::OVERLOAD) {
            Some(&[overload]) => overload,
            _ => 0,
        };
        if overload & 1 != 0 {
            message.fields[1] = &header.file;
        }
        if overload & 2 != 0 {
            message.fields[2] = &header.sname;
        }
        for field in message.fields {
            DhcpOptions::new(field).try_for_each(|option| option.map(drop))?;
        }
        Ok(message)
    }

    /// The fixed part.
    #[must_use]
    #[inline]
    pub fn header(&self) -> &'a DhcpHeader {
        self.header
    }

    /// Data of the first option with this code. (Options in several parts, RFC 3396, are read as
    /// far as their first.)
    #[must_use]
    pub fn option(&self, code: u8) -> Option<&'a [u8]> {
        let mut all = self.fields.into_iter().flat_map(DhcpOptions::new).flatten();
        all.find(|(found, _)| *found == code).map(|(_, data)| data)
    }

    /// See [`message_type`]; `None` in a message of BOOTP.
    #[must_use]
    pub fn message_type(&self) -> Option<u8> {
        match self.option(option::MESSAGE_TYPE) {
            Some(&[kind]) => Some(kind),
            _ => None,
        }
    }

    /// The addresses of an option; none where its length is no multiple of 4.
    pub fn addresses(&self, code: u8) -> impl Iterator<Item = Ipv4Addr> + use<'a> {
        let data = self.option(code).filter(|data| data.len().is_multiple_of(4)).unwrap_or(&[]);
        data.as_chunks::<4>().0.iter().map(|octets| Ipv4Addr::from_octets(*octets))
    }

    /// The only or first address of an option.
    #[must_use]
    pub fn address(&self, code: u8) -> Option<Ipv4Addr> {
        self.addresses(code).next()
    }

    /// A time in seconds.
    #[must_use]
    pub fn seconds(&self, code: u8) -> Option<u32> {
        let octets: [u8; 4] = self.option(code)?.try_into().ok()?;
        Some(u32::from_be_bytes(octets))
    }
}

/// Writes a message, one option after the other. Options without room are left out, and
/// [`DhcpWriter::finish`] reports that.
#[derive(Debug)]
pub struct DhcpWriter<'a> {
    out: &'a mut [u8],
    len: usize,
    fits: bool,
}

impl<'a> DhcpWriter<'a> {
    /// Begins a message in `out` with its header and type.
    pub fn new(out: &'a mut [u8], header: &DhcpHeader, message_type: u8) -> Self {
        out.fill(0);
        let fits = header.emit(out).is_ok();
        let mut writer = Self { out, len: DhcpHeader::LEN, fits };
        writer.put(option::MESSAGE_TYPE, &[message_type]);
        writer
    }

    /// Adds an option.
    pub fn put(&mut self, code: u8, data: &[u8]) {
        let end = self.len.saturating_add(2).saturating_add(data.len());
        // One byte stays for the end.
        let is_room = end < self.out.len();
        match (u8::try_from(data.len()), self.out.get_mut(self.len..end)) {
            (Ok(len), Some([first, second, rest @ ..])) if is_room => {
                (*first, *second) = (code, len);
                rest.copy_from_slice(data);
                self.len = end;
            }
            _ => self.fits = false,
        }
    }

    /// Adds an option of addresses, if there are any.
    pub fn put_addresses(&mut self, code: u8, addresses: &[Ipv4Addr]) {
        /// Addresses for which an option has room.
        const MOST: usize = 63;
        let mut data = [0; 4 * MOST];
        for (to, address) in data.chunks_exact_mut(4).zip(addresses) {
            to.copy_from_slice(&address.octets());
        }
        if !addresses.is_empty() {
            self.put(code, data.get(..4 * addresses.len()).unwrap_or(&data));
        }
    }

    /// Adds an option of a time in seconds.
    pub fn put_seconds(&mut self, code: u8, seconds: u32) {
        self.put(code, &seconds.to_be_bytes());
    }

    /// Ends the options; returns the length of the message, at least [`LEN_MIN`] if there is room.
    ///
    /// # Errors
    /// `TooShort` when something did not fit.
    pub fn finish(self) -> Result<usize, ParseError> {
        let available = self.out.len();
        let end = self.out.get_mut(self.len).filter(|_| self.fits);
        let short = ParseError::too_short(Layer::Dhcp, self.len.saturating_add(1), available);
        *end.ok_or(short)? = option::END;
        Ok((self.len + 1).max(LEN_MIN.min(available)))
    }
}

#[cfg(test)]
mod tests;
