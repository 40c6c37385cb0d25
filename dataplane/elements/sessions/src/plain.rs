//! Packets in plain words, for tests: written with all checksums computed in full.

use thruway_wire::Header;
use thruway_wire::icmp::IcmpHeader;
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::tcp::{TcpHeader, flags};
use thruway_wire::udp::UdpHeader;
use zerocopy::IntoBytes;

use super::alone::Tuple;

/// An IPv4 packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plain {
    /// TCP, UDP, ICMP (an echo request, with its identifier as the source port), or without header.
    pub(crate) protocol: u8,
    /// Address and port.
    pub(crate) src: (u32, u16),
    /// Address and port.
    pub(crate) dst: (u32, u16),
    /// Of TCP.
    pub(crate) flags: u8,
    /// Of TCP: sequence and acknowledgement number.
    pub(crate) numbers: (u32, u32),
    /// The payload behind the transport header.
    pub(crate) payload: Vec<u8>,
    /// UDP with a checksum.
    pub(crate) udp_checksum: bool,
}

impl Plain {
    /// A packet with this five-tuple and these TCP flags.
    pub(crate) fn of(tuple: Tuple, flags: u8) -> Plain {
        Plain {
            protocol: tuple.protocol,
            src: (tuple.src, tuple.src_port),
            dst: (tuple.dst, tuple.dst_port),
            flags,
            numbers: (7, 8),
            payload: vec![7; 4],
            udp_checksum: true,
        }
    }

    /// A SYN, or the first packet of another protocol.
    pub(crate) fn first(tuple: Tuple) -> Plain {
        Plain::of(tuple, flags::SYN)
    }

    /// The packet from the other end.
    pub(crate) fn reversed(&self) -> Plain {
        Plain { src: self.dst, dst: self.src, ..self.clone() }
    }

    /// Its bytes, from the IP header on.
    pub(crate) fn written(&self) -> Vec<u8> {
        let (src, dst) = (self.src, self.dst);
        let mut segment = vec![0; 20];
        let len = match self.protocol {
            6 => {
                let (seq, ack) = self.numbers;
                let header = TcpHeader::new((src.1, dst.1), seq, ack, self.flags);
                header.emit(&mut segment).unwrap();
                20
            }
            17 => {
                let header = UdpHeader::new(src.1, dst.1, self.payload.len()).unwrap();
                header.emit(&mut segment).unwrap();
                8
            }
            1 => {
                IcmpHeader::new(8, 0, u32::from(src.1) << 16 | 1).emit(&mut segment).unwrap();
                8
            }
            _ => 4,
        };
        segment.truncate(len);
        segment.extend(&self.payload);
        let ip = Ipv4Header::new(self.protocol, src.0.into(), dst.0.into(), segment.len()).unwrap();
        let pseudo = ip.pseudo_sum(segment.len());
        match self.protocol {
            6 => TcpHeader::fill_checksum(&mut segment, pseudo).unwrap(),
            17 if self.udp_checksum => UdpHeader::fill_checksum(&mut segment, pseudo).unwrap(),
            1 => IcmpHeader::fill_checksum(&mut segment).unwrap(),
            _ => {}
        }
        [ip.as_bytes(), &segment].concat()
    }
}

/// An ICMP error (time exceeded) from `src` to `dst` about the first `cut` bytes of a packet.
pub(crate) fn error_about(src: u32, dst: u32, quoted: &[u8], cut: usize) -> Vec<u8> {
    let body = &quoted[..quoted.len().min(cut)];
    let mut message = vec![0; 8 + body.len()];
    IcmpHeader::new(11, 0, 0).emit_message(body, &mut message).unwrap();
    let ip = Ipv4Header::new(1, src.into(), dst.into(), message.len()).unwrap();
    [ip.as_bytes(), &message].concat()
}
