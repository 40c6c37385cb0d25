//! Packets of our own: acknowledgements, resets. Their headers are those of the connection's first
//! packet of that direction.

use thruway_packet::Packet;
use thruway_wire::ip_protocol;
use thruway_wire::tcp::{TcpHeader, flags};
use thruway_wire::tcp_option::kind;
use zerocopy::FromBytes;

use super::Seq;
use crate::content::{Content, HasContent};
use crate::segment::{Parts, finish};

/// Most bytes from the frame's beginning to the end of the TCP header's fixed part: Ethernet with
/// two VLAN tags, IPv6, TCP; and some more for what stands in front.
const HEADERS_MAX: usize = 96;
/// Most SACK blocks: with timestamps, three fit (RFC 2018 section 3).
const BLOCKS_MAX: usize = 3;
/// The TCP header without options, and the ports in front of it.
const FIXED: usize = 20;
const PORTS: usize = 4;

/// The headers of one direction.
#[derive(Clone, Copy)]
pub struct Template {
    bytes: [u8; HEADERS_MAX],
    network: u8,
    transport: u8,
    mac: bool,
    is_ipv6: bool,
    fcb: u32,
    /// The annotation with the address that IPv4 packets are sent to.
    dst: [u8; 4],
}

/// A segment of our own: its header fields.
#[derive(Debug, Clone, Copy, Default)]
pub struct ControlSegment {
    /// Its flags.
    pub flags: u8,
    /// Its sequence number.
    pub seq: Seq,
    /// The acknowledgement number, if `flags` has ACK.
    pub ack: Seq,
    /// The window, not scaled.
    pub window: u16,
    /// Timestamps, value and echo, where the connection has them.
    pub timestamps: Option<(u32, u32)>,
}

impl Default for Template {
    fn default() -> Template {
        Template {
            bytes: [0; HEADERS_MAX],
            network: 0,
            transport: 0,
            mac: false,
            is_ipv6: false,
            fcb: 0,
            dst: [0; 4],
        }
    }
}

impl Template {
    /// Whether there is one.
    pub fn is_known(&self) -> bool {
        self.transport != 0
    }

    /// From a packet of the direction; none where its headers are longer than usual.
    pub fn of(packet: &Packet, parts: &Parts) -> Template {
        let end = parts.transport + FIXED;
        let mut template = Template::default();
        let Some(headers) = packet.data().get(..end).filter(|headers| headers.len() <= HEADERS_MAX)
        else {
            return template;
        };
        template.bytes[..end].copy_from_slice(headers);
        template.network = parts.network as u8;
        template.transport = parts.transport as u8;
        template.mac = packet.mac_offset() == Some(0);
        template.is_ipv6 = parts.is_ipv6;
        template.fcb = packet.fcb();
        if !parts.is_ipv6 {
            template.dst = packet.dst_ip();
        }
        template
    }

    /// Appends it for another host: where its headers begin, these up to the ports, and the
    /// address that packets are sent to.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let flags = u8::from(self.mac) | u8::from(self.is_ipv6) << 1;
        out.extend_from_slice(&[flags, self.network, self.transport]);
        if self.is_known() {
            out.extend_from_slice(&self.bytes[..usize::from(self.transport) + PORTS]);
            out.extend_from_slice(&self.dst);
        }
    }

    /// Reads what another host has written, from the front of `bytes`; `None` if that is no
    /// template. `fcb` is the flow manager's word for its packets here.
    pub(super) fn read(bytes: &mut &[u8], fcb: u32) -> Option<Template> {
        let (&[flags, network, transport], rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        if (flags, network, transport) == (0, 0, 0) {
            return Some(Template::default());
        }
        let end = usize::from(transport) + PORTS;
        let (headers, rest) = bytes.split_at_checked(end)?;
        let (dst, rest) = rest.split_first_chunk()?;
        *bytes = rest;
        let is_ipv6 = flags & 2 != 0;
        let ip = headers.get(usize::from(network)..usize::from(transport))?;
        let is_header = match ip.first()? >> 4 {
            4 => !is_ipv6 && ip.len() >= 20 && ip.len() == usize::from(ip[0] & 15) * 4,
            6 => is_ipv6 && ip.len() >= 40,
            _ => false,
        };
        if flags > 3 || !is_header || end - PORTS + FIXED > HEADERS_MAX {
            return None;
        }
        let mut template = Template {
            network,
            transport,
            mac: flags & 1 != 0,
            is_ipv6,
            fcb,
            dst: *dst,
            ..Template::default()
        };
        template.bytes[..end].copy_from_slice(headers);
        Some(template)
    }

    /// A packet without payload. `None` without a template, or without memory.
    pub fn make(&self, control: &ControlSegment, blocks: &[(Seq, Seq)]) -> Option<Packet> {
        if !self.is_known() {
            return None;
        }
        let (network, transport) = (usize::from(self.network), usize::from(self.transport));
        let mut options = [kind::NOP; 40];
        let len = write_options(&mut options, control.timestamps, blocks);
        let mut packet = Packet::new(&self.bytes[..transport + FIXED])?;
        if !packet.put(len) {
            return None;
        }
        let segment = &mut packet.data_mut()[transport..];
        segment[FIXED..].copy_from_slice(&options[..len]);
        let (header, _) = TcpHeader::mut_from_prefix(segment).ok()?;
        let ports = (header.src_port(), header.dst_port());
        *header = TcpHeader::new(ports, control.seq.get(), control.ack.get(), control.flags);
        header.set_header_len(FIXED + len).ok()?;
        header.set_window(control.window);
        if control.flags & flags::ACK == 0 {
            header.set_ack(0);
        }
        if self.mac {
            packet.set_mac_offset(0);
        }
        packet.set_network(network, transport - network);
        packet.set_fcb(self.fcb);
        if !self.is_ipv6 {
            packet.set_dst_ip(self.dst);
        }
        packet.set_content_mark(Content::NONE);
        let (payload, end) = (packet.len(), packet.len());
        let parts = Parts { network, transport, payload, end, is_ipv6: self.is_ipv6 };
        finish(&mut packet, &parts, ip_protocol::TCP).then_some(packet)
    }
}

/// Writes timestamps and SACK blocks; gives their length, a multiple of four.
fn write_options(
    options: &mut [u8; 40],
    timestamps: Option<(u32, u32)>,
    blocks: &[(Seq, Seq)],
) -> usize {
    let mut at = 0;
    if let Some((value, echo)) = timestamps {
        options[2..4].copy_from_slice(&[kind::TIMESTAMPS, 10]);
        options[4..8].copy_from_slice(&value.to_be_bytes());
        options[8..12].copy_from_slice(&echo.to_be_bytes());
        at = 12;
    }
    let blocks = &blocks[..blocks.len().min(BLOCKS_MAX)];
    if !blocks.is_empty() {
        options[at + 2..at + 4].copy_from_slice(&[kind::SACK, 2 + 8 * blocks.len() as u8]);
        at += 4;
        for (left, right) in blocks {
            options[at..at + 4].copy_from_slice(&left.get().to_be_bytes());
            options[at + 4..at + 8].copy_from_slice(&right.get().to_be_bytes());
            at += 8;
        }
    }
    at
}
