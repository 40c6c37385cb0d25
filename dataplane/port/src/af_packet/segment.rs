//! Cuts a frame that a sender left to hardware to segment (TSO, USO) into the frames that the
//! hardware would have sent: for TCP as RFC 9293 and for UDP datagrams of equal size.

use thruway_wire::checksum::{Sum, checksum};

const ETHERNET_LEN: usize = 14;
const VLAN_LEN: usize = 4;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
pub(super) const TCP_CWR: u8 = 0x80;

/// Where the headers are and how much payload a segment carries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// Start of the IP header.
    pub(super) l3: usize,
    pub(super) is_ipv6: bool,
    /// Start of the TCP or UDP header.
    pub(super) l4: usize,
    pub(super) is_tcp: bool,
    /// Start of the payload.
    pub(super) payload: usize,
    segment_len: usize,
}

/// Holds one large frame and gives its segments one by one.
#[derive(Debug, Default)]
pub(super) struct Segmenter {
    frame: Vec<u8>,
    plan: Option<Plan>,
    /// Payload byte, from the frame's start, where the next segment begins.
    next: usize,
    index: u16,
    out: Vec<u8>,
}

impl Segmenter {
    /// Takes a frame to be cut into payloads of `segment_len` bytes. False, and the frame is not
    /// taken, if it is not plain TCP or UDP over IPv4 or IPv6.
    pub(super) fn load(&mut self, frame: &[u8], segment_len: usize, is_ethernet: bool) -> bool {
        self.plan = plan(frame, segment_len, is_ethernet);
        let Some(plan) = &self.plan else { return false };
        self.frame.clear();
        self.frame.extend_from_slice(frame);
        self.next = plan.payload;
        self.index = 0;
        true
    }

    /// Whether segments are left.
    pub(super) fn is_pending(&self) -> bool {
        self.plan.is_some()
    }

    /// The next segment, complete with lengths, sequence number, flags and checksums.
    pub(super) fn next_segment(&mut self) -> Option<&[u8]> {
        let plan = self.plan?;
        let end = (self.next + plan.segment_len).min(self.frame.len());
        let is_last = end == self.frame.len();
        self.out.clear();
        self.out.extend_from_slice(&self.frame[..plan.payload]);
        self.out.extend_from_slice(&self.frame[self.next..end]);
        // Lossless in the arithmetic of sequence numbers, which is modulo 2^32.
        let passed = (self.next - plan.payload) as u32;
        fix_ip(&mut self.out, &plan, self.index);
        fix_transport(&mut self.out, &plan, (passed, is_last));
        self.next = end;
        self.index = self.index.wrapping_add(1);
        if is_last {
            self.plan = None;
        }
        Some(&self.out)
    }
}

/// How a plain TCP or UDP frame is cut into payloads of `segment_len` bytes; `None` for any other.
pub(super) fn plan(frame: &[u8], segment_len: usize, is_ethernet: bool) -> Option<Plan> {
    let l3 = network_offset(frame, is_ethernet)?;
    let (is_ipv6, l4, protocol) = match frame.get(l3)? >> 4 {
        4 => ipv4_payload(frame, l3)?,
        6 => ipv6_payload(frame, l3)?,
        _ => return None,
    };
    let (is_tcp, payload) = match protocol {
        PROTOCOL_TCP => {
            let header_len = usize::from(frame.get(l4 + 12)? >> 4) * 4;
            (true, (header_len >= 20).then_some(l4 + header_len)?)
        }
        PROTOCOL_UDP => (false, l4 + 8),
        _ => return None,
    };
    let fits_ip = payload - l3 + segment_len <= usize::from(u16::MAX);
    let is_sane = segment_len > 0 && fits_ip && payload <= frame.len();
    is_sane.then_some(Plan { l3, is_ipv6, l4, is_tcp, payload, segment_len })
}

