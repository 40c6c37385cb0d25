//! Packets from subscribers: out of two VLANs, into a tunnel.

use thruway_element::{Reason, Verdict};
use thruway_packet::Packet;
use thruway_wire::arp::{self, ArpPacket};
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::gre::GreFields;
use thruway_wire::ipv4::DONT_FRAGMENT;
use thruway_wire::mpls::MplsLabel;
use thruway_wire::vlan::VlanTag;
use thruway_wire::{Header, MacAddr};

use super::drop_reason::BngDrop;
use super::entries::{Line, Tunnel};
use super::inner::{Inner, inner};
use super::settings::{FRONT, Settings};
use super::tables::{Location, Tables};
use super::{Failed, Gateway, is_unicast, strip_to};
use crate::gre_encap;

/// Above these bits of the type of service stands the class selector (RFC 2474 section 4.2.2),
/// which labels have room for.
const CLASS_SHIFT: u8 = 5;

/// The headers in front of a subscriber's packet.
#[derive(Debug, Clone, Copy)]
struct Front {
    dst: MacAddr,
    src: MacAddr,
    line: Line,
    inside: u16,
}

/// Reads Ethernet header and tags.
#[inline]
fn front(data: &[u8], outer_type: u16) -> Result<Front, BngDrop> {
    let (ether, rest) = EthernetHeader::view(data).map_err(|_| BngDrop::NotTagged)?;
    let (outer, rest) = VlanTag::view(rest).map_err(|_| BngDrop::NotTagged)?;
    let (inner, _) = VlanTag::view(rest).map_err(|_| BngDrop::NotTagged)?;
    if ether.ethertype() != outer_type || outer.ethertype() != ethertype::VLAN {
        return Err(BngDrop::NotTagged);
    }
    let line = Line::new(outer.vid(), inner.vid());
    Ok(Front { dst: ether.dst(), src: ether.src(), line, inside: inner.ethertype() })
}

impl Settings {
    /// Puts Ethernet header and tags in front of a packet to a subscriber; false, and nothing
    /// changed, when packet memory is used up.
    #[inline]
    pub(super) fn put_front(&self, packet: &mut Packet, location: &Location) -> bool {
        if !packet.push(FRONT) {
            return false;
        }
        let (outer, line) = location.line.vlans();
        let ether = EthernetHeader::new(location.mac, self.access_mac, self.outer_type);
        let tags = [VlanTag::new(outer, ethertype::VLAN), VlanTag::new(line, ethertype::IPV4)];
        // There is room for all: it was just pushed.
        let rest = ether.emit(packet.data_mut());
        let rest = rest.and_then(|rest| tags[0].emit(rest));
        let _ = rest.and_then(|rest| tags[1].emit(rest));
        packet.set_mac_offset(0);
        true
    }

    /// Answers an ARP query in place, after its sender was checked and noted.
    fn arp(
        &self,
        tables: &Tables,
        packet: &mut Packet,
        front: &Front,
        (port, now): (usize, i64),
    ) -> Result<u16, BngDrop> {
        let body = packet.data().get(FRONT..).unwrap_or(&[]);
        let (query, _) = ArpPacket::parse(body).map_err(|_| BngDrop::NotIp)?;
        let (query, target) = (*query, query.target_ip());
        let known = tables.subscriber(front.line, query.sender_ip());
        let (key, own) = known.ok_or(BngDrop::UnknownLine)?;
        // Probes (RFC 5227) come from 0.0.0.0: they are not answered, or no address would be free.
        if !own || query.sender_mac() != front.src || front.src.is_multicast() {
            return Err(BngDrop::Spoofed);
        }
        let location = Location { line: front.line, mac: front.src, port: port as u16 };
        tables.learn(key, query.sender_ip(), location, now);
        let ours = self.gateway == Some(target) || !tables.is_own(front.line, target);
        if query.operation() != arp::REQUEST || !ours {
            return Err(BngDrop::NotIp);
        }
        let data = packet.data_mut();
        let ether = EthernetHeader::new(front.src, self.access_mac, self.outer_type);
        // Both were parsed there.
        let _ = ether.emit(data);
        let _ = query.reply_from(self.access_mac).emit(&mut data[FRONT..]);
        Ok(port as u16)
    }
}

