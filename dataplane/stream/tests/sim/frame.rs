//! Segments, and the real frames that carry them.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use thruway_packet::Packet;
use thruway_wire::checksum::Sum;
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::ip_protocol;
use thruway_wire::ipv4::{DONT_FRAGMENT, Ipv4Header};
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::tcp::{TcpHeader, flags};
use thruway_wire::tcp_option::{TcpOption, TcpOptions, kind};
use thruway_wire::{Header, MacAddr};

/// One of the two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    A,
    B,
}

impl Side {
    pub const BOTH: [Side; 2] = [Side::A, Side::B];

    pub fn other(self) -> Side {
        if self == Side::A { Side::B } else { Side::A }
    }

    /// 0 or 1.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// What all segments of a connection have in common.
#[derive(Debug, Clone, Copy)]
pub struct Wire {
    pub v6: bool,
    /// Ports of A and B.
    pub ports: [u16; 2],
}

/// Most blocks that an option can hold.
const MAX_BLOCKS: usize = 4;

/// Blocks of a selective acknowledgement.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Blocks {
    blocks: [(u32, u32); MAX_BLOCKS],
    count: usize,
}

impl Blocks {
    pub fn push(&mut self, block: (u32, u32)) {
        if let Some(slot) = self.blocks.get_mut(self.count) {
            *slot = block;
            self.count += 1;
        }
    }

    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..self.count]
    }
}

/// A segment, taken apart.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Segment {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub mss: Option<u16>,
    pub scale: Option<u8>,
    pub sack_permitted: bool,
    /// TSval and TSecr.
    pub stamps: Option<(u32, u32)>,
    pub blocks: Blocks,
    pub payload: Vec<u8>,
}

impl Segment {
    pub fn has(&self, mask: u8) -> bool {
        self.flags & mask == mask
    }

    /// Sequence numbers that it takes.
    pub fn span(&self) -> u32 {
        let controls = u32::from(self.has(flags::SYN)) + u32::from(self.has(flags::FIN));
        self.payload.len() as u32 + controls
    }

    /// Bytes of its options, padding included.
    pub fn options_len(&self) -> usize {
        let mut len = 0;
        len += if self.mss.is_some() { 4 } else { 0 };
        len += if self.scale.is_some() { 4 } else { 0 };
        len += match (self.sack_permitted, self.stamps.is_some()) {
            (true, false) => 4,
            (true, true) => 12,
            (false, true) => 12,
            (false, false) => 0,
        };
        let blocks = self.blocks.as_slice().len();
        len + if blocks > 0 { 4 + 8 * blocks } else { 0 }
    }

    /// The options, aligned as Linux aligns them.
    fn options(&self) -> ([u8; 40], usize) {
        let (mut bytes, mut len) = ([kind::NOP; 40], 0);
        let mut put = |pad: usize, option: TcpOption<'_>| {
            let rest = bytes.get_mut(len + pad..).unwrap_or_default();
            let room = rest.len();
            let left = option.emit(rest).expect("options fit 40 bytes").len();
            len += pad + room - left;
        };
        if let Some(mss) = self.mss {
            put(0, TcpOption::Mss(mss));
        }
        if self.sack_permitted {
            let pad = if self.stamps.is_some() { 0 } else { 2 };
            put(pad, TcpOption::SackPermitted);
        }
        if let Some((value, echo)) = self.stamps {
            let pad = if self.sack_permitted { 0 } else { 2 };
            put(pad, TcpOption::Timestamps { value, echo });
        }
        if let Some(scale) = self.scale {
            put(1, TcpOption::WindowScale(scale));
        }
        if !self.blocks.as_slice().is_empty() {
            let mut data = Vec::with_capacity(8 * MAX_BLOCKS);
            for (left, right) in self.blocks.as_slice() {
                data.extend(left.to_be_bytes());
                data.extend(right.to_be_bytes());
            }
            put(2, TcpOption::Other { kind: kind::SACK, data: &data });
        }
        debug_assert_eq!(len, self.options_len());
        (bytes, len)
    }

    /// The frame that carries it from one side to the other.
    pub fn emit(&self, wire: &Wire, from: Side) -> Packet {
        let (options, options_len) = self.options();
        let tcp_len = TcpHeader::LEN + options_len + self.payload.len();
        let ip_len = if wire.v6 { Ipv6Header::LEN } else { Ipv4Header::LEN };
        let mut packet = Packet::zeroed(EthernetHeader::LEN + ip_len + tcp_len).expect("memory");
        packet.set_mac_offset(0);
        packet.set_network(EthernetHeader::LEN, ip_len);
        let rest = emit_ethernet(packet.data_mut(), wire, from);
        let (rest, pseudo) = emit_ip(rest, wire, from, tcp_len);
        let (source, target) = (wire.ports[from.index()], wire.ports[from.other().index()]);
        let mut tcp = TcpHeader::new((source, target), self.seq, self.ack, self.flags);
        tcp.set_header_len(TcpHeader::LEN + options_len).expect("at most 60");
        tcp.set_window(self.window);
        let body = tcp.emit(rest).expect("room was made");
        body[..options_len].copy_from_slice(&options[..options_len]);
        body[options_len..].copy_from_slice(&self.payload);
        TcpHeader::fill_checksum(rest, pseudo).expect("it is a segment");
        packet
    }

    /// What a frame holds for one of a connection's sides; the error says what is wrong with it.
    pub fn parse(wire: &Wire, to: Side, frame: &[u8]) -> Result<Segment, String> {
        let (tcp, pseudo) = parse_ip(wire, to, frame)?;
        if pseudo.with(tcp).checksum() != 0 {
            return Err("TCP checksum".into());
        }
        let (header, options, payload) =
            TcpHeader::parse_with_options(tcp).map_err(|error| error.to_string())?;
        let ports = (header.src_port(), header.dst_port());
        if ports != (wire.ports[to.other().index()], wire.ports[to.index()]) {
            return Err(format!("ports {ports:?}"));
        }
        let mut segment = Segment {
            seq: header.seq(),
            ack: header.ack(),
            flags: header.flags(),
            window: header.window(),
            payload: payload.to_vec(),
            ..Segment::default()
        };
        for option in TcpOptions::new(options) {
            segment.take(option.map_err(|error| error.to_string())?);
        }
        Ok(segment)
    }

    fn take(&mut self, option: TcpOption<'_>) {
        match option {
            TcpOption::Mss(mss) => self.mss = Some(mss),
            TcpOption::WindowScale(scale) => self.scale = Some(scale),
            TcpOption::SackPermitted => self.sack_permitted = true,
            TcpOption::Timestamps { value, echo } => self.stamps = Some((value, echo)),
            TcpOption::Sack(blocks) => blocks.iter().for_each(|block| self.blocks.push(block)),
            _ => {}
        }
    }
}