/// Where the network header starts, behind at most two VLAN tags.
fn network_offset(frame: &[u8], is_ethernet: bool) -> Option<usize> {
    if !is_ethernet {
        return Some(0);
    }
    let mut at = ETHERNET_LEN;
    for _ in 0..2 {
        match frame.get(at - 2..at)? {
            [0x81, 0x00] | [0x88, 0xA8] => at += VLAN_LEN,
            _ => break,
        }
    }
    Some(at)
}

fn ipv4_payload(frame: &[u8], l3: usize) -> Option<(bool, usize, u8)> {
    let header_len = usize::from(frame.get(l3)? & 0x0F) * 4;
    (header_len >= 20).then_some((false, l3 + header_len, *frame.get(l3 + 9)?))
}

/// Passes hop-by-hop and destination options; other extension headers are not segmented.
fn ipv6_payload(frame: &[u8], l3: usize) -> Option<(bool, usize, u8)> {
    const HOP_BY_HOP: u8 = 0;
    const DESTINATION_OPTIONS: u8 = 60;
    let mut protocol = *frame.get(l3 + 6)?;
    let mut at = l3 + 40;
    // Every turn moves on by at least 8 bytes, so the frame's length bounds the loop.
    while matches!(protocol, HOP_BY_HOP | DESTINATION_OPTIONS) {
        protocol = *frame.get(at)?;
        at += usize::from(*frame.get(at + 1)?) * 8 + 8;
    }
    Some((true, at, protocol))
}

pub(super) fn put_u16(out: &mut [u8], at: usize, value: u16) {
    out[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Lengths, and for IPv4 the identification and the header checksum.
fn fix_ip(out: &mut [u8], plan: &Plan, index: u16) {
    // Lossless: `plan` saw that header and segment fit an IP packet.
    let total_len = (out.len() - plan.l3) as u16;
    if plan.is_ipv6 {
        put_u16(out, plan.l3 + 4, total_len - 40);
        return;
    }
    put_u16(out, plan.l3 + 2, total_len);
    let id = u16::from_be_bytes([out[plan.l3 + 4], out[plan.l3 + 5]]);
    put_u16(out, plan.l3 + 4, id.wrapping_add(index));
    put_u16(out, plan.l3 + 10, 0);
    let checksum = checksum(&out[plan.l3..plan.l4]);
    put_u16(out, plan.l3 + 10, checksum);
}

fn fix_transport(out: &mut [u8], plan: &Plan, (passed, is_last): (u32, bool)) {
    let l4 = plan.l4;
    let checksum_offset = if plan.is_tcp {
        let seq = [out[l4 + 4], out[l4 + 5], out[l4 + 6], out[l4 + 7]];
        let seq = u32::from_be_bytes(seq).wrapping_add(passed);
        out[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
        if !is_last {
            out[l4 + 13] &= !(TCP_FIN | TCP_PSH);
        }
        if passed > 0 {
            // The window was reduced once (RFC 3168 section 6.1.2).
            out[l4 + 13] &= !TCP_CWR;
        }
        16
    } else {
        let len = (out.len() - l4) as u16;
        put_u16(out, l4 + 4, len);
        6
    };
    put_u16(out, l4 + checksum_offset, 0);
    let sum = pseudo_header(out, plan).with(&out[l4..]);
    let checksum = if plan.is_tcp { sum.checksum() } else { sum.checksum_udp() };
    put_u16(out, l4 + checksum_offset, checksum);
}

/// The sum of the pseudo-header (RFC 9293 section 3.1, RFC 8200 section 8.1).
pub(super) fn pseudo_header(out: &[u8], plan: &Plan) -> Sum {
    let addresses =
        if plan.is_ipv6 { plan.l3 + 8..plan.l3 + 40 } else { plan.l3 + 12..plan.l3 + 20 };
    let protocol = if plan.is_tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
    // Lossless: `plan` saw that header and segment fit an IP packet.
    let len = (out.len() - plan.l4) as u32;
    Sum::ZERO.with(&out[addresses]).with(&[0, protocol]).with(&len.to_be_bytes())
}

#[cfg(test)]
#[path = "segment_tests.rs"]
pub(super) mod tests;