impl Gateway {
    /// Forwards what a subscriber sent to `port`; the output.
    #[inline]
    pub(super) fn upstream(
        &mut self,
        tables: &Tables,
        packet: &mut Packet,
        port: usize,
        now: i64,
    ) -> Result<u16, Failed> {
        let front = front(packet.data(), self.settings.outer_type)?;
        if front.inside == ethertype::ARP
            && (front.dst.is_broadcast() || front.dst == self.settings.access_mac)
        {
            return Ok(self.settings.arp(tables, packet, &front, (port, now))?);
        }
        let location = Location { line: front.line, mac: front.src, port: port as u16 };
        match self.judge(tables, packet.data(), &front) {
            Ok((inner, key, tunnel)) => {
                tables.learn(key, inner.src, location, now);
                self.encap(packet, &inner, key, &tunnel)?;
                Ok(tunnel.port)
            }
            Err(bad) => self.answer(packet, &location, bad),
        }
    }

    /// Answers a packet that goes no further, or says why not.
    #[cold]
    fn answer(
        &mut self,
        packet: &mut Packet,
        location: &Location,
        bad: BngDrop,
    ) -> Result<u16, Failed> {
        let Some(voice) = &mut self.voice else { return Err(bad.into()) };
        if bad == BngDrop::ForGateway && voice.reply(&self.settings, packet, location) {
            return Ok(location.port);
        }
        let reported = voice.announce(&self.settings, packet, location, bad);
        Err(Failed { reason: bad.into(), reported: reported.then_some(location.port) })
    }

    /// Whether an IP packet may go on, with which key and by which tunnel.
    #[inline]
    fn judge(
        &self,
        tables: &Tables,
        data: &[u8],
        front: &Front,
    ) -> Result<(Inner, u32, Tunnel), BngDrop> {
        if front.dst != self.settings.access_mac {
            return Err(if front.dst.is_multicast() {
                BngDrop::NotUnicast
            } else {
                BngDrop::OtherHost
            });
        }
        if front.inside != ethertype::IPV4 {
            return Err(BngDrop::NotIp);
        }
        let bytes = data.get(FRONT..).unwrap_or(&[]);
        let inner = inner(bytes)?;
        let (key, own) = tables.subscriber(front.line, inner.src).ok_or(BngDrop::UnknownLine)?;
        if !own || front.src.is_multicast() {
            return Err(BngDrop::Spoofed);
        }
        if self.settings.gateway == Some(inner.dst) {
            return Err(BngDrop::ForGateway);
        }
        if !is_unicast(inner.dst) {
            return Err(BngDrop::NotUnicast);
        }
        if inner.total_len > self.settings.mtu {
            return Err(BngDrop::TooLong);
        }
        if inner.ttl <= 1 {
            return Err(BngDrop::Expired);
        }
        let tunnel = tables.tunnel_to(inner.dst).ok_or(BngDrop::NoRoute)?;
        Ok((inner, key, tunnel))
    }

    /// Takes the frame's front off and puts that of the core on.
    #[inline]
    fn encap(
        &mut self,
        packet: &mut Packet,
        inner: &Inner,
        key: u32,
        tunnel: &Tunnel,
    ) -> Result<(), Reason> {
        let settings = &self.settings;
        let checksum = settings.checksum.then_some(0);
        let gre = GreFields { checksum, key: Some(key), sequence: None };
        if !strip_to(packet, FRONT, inner) || !gre_encap::put_header(packet, ethertype::IPV4, &gre)
        {
            return Err(Reason::NO_MEMORY);
        }
        let header = self.outer.header();
        // The DSCP, without the bits for congestion (RFC 6040 section 4.1, compatibility mode).
        header.set_tos(inner.tos & !3);
        header.set_flags_offset(if inner.dont_fragment { DONT_FRAGMENT } else { 0 });
        packet.set_dst_ip(tunnel.remote.to_be_bytes());
        // There is room for its length: MTU is limited.
        if self.outer.encap(packet) != Verdict::Pass {
            return Err(Reason::NO_MEMORY);
        }
        let labels = tunnel.labels();
        if !packet.push(EthernetHeader::LEN + MplsLabel::LEN * labels.len()) {
            return Err(Reason::NO_MEMORY);
        }
        let kind = if labels.is_empty() { ethertype::IPV4 } else { ethertype::MPLS };
        let ether = EthernetHeader::new(tunnel.mac, settings.core_mac, kind);
        // There is room for all: it was just pushed.
        let mut rest = ether.emit(packet.data_mut()).map_err(|_| Reason::NO_MEMORY)?;
        for (below, label) in labels.iter().enumerate().rev() {
            let class = inner.tos >> CLASS_SHIFT;
            let entry = MplsLabel::new(*label, class, below == 0, settings.ttl);
            rest = entry.emit(rest).map_err(|_| Reason::NO_MEMORY)?;
        }
        packet.set_mac_offset(0);
        Ok(())
    }
}
