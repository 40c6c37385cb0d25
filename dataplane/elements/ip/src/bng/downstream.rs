//! Packets from the core: out of a tunnel, into two VLANs.

use thruway_element::Reason;
use thruway_packet::Packet;
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::gre::{GreFields, GreHeader};
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::mpls::skip_labels;
use thruway_wire::{Header, checksum, ip_protocol};

use super::drop_reason::BngDrop;
use super::inner::{Inner, inner};
use super::settings::FRONT;
use super::tables::{Location, Tables};
use super::{Gateway, strip_to};

impl Gateway {
    /// Forwards a packet from the core; returns the output.
    #[inline]
    pub(super) fn downstream(
        &self,
        tables: &Tables,
        packet: &mut Packet,
        now: i64,
    ) -> Result<u16, Reason> {
        let (key, at, inside) = self.decap(tables, packet.data())?;
        let inner = inner(inside)?;
        let location = tables.locate(key, inner.dst, now).ok_or(BngDrop::UnknownPlace)?;
        if inner.ttl <= 1 {
            return Err(BngDrop::Expired.into());
        }
        self.tag(packet, at, &inner, &location)?;
        Ok(location.port)
    }

    /// The key of a tunnel's packet that is for this gateway, where the packet inside begins, and
    /// that packet.
    #[inline]
    fn decap<'a>(
        &self,
        tables: &Tables,
        data: &'a [u8],
    ) -> Result<(u32, usize, &'a [u8]), BngDrop> {
        let (ether, rest) = EthernetHeader::view(data).map_err(|_| BngDrop::NotTunnel)?;
        if ether.dst() != self.settings.core_mac {
            return Err(BngDrop::OtherHost);
        }
        let rest = match ether.ethertype() {
            ethertype::MPLS => skip_labels(rest).map_err(|_| BngDrop::NotTunnel)?.1,
            // The last router but one took the label off.
            ethertype::IPV4 => rest,
            _ => return Err(BngDrop::NotTunnel),
        };
        let outer_at = data.len() - rest.len();
        let parsed = Ipv4Header::parse_with_options(rest);
        let (outer, options, rest) = parsed.map_err(|_| BngDrop::Header)?;
        if !outer.checksum_ok(options) {
            return Err(BngDrop::Checksum);
        }
        if outer.dst() != self.settings.ip {
            return Err(BngDrop::OtherHost);
        }
        if outer.protocol() != ip_protocol::GRE {
            return Err(BngDrop::NotTunnel);
        }
        if outer.is_fragment() {
            return Err(BngDrop::Fragment);
        }
        if !tables.is_peer(outer.src()) {
            return Err(BngDrop::UnknownPeer);
        }
        let (gre, options, inside) =
            GreHeader::parse_with_options(rest).map_err(|_| BngDrop::NotTunnel)?;
        let fields = GreFields::read(gre, options);
        if fields.checksum.is_some() && checksum::checksum(rest) != 0 {
            return Err(BngDrop::Checksum);
        }
        if gre.protocol() != ethertype::IPV4 {
            return Err(BngDrop::NotIp);
        }
        let at = outer_at + outer.header_len() + (rest.len() - inside.len());
        Ok((fields.key.ok_or(BngDrop::NotTunnel)?, at, inside))
    }

    /// Takes all off the packet that begins at `at`, and puts the subscriber's front on.
    #[inline]
    fn tag(
        &self,
        packet: &mut Packet,
        at: usize,
        inner: &Inner,
        location: &Location,
    ) -> Result<(), Reason> {
        if !strip_to(packet, at, inner) || !self.settings.put_front(packet, location) {
            return Err(Reason::NO_MEMORY);
        }
        packet.set_network(FRONT, inner.header_len);
        Ok(())
    }
}
