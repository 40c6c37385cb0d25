//! TCP frames that stand for several: taken whole from senders that left the cutting to hardware,
//! and handed to the kernel in the same way, which cuts them as late as it can, or not at all where
//! the receiver is on this host.
//!
//! Within the process such a frame is an ordinary one that is long: its lengths and checksums are
//! right, as if the link had an MTU of 64 kB, so whatever changes headers needs to know nothing of
//! it. Beside it only the number of frames that it stands for is kept. The length of the segments
//! follows from that number: as equal as possible, hence never longer than the sender's.

use super::finish::{GSO_TCP_IPV4, GSO_TCP_IPV6, VNET_LEN};
use super::segment::{Plan, TCP_CWR, plan, pseudo_header, put_u16};

/// Where TCP's checksum stands in its header.
const CHECKSUM_AT: usize = 16;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_ECN`: the first segment alone has the CWR flag.
const GSO_ECN: u8 = 0x80;
/// Longest headers that are handed over: Ethernet, two tags, IPv4 and TCP with all options.
const HEADERS_MAX: usize = 14 + 8 + 60 + 60;

/// Completes a TCP frame that its sender left to be cut into payloads of `segment_len` bytes; the
/// number of frames that it stands for. `None`, and nothing done, where it cannot be passed whole.
pub(super) fn complete(frame: &mut [u8], segment_len: usize, is_ethernet: bool) -> Option<u8> {
    let plan = plan(frame, segment_len, is_ethernet).filter(|plan| plan.is_tcp)?;
    let ip_len = if plan.is_ipv6 {
        usize::from(u16_at(frame, plan.l3 + 4)) + 40
    } else {
        usize::from(u16_at(frame, plan.l3 + 2))
    };
    if ip_len != frame.len() - plan.l3 {
        return None;
    }
    let count = (frame.len() - plan.payload).div_ceil(segment_len).max(1);
    let count = u8::try_from(count).ok()?;
    put_u16(frame, plan.l4 + CHECKSUM_AT, 0);
    let checksum = pseudo_header(frame, &plan).with(&frame[plan.l4..]).checksum();
    put_u16(frame, plan.l4 + CHECKSUM_AT, checksum);
    Some(count)
}

fn u16_at(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

/// What goes before the payload of a frame on its way to the kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    bytes: [u8; VNET_LEN + HEADERS_MAX],
    len: usize,
}

impl Head {
    /// Not set yet.
    pub(super) const NONE: Head = Head { bytes: [0; VNET_LEN + HEADERS_MAX], len: 0 };

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Of a frame that stands for `segments`: the virtio header and a copy of the frame's headers,
    /// in which the checksum is left open. Says where the frame's payload begins. `None`, and
    /// nothing changed, for a frame that is not such a one.
    pub(super) fn set(&mut self, frame: &[u8], segments: u8, is_ethernet: bool) -> Option<usize> {
        let plan = plan(frame, 1, is_ethernet).filter(|plan| plan.is_tcp)?;
        let payload_len = frame.len() - plan.payload;
        let segment_len = payload_len.div_ceil(usize::from(segments).max(1));
        if segment_len >= payload_len || plan.payload > HEADERS_MAX {
            return None;
        }
        self.bytes[..VNET_LEN].copy_from_slice(&vnet_header(frame, &plan, segment_len));
        let headers = &mut self.bytes[VNET_LEN..VNET_LEN + plan.payload];
        headers.copy_from_slice(&frame[..plan.payload]);
        // The sum itself, where `checksum` is its complement.
        let open = !pseudo_header(frame, &plan).checksum();
        put_u16(headers, plan.l4 + CHECKSUM_AT, open);
        self.len = VNET_LEN + plan.payload;
        Some(plan.payload)
    }
}

/// `struct virtio_net_hdr`, in the machine's byte order.
fn vnet_header(frame: &[u8], plan: &Plan, segment_len: usize) -> [u8; VNET_LEN] {
    let kind = if plan.is_ipv6 { GSO_TCP_IPV6 } else { GSO_TCP_IPV4 };
    let is_reduced = frame[plan.l4 + 13] & TCP_CWR != 0;
    let mut header = [0; VNET_LEN];
    header[0] = NEEDS_CHECKSUM;
    header[1] = kind | if is_reduced { GSO_ECN } else { 0 };
    // Lossless: headers and payload are within a frame of 64 kB.
    let words = [plan.payload, segment_len, plan.l4, CHECKSUM_AT].map(|word| word as u16);
    for (place, word) in header[2..].chunks_exact_mut(2).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    header
}
