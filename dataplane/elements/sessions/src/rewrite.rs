//! What address translation does to an IPv4 packet: the address and port of one end are replaced,
//! checksums are kept right, and what an ICMP error quotes is translated back.
//!
//! A session has two ends, named after its forward packets. A [`Translation`] changes one of them;
//! a session with both changed (hairpin) has two:
//!
//! ```text
//! forward packet   source: before -> after      (End::Source)
//! reply            destination: after -> before
//! ICMP error       as a packet of its own direction, ports not counted; what it quotes is the
//! packet in the opposite direction, as it looked before it was translated
//! ```

use thruway_element::Direction;
use thruway_packet::Packet;
use thruway_wire::checksum::Delta;
use thruway_wire::flow::FiveTuple;
use thruway_wire::icmp::IcmpHeader;
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::{Header, ip_protocol};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute_mut};

/// One end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The source of forward packets.
    Source,
    /// The destination of forward packets.
    Destination,
}

impl End {
    /// Where this end stands in a packet's header.
    #[inline]
    fn in_packet(self, direction: Direction) -> End {
        match direction {
            Direction::Forward => self,
            Direction::Reply => self.other(),
        }
    }

    #[inline]
    fn other(self) -> End {
        match self {
            End::Source => End::Destination,
            End::Destination => End::Source,
        }
    }
}

/// One end's translation: 16 bytes of a session's state. Ports are identifiers where the protocol
/// is ICMP, and 0 where it has neither.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub(crate) struct Translation {
    /// Address as the session's forward packets come, and as they leave.
    addr_before: u32,
    addr_after: u32,
    /// The port likewise.
    port_before: u16,
    port_after: u16,
    /// From before to after: for the checksum of the IP header.
    ip: Delta,
    /// The same for the transport header's, where it has one.
    transport: Delta,
}

/// Why a packet or a session cannot be translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Untranslatable {
    /// The packet has not all the bytes that would change.
    Short,
    /// The port of this protocol cannot be changed: SCTP's checksum covers the whole packet.
    Port,
}

impl Translation {
    /// From address and port (identifier) to address and port, for sessions of a protocol.
    ///
    /// # Errors
    /// `Port`, where the protocol's port would have to change and cannot.
    pub(crate) fn new(
        protocol: u8,
        before: (u32, u16),
        after: (u32, u16),
    ) -> Result<Translation, Untranslatable> {
        if before.1 != after.1 && !has_changeable_port(protocol) {
            return Err(Untranslatable::Port);
        }
        let addresses = Delta::of_u32(before.0, after.0);
        let ports = Delta::of_u16(before.1, after.1);
        let transport = if protocol == ip_protocol::ICMP { ports } else { addresses.and(ports) };
        Ok(Translation {
            addr_before: before.0,
            addr_after: after.0,
            port_before: before.1,
            port_after: after.1,
            ip: addresses,
            transport,
        })
    }

    /// The end before translation: address and port.
    pub(crate) fn before(&self) -> (u32, u16) {
        (self.addr_before, self.port_before)
    }

    /// The end after translation: address and port.
    pub(crate) fn after(&self) -> (u32, u16) {
        (self.addr_after, self.port_after)
    }

    /// The five-tuple of forward packets once they are translated; that of the replies is its
    /// [`FiveTuple::reversed`].
    pub(crate) fn translated(&self, end: End, tuple: FiveTuple<u32>) -> FiveTuple<u32> {
        let (addr, port) = self.after();
        // Both ports of a query are its identifier.
        let query = tuple.protocol == ip_protocol::ICMP;
        match end {
            End::Source if query => {
                FiveTuple { src: addr, src_port: port, dst_port: port, ..tuple }
            }
            End::Destination if query => {
                FiveTuple { dst: addr, src_port: port, dst_port: port, ..tuple }
            }
            End::Source => FiveTuple { src: addr, src_port: port, ..tuple },
            End::Destination => FiveTuple { dst: addr, dst_port: port, ..tuple },
        }
    }