fn emit_ethernet<'a>(frame: &'a mut [u8], wire: &Wire, from: Side) -> &'a mut [u8] {
    let mac = |side: Side| MacAddr([2, 0, 0, 0, 0, side.index() as u8 + 1]);
    let ethertype = if wire.v6 { ethertype::IPV6 } else { ethertype::IPV4 };
    let header = EthernetHeader::new(mac(from.other()), mac(from), ethertype);
    header.emit(frame).expect("room was made")
}

fn v4(side: Side) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, side.index() as u8 + 1)
}

fn v6(side: Side) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, side.index() as u16 + 1)
}

/// Writes the network header; what is behind it, and the pseudo header's sum.
fn emit_ip<'a>(rest: &'a mut [u8], wire: &Wire, from: Side, tcp_len: usize) -> (&'a mut [u8], Sum) {
    const TCP: u8 = ip_protocol::TCP;
    let to = from.other();
    if wire.v6 {
        let header = Ipv6Header::new(TCP, v6(from), v6(to), tcp_len).expect("it fits");
        (header.emit(rest).expect("room was made"), header.pseudo_sum(TCP, tcp_len))
    } else {
        let mut header = Ipv4Header::new(TCP, v4(from), v4(to), tcp_len).expect("it fits");
        header.set_flags_offset(DONT_FRAGMENT);
        header.fill_checksum(&[]);
        (header.emit(rest).expect("room was made"), header.pseudo_sum(tcp_len))
    }
}

/// The transport layer's bytes, and the pseudo header's sum.
fn parse_ip<'a>(wire: &Wire, to: Side, frame: &'a [u8]) -> Result<(&'a [u8], Sum), String> {
    let text = |error: thruway_wire::ParseError| error.to_string();
    let (_, packet) = EthernetHeader::parse(frame).map_err(text)?;
    let (rest, pseudo, end) = if wire.v6 {
        let (header, rest) = Ipv6Header::parse(packet).map_err(text)?;
        if (header.src_addr(), header.dst_addr()) != (v6(to.other()), v6(to)) {
            return Err("IPv6 addresses".into());
        }
        (rest, header.pseudo_sum(ip_protocol::TCP, rest.len()), rest.len() + Ipv6Header::LEN)
    } else {
        let (header, rest) = Ipv4Header::parse(packet).map_err(text)?;
        if Sum::ZERO.with(&packet[..header.header_len()]).checksum() != 0 {
            return Err("IPv4 checksum".into());
        }
        if (header.src_addr(), header.dst_addr()) != (v4(to.other()), v4(to)) {
            return Err("IPv4 addresses".into());
        }
        (rest, header.pseudo_sum(rest.len()), usize::from(header.total_len()))
    };
    if end != packet.len() {
        return Err(format!("{} bytes behind the IP packet", packet.len() - end));
    }
    Ok((rest, pseudo))
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(u8, &str); 6] = [
            (flags::SYN, "S"),
            (flags::FIN, "F"),
            (flags::RST, "R"),
            (flags::PSH, "P"),
            (flags::URG, "U"),
            (flags::ACK, "."),
        ];
        for (_, name) in NAMES.iter().filter(|(flag, _)| self.has(*flag)) {
            f.write_str(name)?;
        }
        let end = self.seq.wrapping_add(self.payload.len() as u32);
        write!(f, " {}:{end}({})", self.seq, self.payload.len())?;
        write!(f, " ack {} win {}", self.ack, self.window)?;
        if let Some(mss) = self.mss {
            write!(f, " mss {mss}")?;
        }
        if let Some(scale) = self.scale {
            write!(f, " ws {scale}")?;
        }
        if self.sack_permitted {
            f.write_str(" sackOK")?;
        }
        if let Some((value, echo)) = self.stamps {
            write!(f, " ts {value} ecr {echo}")?;
        }
        for (left, right) in self.blocks.as_slice() {
            write!(f, " sack {left}:{right}")?;
        }
        Ok(())
    }
}
