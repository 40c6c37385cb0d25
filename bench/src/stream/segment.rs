//! Segments of the bench's connections, and what is read of them: Ethernet, IPv4 and TCP of the
//! lengths that the bench makes.

use std::net::Ipv4Addr;

use thruway_packet::Packet;
use thruway_wire::Header;
use thruway_wire::checksum::Sum;
use thruway_wire::ip_protocol;
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::tcp::{TcpHeader, flags};

const ETHERNET: [u8; 14] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
/// Where the IP header, the TCP header and the payload of a segment begin.
const IP_AT: usize = 14;
const TCP_AT: usize = 34;
pub const PAYLOAD_AT: usize = 54;
/// Of a SYN (RFC 9293, 7323, 2018): MSS of 1,460 bytes, selective acknowledgements, windows in
/// units of 128 bytes.
const SYN_OPTIONS: [u8; 12] = [2, 4, 0x05, 0xb4, 4, 2, 1, 3, 3, 7, 1, 1];
const SERVER_PORT: u16 = 80;
const CLIENT_PORT: u16 = 40_000;
/// Servers have 198.18.0.0/16 (RFC 2544), which also numbers the connections.
const SERVERS: u32 = 0xc612_0000;
/// Clients have addresses of 10.0.0.0/8.
const CLIENTS: u32 = 0x0a00_0001;
/// Most connections.
pub const CONNECTIONS_MAX: u32 = 1 << 16;

/// What a segment of a client says.
#[derive(Debug, Clone, Copy)]
pub struct SegmentHeader {
    /// Which connection.
    pub number: u32,
    pub seq: u32,
    pub ack: u32,
    /// See [`flags`].
    pub flags: u8,
}

/// Payload and its sum; of an even length.
#[derive(Debug, Clone, Copy)]
pub struct Payload<'a> {
    pub bytes: &'a [u8],
    pub sum: [u8; 2],
}

/// The sum of bytes, to be added to others.
pub fn sum_of(bytes: &[u8]) -> [u8; 2] {
    (!Sum::ZERO.with(bytes).checksum()).to_be_bytes()
}

/// A segment of a client; a SYN has its options in the place of payload. `None` without memory.
pub fn segment(header: SegmentHeader, payload: Payload<'_>) -> Option<Packet> {
    let mut packet = Packet::new(payload.bytes)?;
    if !packet.push(PAYLOAD_AT) {
        return None;
    }
    let (src, dst) = (CLIENTS + header.number, SERVERS + header.number);
    let header = TcpHeader::new((CLIENT_PORT, SERVER_PORT), header.seq, header.ack, header.flags);
    write(packet.data_mut(), (src, dst), header, payload.sum);
    Some(packet)
}

/// A SYN of a client.
pub fn syn(number: u32, seq: u32) -> Option<Packet> {
    let header = SegmentHeader { number, seq, ack: 0, flags: flags::SYN };
    segment(header, Payload { bytes: &SYN_OPTIONS, sum: sum_of(&SYN_OPTIONS) })
}

/// Writes the headers before a payload of this sum.
fn write(frame: &mut [u8], (src, dst): (u32, u32), mut tcp: TcpHeader, payload_sum: [u8; 2]) {
    let tcp_len = frame.len() - TCP_AT;
    let (src, dst) = (Ipv4Addr::from(src), Ipv4Addr::from(dst));
    // As long as the bench makes them.
    let Ok(ip) = Ipv4Header::new(ip_protocol::TCP, src, dst, tcp_len) else { return };
    if tcp.flags() & flags::SYN != 0 {
        // 20 to 60.
        let _ = tcp.set_header_len(TcpHeader::LEN + SYN_OPTIONS.len());
    }
    tcp.set_window(u16::MAX);
    frame[..IP_AT].copy_from_slice(&ETHERNET);
    // Both have room.
    let _ = ip.emit(&mut frame[IP_AT..TCP_AT]);
    let _ = tcp.emit(&mut frame[TCP_AT..PAYLOAD_AT]);
    let sum = ip.pseudo_sum(tcp_len).with(&frame[TCP_AT..PAYLOAD_AT]).with(&payload_sum);
    frame[TCP_AT + 16..TCP_AT + 18].copy_from_slice(&sum.checksum().to_be_bytes());
}

/// What a server reads.
#[derive(Debug, Clone, Copy)]
pub struct Read {
    pub number: u32,
    pub seq: u32,
    pub flags: u8,
    /// Bytes of payload; of a SYN, options.
    pub len: u32,
}

/// Reads a segment of a client, whatever its source became; `None` if it is none.
pub fn read(packet: &Packet) -> Option<Read> {
    let frame = packet.data();
    let word = |at: usize| {
        let word = frame.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(word))
    };
    let number = word(IP_AT + 16)?.wrapping_sub(SERVERS);
    let len = frame.len().checked_sub(PAYLOAD_AT)? as u32;
    let seq = word(TCP_AT + 4)?;
    (number < CONNECTIONS_MAX).then_some(Read { number, seq, flags: frame[TCP_AT + 13], len })
}

/// Makes the server's answer of a client's segment: to a SYN another one, else an acknowledgement.
pub fn answer(packet: &mut Packet, seq: u32, ack: u32) {
    let is_syn = packet.data()[TCP_AT + 13] & flags::SYN != 0;
    packet.truncate(PAYLOAD_AT + if is_syn { SYN_OPTIONS.len() } else { 0 });
    let frame = packet.data_mut();
    let word =
        |at: usize| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    let (src, dst) = (word(IP_AT + 12), word(IP_AT + 16));
    let client_port = u16::from_be_bytes([frame[TCP_AT], frame[TCP_AT + 1]]);
    let bits = if is_syn { flags::SYN | flags::ACK } else { flags::ACK };
    let header = TcpHeader::new((SERVER_PORT, client_port), seq, ack, bits);
    let sum = if is_syn { sum_of(&SYN_OPTIONS) } else { [0; 2] };
    write(frame, (dst, src), header, sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_right(packet: &Packet) {
        let (ip, options, tcp) =
            Ipv4Header::parse_with_options(&packet.data()[IP_AT..]).expect("an IP header");
        assert!(ip.checksum_ok(options));
        assert_eq!(ip.pseudo_sum(tcp.len()).with(tcp).checksum(), 0);
        TcpHeader::parse(tcp).expect("a TCP header");
    }

    #[test]
    fn segments_and_answers_are_right() {
        let bytes = b"some payload";
        let payload = Payload { bytes, sum: sum_of(bytes) };
        let header = SegmentHeader { number: 77, seq: 1000, ack: 5, flags: flags::ACK };
        let mut data = segment(header, payload).expect("memory");
        assert_right(&data);
        let read_back = read(&data).expect("ours");
        assert_eq!((read_back.number, read_back.seq, read_back.len), (77, 1000, 12));
        answer(&mut data, 5, 1012);
        assert_right(&data);
        assert_eq!(data.len(), PAYLOAD_AT);
        let mut first = syn(3, 9).expect("memory");
        assert_right(&first);
        answer(&mut first, 1, 10);
        assert_right(&first);
        assert_eq!(first.data()[TCP_AT + 13], flags::SYN | flags::ACK);
        assert!(read(&Packet::new(&[0; 20]).expect("memory")).is_none());
    }
}
