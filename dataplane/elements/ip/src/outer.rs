//! The IPv4 header that encapsulating elements put in front of a packet.

use std::net::Ipv4Addr;

use thruway_element::text::unquote_text;
use thruway_element::{Args, Env, FromArg, HandlerError, Names, Reason, Ty, Verdict, reasons};
use thruway_packet::Packet;
use thruway_wire::Header;
use thruway_wire::ipv4::Ipv4Header;

reasons! {
    /// Why a packet cannot be put behind a header.
    pub(crate) enum Encap {
        TooLong = "too-long": "with its new headers it would have more than 65,535 bytes",
    }
}

/// Where encapsulated packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// To this address.
    Fixed(Ipv4Addr),
    /// To that of the destination annotation.
    Anno,
}

impl Destination {
    /// The meaning of `text`: an address or `DST_ANNO`.
    fn parse(text: &str, parse: impl Fn(&str) -> Result<Ipv4Addr, String>) -> Result<Self, String> {
        match text.trim() {
            "DST_ANNO" => Ok(Destination::Anno),
            text => Ok(Destination::Fixed(
                parse(text).map_err(|why| format!("{why}; DST_ANNO takes the annotation"))?,
            )),
        }
    }
}

impl FromArg for Destination {
    const TY: Ty = Ty::Any;

    fn from_arg(text: &str, env: &Env<'_>) -> Result<Destination, String> {
        Destination::parse(&unquote_text(text), |text| Ipv4Addr::from_arg(text, env))
    }
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Destination::Fixed(addr) => addr.fmt(f),
            Destination::Anno => f.write_str("DST_ANNO"),
        }
    }
}

/// Where identifications begin: replicas begin apart, so that packets to one destination differ.
pub(crate) fn first_id(env: &Env<'_>) -> u16 {
    (65_536 / env.threads.max(1) * env.rank) as u16
}

/// A header in the making.
pub(crate) struct Outer {
    header: Ipv4Header,
    dst: Destination,
    id: u16,
    names: Names,
}

impl Outer {
    /// For packets of `protocol` from `src`, with time-to-live `ttl`. Identifications count from 0.
    pub(crate) fn new(args: &Args<'_>, protocol: u8, src: Ipv4Addr, dst: Destination) -> Outer {
        let to = match dst {
            Destination::Fixed(addr) => addr,
            Destination::Anno => Ipv4Addr::UNSPECIFIED,
        };
        // No payload always fits.
        let header = Ipv4Header::new(protocol, src, to, 0).expect("20 bytes");
        Outer { header, dst, id: first_id(args.env()), names: args.names() }
    }

    /// The header, to set its other fields; checksum and length are set for each packet.
    pub(crate) fn header(&mut self) -> &mut Ipv4Header {
        &mut self.header
    }

    /// Identification of the next packet.
    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    /// Sets the identification of the next packet.
    pub(crate) fn set_id(&mut self, id: u16) {
        self.id = id;
    }

    /// Source and destination of this packet.
    #[inline]
    pub(crate) fn addresses(&self, packet: &Packet) -> (u32, u32) {
        let dst = match self.dst {
            Destination::Fixed(addr) => addr.to_bits(),
            Destination::Anno => u32::from_be_bytes(packet.dst_ip()),
        };
        (self.header.src(), dst)
    }

    /// Puts the header in front of the packet, marks it, and sets the destination annotation.
    #[inline]
    pub(crate) fn encap(&mut self, packet: &mut Packet) -> Verdict {
        let Ok(total_len) = u16::try_from(packet.len() + Ipv4Header::LEN) else {
            return Verdict::drop(Encap::TooLong);
        };
        let (_, dst) = self.addresses(packet);
        if !packet.push(Ipv4Header::LEN) {
            return Verdict::Drop(Reason::NO_MEMORY);
        }
        let mut header = self.header;
        header.set_total_len(total_len);
        header.set_id(self.id);
        header.set_dst(dst);
        header.fill_checksum(&[]);
        self.id = self.id.wrapping_add(1);
        // There are 20 bytes: they were just pushed.
        let _ = header.emit(packet.data_mut());
        packet.set_network(0, Ipv4Header::LEN);
        packet.set_dst_ip(dst.to_be_bytes());
        Verdict::Pass
    }

    /// Reads handler `src` or `dst`.
    pub(crate) fn read(&self, name: &str) -> Result<String, HandlerError> {
        match name {
            "src" => Ok(self.header.src_addr().to_string()),
            "dst" => Ok(self.dst.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    /// Writes handler `src` or `dst`.
    pub(crate) fn write(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "src" => {
                let src: Ipv4Addr = self.names.handler_value(name, value)?;
                self.header.set_src(src.to_bits());
            }
            "dst" => {
                let parsed = Destination::parse(value, |text| self.names.parse(text));
                self.dst = parsed.map_err(|why| HandlerError::refused(format!("{name}: {why}")))?;
            }
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}
