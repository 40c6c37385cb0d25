//! How the answer to a packet that an ICMP error quotes would be classified.

use crate::key::PacketView;
use crate::manager::headers;
use crate::plan::Family;

/// The headers of an answer to a quoted packet: source and destination exchanged, long enough to be
/// classified.
pub(super) struct ReplyHeaders {
    bytes: [u8; ReplyHeaders::LEN],
    transport_at: usize,
}

impl ReplyHeaders {
    const LEN: usize = 40 + 20;

    /// Of the packet that an error quotes.
    pub(super) fn new(quoted: &headers::Quoted<'_>) -> ReplyHeaders {
        let mut bytes = [0; ReplyHeaders::LEN];
        let transport_at = if quoted.headers.family == Family::V6 { 40 } else { 20 };
        let from = &quoted.network[..transport_at.min(quoted.network.len())];
        bytes[..from.len()].copy_from_slice(from);
        if quoted.headers.family == Family::V6 {
            bytes[6] = quoted.headers.protocol;
            bytes[8..24].copy_from_slice(&from[24..40]);
            bytes[24..40].copy_from_slice(&from[8..24]);
        } else {
            bytes[0] = 0x45;
            bytes[12..16].copy_from_slice(&from[16..20]);
            bytes[16..20].copy_from_slice(&from[12..16]);
        }
        let [src, dst] = quoted.headers.ports;
        let ports = (u32::from(src) << 16 | u32::from(dst)).to_be_bytes();
        bytes[transport_at..transport_at + 4].copy_from_slice(&ports);
        ReplyHeaders { bytes, transport_at }
    }

    /// The headers as rules see them, in the frame that quotes the packet.
    pub(super) fn view<'a>(&'a self, frame: &'a [u8]) -> PacketView<'a> {
        let network = &self.bytes[..self.transport_at + 20];
        PacketView { frame, network, transport: &network[self.transport_at..] }
    }
}