    /// Translates a packet of the session, with marked IPv4 and transport headers. `related`: it is
    /// an ICMP error about a packet of the session, and `direction` is the error's own.
    ///
    /// # Errors
    /// `Short`; the packet is then as it was.
    #[inline]
    pub(crate) fn apply(
        &self,
        packet: &mut Packet,
        end: End,
        direction: Direction,
        related: bool,
    ) -> Result<(), Untranslatable> {
        let ((addr, port), ip_delta, delta) = match direction {
            Direction::Forward => (self.after(), self.ip, self.transport),
            Direction::Reply => (self.before(), self.ip.inverse(), self.transport.inverse()),
        };
        let end = end.in_packet(direction);
        let port = (self.port_before != self.port_after).then_some(port);
        if related {
            return apply_to_error(packet, end, addr, port);
        }
        let protocol = network(packet)?.protocol();
        set_port(packet.transport_mut(), protocol, end, port, delta)?;
        let ip = network(packet)?;
        ip.update_checksum(ip_delta);
        set_address(ip, end, addr);
        Ok(())
    }
}

/// The changed parts of a packet's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// Source address.
    pub(crate) src: Option<u32>,
    /// Destination address.
    pub(crate) dst: Option<u32>,
    /// Behind the IP header.
    pub(crate) ports: Ports,
}

/// The changed parts of a transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    /// Nothing; its checksum is kept right where it covers the addresses.
    Keep,
    /// Source and destination port, of TCP, UDP or DCCP.
    Both(u16, u16),
    /// The identifier of an ICMP query.
    Ident(u16),
}

/// Sets both ends of a packet with marked IPv4 and transport headers. `ip` is the resulting change
/// of the IP header's checksum, `transport` that of the transport header's. Fragments other than
/// the first have no transport header.
///
/// # Errors
/// `Short`; the packet is then as it was.
#[inline]
pub(crate) fn set_ends(
    packet: &mut Packet,
    ends: &Ends,
    ip: Delta,
    transport: Delta,
) -> Result<(), Untranslatable> {
    let header = network(packet)?;
    let protocol = header.protocol();
    let is_first = header.is_first_fragment();
    match ends.ports {
        Ports::Both(src, dst) if is_first => {
            let bytes = packet.transport_mut();
            set_port(bytes, protocol, End::Source, Some(src), transport)?;
            *field(bytes, 2)? = dst.to_be_bytes();
        }
        Ports::Ident(ident) if is_first => {
            let bytes = packet.transport_mut();
            set_port(bytes, ip_protocol::ICMP, End::Source, Some(ident), transport)?;
        }
        Ports::Keep if is_first && protocol != ip_protocol::ICMP => {
            // Where the checksum is not there, nothing depends on it.
            let _ = set_port(packet.transport_mut(), protocol, End::Source, None, transport);
        }
        _ => {}
    }
    let header = network(packet)?;
    header.update_checksum(ip);
    if let Some(src) = ends.src {
        header.set_src(src);
    }
    if let Some(dst) = ends.dst {
        header.set_dst(dst);
    }
    Ok(())
}

/// Sets the error's own address as netfilter does: a router on the translated side, with an address
/// unknown to the other side, appears as the end itself.
#[cold]
fn apply_to_error(
    packet: &mut Packet,
    end: End,
    addr: u32,
    port: Option<u16>,
) -> Result<(), Untranslatable> {
    network(packet)?;
    let (icmp, quoted) =
        IcmpHeader::view_mut(packet.transport_mut()).map_err(|_| Untranslatable::Short)?;
    icmp.update_checksum(translate_quoted(quoted, end.other(), addr, port)?);
    let ip = network(packet)?;
    ip.update_checksum(Delta::of_u32(address(ip, end), addr));
    set_address(ip, end, addr);
    Ok(())
}

/// The marked IPv4 header.
#[inline]
fn network(packet: &mut Packet) -> Result<&mut Ipv4Header, Untranslatable> {
    let head = packet.network_head_mut::<20>().ok_or(Untranslatable::Short)?;
    Ok(transmute_mut!(head))
}

fn address(ip: &Ipv4Header, end: End) -> u32 {
    match end {
        End::Source => ip.src(),
        End::Destination => ip.dst(),
    }
}

/// Sets an address and nothing else.
#[inline]
fn set_address(ip: &mut Ipv4Header, end: End, addr: u32) {
    match end {
        End::Source => ip.set_src(addr),
        End::Destination => ip.set_dst(addr),
    }
}

/// Whether [`set_port`] can change the port of this protocol.
fn has_changeable_port(protocol: u8) -> bool {
    use ip_protocol::{DCCP, ICMP, TCP, UDP, UDP_LITE};
    matches!(protocol, TCP | UDP | DCCP | UDP_LITE | ICMP)
}

