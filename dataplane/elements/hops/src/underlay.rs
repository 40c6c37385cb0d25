//! The headers outside: UDP in IPv4 or IPv6.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thruway_element::{ArgError, ArgErrors, Args, reasons};
use thruway_packet::Packet;
use thruway_wire::checksum::Sum;
use thruway_wire::ipv4::{DONT_FRAGMENT, Ipv4Header};
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::udp::UdpHeader;
use thruway_wire::{Header, ip_protocol};

/// The argument `name`: an address of either version, or a name of one.
pub(crate) fn address(args: &Args<'_>, name: &str) -> Result<IpAddr, ArgError> {
    let text: String = args.get(name)?;
    if let Ok(address) = args.parse::<Ipv4Addr>(&text) {
        return Ok(address.into());
    }
    let parsed = args.parse::<Ipv6Addr>(&text).map(IpAddr::from);
    parsed.map_err(|_| args.error(name, format!("'{text}' is neither an IPv4 nor an IPv6 address")))
}

/// Source and destination: of one version.
pub(crate) fn addresses(args: &Args<'_>) -> Result<(IpAddr, IpAddr), ArgErrors> {
    let (src, dst) = (address(args, "SRC")?, address(args, "DST")?);
    if src.is_ipv4() != dst.is_ipv4() {
        let why = format!("{dst} is not of the version of IP that SRC, {src}, is of");
        return Err(args.error("DST", why).into());
    }
    Ok((src, dst))
}

/// Headers in the making.
pub(crate) struct Underlay {
    ip: IpTemplate,
    dst_port: u16,
    has_checksum: bool,
    id: u16,
}

enum IpTemplate {
    V4(Ipv4Header),
    V6(Ipv6Header),
}

/// The requested fields of an IP header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IpFields {
    /// Time to live, or hop limit.
    pub(crate) ttl: u8,
    /// Differentiated services, 6 bits.
    pub(crate) dscp: u8,
    /// IPv4: routers on the path must not fragment it.
    pub(crate) dont_fragment: bool,
}

impl Underlay {
    /// Headers between these addresses, which are of one version.
    pub(crate) fn new(
        (src, dst): (IpAddr, IpAddr),
        dst_port: u16,
        fields: IpFields,
        has_checksum: bool,
        first_id: u16,
    ) -> Underlay {
        let ip = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                // No payload always fits.
                let mut header = Ipv4Header::new(ip_protocol::UDP, src, dst, 0).expect("20 bytes");
                header.set_ttl(fields.ttl);
                header.set_dscp(fields.dscp);
                header.set_flags_offset(if fields.dont_fragment { DONT_FRAGMENT } else { 0 });
                IpTemplate::V4(header)
            }
            (src, dst) => {
                let of = |address: IpAddr| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped(),
                    IpAddr::V6(address) => address,
                };
                let header = Ipv6Header::new(ip_protocol::UDP, of(src), of(dst), 0);
                let mut header = header.expect("40 bytes");
                header.set_hop_limit(fields.ttl);
                header.set_dscp(fields.dscp);
                IpTemplate::V6(header)
            }
        };
        Underlay { ip, dst_port, has_checksum, id: first_id }
    }

    /// Bytes of IP and UDP headers.
    pub(crate) fn len(&self) -> usize {
        UdpHeader::LEN
            + match self.ip {
                IpTemplate::V4(_) => Ipv4Header::LEN,
                IpTemplate::V6(_) => Ipv6Header::LEN,
            }
    }

    /// Puts the headers and `overlay` in front of a packet, marks the IP header and sets the
    /// destination annotation. On an error nothing has changed.
    ///
    /// # Errors
    /// No memory, or more than an IP packet holds.
    #[inline]
    pub(crate) fn push(
        &mut self,
        packet: &mut Packet,
        src_port: u16,
        overlay: &[u8],
    ) -> Result<(), NotPushed> {
        let ip_len = self.len() - UdpHeader::LEN;
        let payload_len = overlay.len() + packet.len();
        let udp = UdpHeader::new(src_port, self.dst_port, payload_len)
            .map_err(|_| NotPushed::Oversize)?;
        let udp_len = UdpHeader::LEN + payload_len;
        let total_len = u16::try_from(ip_len + udp_len).map_err(|_| NotPushed::Oversize)?;
        if !packet.push(ip_len + UdpHeader::LEN + overlay.len()) {
            return Err(NotPushed::NoMemory);
        }
        let (ip, datagram) = packet.data_mut().split_at_mut(ip_len);
        datagram[UdpHeader::LEN..][..overlay.len()].copy_from_slice(overlay);
        // There is room for all headers: it was just pushed.
        let _ = udp.emit(datagram);
        match &self.ip {
            IpTemplate::V4(template) => {
                let mut header = *template;
                header.set_total_len(total_len);
                header.set_id(self.id);
                header.fill_checksum(&[]);
                let _ = header.emit(ip);
                if self.has_checksum {
                    let _ = UdpHeader::fill_checksum(datagram, header.pseudo_sum(udp_len));
                }
                packet.set_dst_ip(template.dst().to_be_bytes());
            }
            IpTemplate::V6(template) => {
                let mut header = *template;
                header.set_payload_len(udp_len as u16);
                let _ = header.emit(ip);
                if self.has_checksum {
                    let pseudo = header.pseudo_sum(ip_protocol::UDP, udp_len);
                    let _ = UdpHeader::fill_checksum(datagram, pseudo);
                }
                packet.set_dst_ip6(template.dst());
            }
        }
        self.id = self.id.wrapping_add(1);
        packet.set_network(0, ip_len);
        Ok(())
    }
}

