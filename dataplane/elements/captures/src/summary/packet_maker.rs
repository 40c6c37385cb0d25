//! Packets made of what a summary says of them.

use thruway_packet::{Anno, Packet};
use thruway_wire::checksum::Sum;
use thruway_wire::{checksum, icmp, ip_protocol, ipv4, tcp, udp};

use super::record::{FlowId, Record};

/// Time to live where the line does not say.
const TTL: u8 = 100;

/// Defaults for missing fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Defaults {
    pub flow: FlowId,
    pub protocol: u8,
    pub aggregate: Option<u32>,
    /// Whether packets have all bytes of their IP length, and right checksums.
    pub checksum: bool,
}

/// The packet's headers and payload, without what only its length says.
fn bytes_of(record: &Record, defaults: &Defaults) -> (Vec<u8>, usize) {
    let flow = &defaults.flow;
    let protocol = record.protocol.or(flow.protocol).unwrap_or(defaults.protocol);
    let mut bytes = vec![0; 20];
    bytes.extend_from_slice(&record.ip_options);
    // Fill up options that the line lacks with end-of-list bytes.
    let header_len = bytes.len().next_multiple_of(4).max(record.ip_header_len);
    bytes.resize(header_len, 0);
    bytes[0] = 0x40 | (header_len / 4) as u8;
    bytes[1] = record.tos;
    bytes[4..6].copy_from_slice(&record.id.to_be_bytes());
    bytes[6..8].copy_from_slice(&record.fragment().to_be_bytes());
    bytes[8] = record.ttl.unwrap_or(TTL);
    bytes[9] = protocol;
    bytes[10..12].copy_from_slice(&record.ip_sum.unwrap_or(0).to_be_bytes());
    for (at, address) in [(12, record.src.or(flow.src)), (16, record.dst.or(flow.dst))] {
        bytes[at..at + 4].copy_from_slice(&address.map_or([0; 4], |address| address.octets()));
    }
    if record.fragment() & ipv4::OFFSET_MASK == 0 {
        push_transport(&mut bytes, record, flow, protocol);
    }
    bytes.extend_from_slice(record.payload.as_deref().unwrap_or(&[]));
    (bytes, header_len)
}

/// Adds the transport header, of the protocols that have one here.
fn push_transport(bytes: &mut Vec<u8>, record: &Record, flow: &FlowId, protocol: u8) {
    let ports = [record.sport.or(flow.sport), record.dport.or(flow.dport)];
    let mut push = |words: &[u16]| bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    match protocol {
        ip_protocol::TCP => {
            let given = record.tcp_header_len.saturating_sub(20);
            let options_len = record.tcp_options.len().next_multiple_of(4).max(given);
            let words = (20 + options_len) as u16 / 4;
            push(&ports.map(|port| port.unwrap_or(0)));
            let halves = |word: u32| [(word >> 16) as u16, word as u16];
            push(&halves(record.seq));
            push(&halves(record.ack));
            push(&[words << 12 | record.flags, record.window, 0, record.urgent]);
            let end = bytes.len() + options_len;
            bytes.extend_from_slice(&record.tcp_options);
            bytes.resize(end, 0);
        }
        ip_protocol::UDP => {
            push(&ports.map(|port| port.unwrap_or(0)));
            push(&[record.udp_len.unwrap_or(0), 0]);
        }
        ip_protocol::ICMP => {
            push(&[u16::from_be_bytes([record.icmp_type, record.icmp_code]), 0]);
            push(&record.icmp_rest);
        }
        _ => {}
    }
}