/// Where a transport header has its checksum: TCP (RFC 9293 section 3.1), UDP (RFC 768), DCCP
/// (RFC 4340 section 5.1), UDP-Lite (RFC 3828 section 3.1), ICMP (RFC 792). `None`: the addresses
/// are under no checksum but the IP header's.
#[inline]
fn checksum_offset(protocol: u8) -> Option<usize> {
    use ip_protocol::{DCCP, ICMP, TCP, UDP, UDP_LITE};
    match protocol {
        TCP => Some(16),
        UDP | DCCP | UDP_LITE => Some(6),
        ICMP => Some(2),
        _ => None,
    }
}

/// Where the port of an end, or an identifier, stands.
#[inline]
fn port_offset(protocol: u8, end: End) -> usize {
    match (protocol, end) {
        (ip_protocol::ICMP, _) => 4,
        (_, End::Source) => 0,
        (_, End::Destination) => 2,
    }
}

/// Two bytes of a header.
#[inline]
fn field(bytes: &mut [u8], at: usize) -> Result<&mut [u8; 2], Untranslatable> {
    bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()).ok_or(Untranslatable::Short)
}

/// Changes the checksum of a transport header by `delta`, and the port to `port`.
#[inline]
fn set_port(
    transport: &mut [u8],
    protocol: u8,
    end: End,
    port: Option<u16>,
    delta: Delta,
) -> Result<(), Untranslatable> {
    // Every checksum is behind the ports, but ICMP's in front of the identifier.
    let at = port.map(|port| (port_offset(protocol, end), port));
    if let Some((at, _)) = at {
        field(transport, at)?;
    }
    if let Some(at) = checksum_offset(protocol) {
        let checksum = field(transport, at)?;
        let old = u16::from_be_bytes(*checksum);
        *checksum = changed(protocol, old, delta).to_be_bytes();
    }
    if let Some((at, port)) = at {
        *field(transport, at)? = port.to_be_bytes();
        if protocol == ip_protocol::ICMP {
            IcmpHeader::fix_zero_checksum(transport);
        }
    }
    Ok(())
}

/// A transport checksum after a change.
#[inline]
fn changed(protocol: u8, checksum: u16, delta: Delta) -> u16 {
    match protocol {
        // UDP-Lite has no "none", and forbids 0.
        ip_protocol::UDP | ip_protocol::UDP_LITE => delta.apply_udp(checksum),
        _ => delta.apply(checksum),
    }
}

/// Translates the packet that an ICMP error quotes, which may be cut; gives the change of the
/// error's checksum. `end` is the one to set, as it stands in the quoted header.
///
/// # Errors
/// `Short`, where it ends before what would be set.
pub(crate) fn translate_quoted(
    quoted: &mut [u8],
    end: End,
    addr: u32,
    port: Option<u16>,
) -> Result<Delta, Untranslatable> {
    let (header, _, _) = Ipv4Header::parse_cut(quoted).map_err(|_| Untranslatable::Short)?;
    let (header_len, protocol, old) =
        (header.header_len(), header.protocol(), address(header, end));
    let addresses = Delta::of_u32(old, addr);
    let (ip, rest) = quoted.split_at_mut_checked(header_len).ok_or(Untranslatable::Short)?;
    let mut ports = Delta::NONE;
    if let Some(port) = port {
        let place = field(rest, port_offset(protocol, end))?;
        ports = Delta::of_u16(u16::from_be_bytes(*place), port);
        *place = port.to_be_bytes();
    }
    let pseudo = if protocol == ip_protocol::ICMP { ports } else { addresses.and(ports) };
    let mut delta = addresses.and(ports);
    // The checksum may lie beyond what is quoted (RFC 792: 64 bits of the original datagram).
    let place = checksum_offset(protocol).and_then(|at| field(rest, at).ok());
    if let Some(checksum) = place {
        let old = u16::from_be_bytes(*checksum);
        let new = changed(protocol, old, pseudo);
        *checksum = new.to_be_bytes();
        delta = delta.and(Delta::of_u16(old, new));
    }
    let (ip, _) = Ipv4Header::view_mut(ip).map_err(|_| Untranslatable::Short)?;
    let before = ip.checksum();
    ip.update_checksum(addresses);
    set_address(ip, end, addr);
    Ok(delta.and(Delta::of_u16(before, ip.checksum())))
}

#[cfg(test)]
mod tests;