/// Why a packet gets no headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotPushed {
    /// Packet memory is used up.
    NoMemory,
    /// No IP packet could hold it with them.
    Oversize,
}

/// A UDP datagram that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    /// Time to live, or hop limit.
    pub(crate) ttl: u8,
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    /// Where the payload begins and ends, in bytes from the IP header.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// The datagrams that a receiver accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accepted {
    /// The destination port.
    pub(crate) port: u16,
    /// IPv6 without checksum, too (RFC 6936).
    pub(crate) zero_checksum: bool,
}

reasons! {
    /// Why a packet is no datagram for a receiver.
    pub(crate) enum NoDatagram {
        Header = "bad-ip-header": "it is truncated, or its IP header is invalid",
        Fragment = "fragment": "it is a fragment: IPReassembler goes before",
        OtherProtocol = "not-udp": "it is not UDP",
        Udp = "bad-udp-header": "its UDP header is wrong, or cut",
        OtherPort = "other-port": "it is for another UDP port",
        ZeroChecksum = "zero-checksum": "it is IPv6 without a UDP checksum, and ZERO_CHECKSUM is false",
        Checksum = "bad-checksum": "its UDP checksum is wrong",
    }
}

/// IP and UDP headers of a packet that begins with the former.
#[inline]
pub(crate) fn datagram(bytes: &[u8], accepted: Accepted) -> Result<Datagram, NoDatagram> {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => datagram_v4(bytes, accepted),
        Some(6) => datagram_v6(bytes, accepted),
        _ => Err(NoDatagram::Header),
    }
}

#[inline]
fn datagram_v4(bytes: &[u8], accepted: Accepted) -> Result<Datagram, NoDatagram> {
    let parsed = Ipv4Header::parse_with_options(bytes);
    let (header, options, payload) = parsed.map_err(|_| NoDatagram::Header)?;
    if !header.checksum_ok(options) {
        return Err(NoDatagram::Header);
    }
    if header.is_fragment() {
        return Err(NoDatagram::Fragment);
    }
    if header.protocol() != ip_protocol::UDP {
        return Err(NoDatagram::OtherProtocol);
    }
    let from = Ipv4Header::LEN + options.len();
    let udp = udp(payload, accepted, false, || header.pseudo_sum(payload.len()))?;
    let (src, dst) = (header.src_addr().into(), header.dst_addr().into());
    Ok(udp.behind(src, dst, header.ttl(), from))
}

fn datagram_v6(bytes: &[u8], accepted: Accepted) -> Result<Datagram, NoDatagram> {
    let (header, payload) = Ipv6Header::parse(bytes).map_err(|_| NoDatagram::Header)?;
    // Extension headers between hosts of one operator are not used.
    match header.next_header() {
        ip_protocol::UDP => {}
        ip_protocol::FRAGMENT => return Err(NoDatagram::Fragment),
        _ => return Err(NoDatagram::OtherProtocol),
    }
    let pseudo = || header.pseudo_sum(ip_protocol::UDP, payload.len());
    let udp = udp(payload, accepted, true, pseudo)?;
    let (src, dst) = (header.src_addr().into(), header.dst_addr().into());
    Ok(udp.behind(src, dst, header.hop_limit(), Ipv6Header::LEN))
}

/// Ports, and bytes of the payload.
struct Udp {
    ports: (u16, u16),
    len: usize,
}

impl Udp {
    #[inline]
    fn behind(self, src: IpAddr, dst: IpAddr, ttl: u8, ip_len: usize) -> Datagram {
        let from = ip_len + UdpHeader::LEN;
        let (src_port, dst_port) = self.ports;
        Datagram { src, dst, ttl, src_port, dst_port, from, to: from + self.len }
    }
}

#[inline]
fn udp(
    bytes: &[u8],
    accepted: Accepted,
    needs_checksum: bool,
    pseudo: impl FnOnce() -> Sum,
) -> Result<Udp, NoDatagram> {
    let (header, payload) = UdpHeader::parse(bytes).map_err(|_| NoDatagram::Udp)?;
    if header.dst_port() != accepted.port {
        return Err(NoDatagram::OtherPort);
    }
    match header.checksum() {
        0 if needs_checksum && !accepted.zero_checksum => return Err(NoDatagram::ZeroChecksum),
        0 => {}
        // Over all bytes: the pseudo header has the UDP length, which may be less than IP's.
        _ if usize::from(header.len()) != bytes.len() => return Err(NoDatagram::Udp),
        _ if pseudo().with(bytes).checksum() != 0 => return Err(NoDatagram::Checksum),
        _ => {}
    }
    Ok(Udp { ports: (header.src_port(), header.dst_port()), len: payload.len() })
}