/// The packet that a line describes; `None` when no frame holds it or memory is used up. A line
/// that gives annotations only makes a packet without bytes.
pub(crate) fn make_packet(record: &Record, defaults: &Defaults) -> Option<Packet> {
    if !record.has_ip && defaults.flow == FlowId::default() {
        let mut packet = framed(&[], record)?;
        packet.set_timestamp(record.timestamp().unwrap_or(0));
        annotate(&mut packet, record, defaults, 0);
        return Some(packet);
    }
    let (mut bytes, header_len) = bytes_of(record, defaults);
    let headers = bytes.len() - record.payload.as_ref().map_or(0, Vec::len);
    let by_payload = record.payload_len.map(|len| headers.saturating_add(len as usize));
    let wanted = record.len.map(|len| len as usize).or(by_payload).unwrap_or(bytes.len());
    // An IP packet has no more; what a line says beyond is the extra length of several.
    let ip_len = wanted.min(usize::from(u16::MAX)) as u16;
    bytes[2..4].copy_from_slice(&ip_len.to_be_bytes());
    let udp = bytes[9] == ip_protocol::UDP && record.fragment() & ipv4::OFFSET_MASK == 0;
    if udp && record.udp_len.is_none() {
        let len = ip_len.saturating_sub(header_len as u16);
        bytes[header_len + 4..header_len + 6].copy_from_slice(&len.to_be_bytes());
    }
    let kept = if defaults.checksum { usize::from(ip_len) } else { bytes.len().min(wanted) };
    bytes.resize(kept.max(header_len), 0);
    if defaults.checksum {
        fill_checksums(&mut bytes, header_len, record);
    }
    let mut packet = framed(&bytes, record)?;
    let at = packet.len() - bytes.len();
    packet.set_network(at, header_len);
    packet.set_dst_ip([bytes[16], bytes[17], bytes[18], bytes[19]]);
    packet.set_timestamp(record.timestamp().unwrap_or(0));
    annotate(&mut packet, record, defaults, wanted.saturating_sub(bytes.len()));
    Some(packet)
}

/// The packet with its Ethernet addresses in front, where the line gives some.
fn framed(bytes: &[u8], record: &Record) -> Option<Packet> {
    let mut packet = Packet::new(bytes)?;
    if record.eth == [None, None] {
        return Some(packet);
    }
    if !packet.push(14) {
        return None;
    }
    let [dst, src] = record.eth.map(|address| address.unwrap_or([0; 6]));
    let header = packet.data_mut();
    header[..6].copy_from_slice(&dst);
    header[6..12].copy_from_slice(&src);
    header[12..14].copy_from_slice(&[0x08, 0x00]);
    packet.set_mac_offset(0);
    Some(packet)
}

fn annotate(packet: &mut Packet, record: &Record, defaults: &Defaults, extra: usize) {
    let most = usize::from(u16::MAX);
    packet.set_anno_number(Anno::EXTRA_LENGTH, extra.min(most) as u32);
    let others = record.count.unwrap_or(1).saturating_sub(1);
    packet.set_anno_number(Anno::EXTRA_PACKETS, others.min(most as u32));
    if let Some(link) = record.link {
        packet.set_anno_number(Anno::PAINT, link.into());
    }
    if let Some(aggregate) = record.aggregate.or(defaults.aggregate) {
        packet.set_anno_number(Anno::AGGREGATE, aggregate);
    }
}

/// Sets the checksums that the line does not give.
fn fill_checksums(bytes: &mut [u8], header_len: usize, record: &Record) {
    if record.ip_sum.is_none() {
        let sum = checksum::checksum(&bytes[..header_len]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    if record.fragment() & (ipv4::OFFSET_MASK | ipv4::MORE_FRAGMENTS) != 0 {
        return;
    }
    let word =
        |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let (src, dst, protocol) = (word(12), word(16), bytes[9]);
    let transport = &mut bytes[header_len..];
    let pseudo = Sum::pseudo_v4(src, dst, protocol, transport.len());
    // A packet too short for its header has no checksum.
    let _ = match protocol {
        ip_protocol::TCP => tcp::TcpHeader::fill_checksum(transport, pseudo),
        ip_protocol::UDP => udp::UdpHeader::fill_checksum(transport, pseudo),
        ip_protocol::ICMP => icmp::IcmpHeader::fill_checksum(transport),
        _ => Ok(()),
    };
}
