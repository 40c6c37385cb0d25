//! How the answer to a packet that an ICMP error quotes would be classified.

use crate::manager::look;
use crate::plan::Family;

/// What a quoted packet's answer would look like: headers with source and destination exchanged,
/// long enough to be classified.
pub(super) struct WayBack {
    bytes: [u8; WayBack::LEN],
    transport_at: usize,
}

impl WayBack {
    const LEN: usize = 40 + 20;

    /// Of the packet that an error quotes.
    pub(super) fn new(quoted: &look::Quoted<'_>) -> WayBack {
        let mut bytes = [0; WayBack::LEN];
        let transport_at = if quoted.look.family == Family::V6 { 40 } else { 20 };
        let from = &quoted.network[..transport_at.min(quoted.network.len())];
        bytes[..from.len()].copy_from_slice(from);
        if quoted.look.family == Family::V6 {
            bytes[6] = quoted.look.protocol;
            bytes[8..24].copy_from_slice(&from[24..40]);
            bytes[24..40].copy_from_slice(&from[8..24]);
        } else {
            bytes[0] = 0x45;
            bytes[12..16].copy_from_slice(&from[16..20]);
            bytes[16..20].copy_from_slice(&from[12..16]);
        }
        let [src, dst] = quoted.look.ports;
        let ports = (u32::from(src) << 16 | u32::from(dst)).to_be_bytes();
        bytes[transport_at..transport_at + 4].copy_from_slice(&ports);
        WayBack { bytes, transport_at }
    }

    /// From the IP header on.
    pub(super) fn network(&self) -> &[u8] {
        &self.bytes[..self.transport_at + 20]
    }

    /// From the transport header on.
    pub(super) fn transport(&self) -> &[u8] {
        &self.bytes[self.transport_at..self.transport_at + 20]
    }
}
