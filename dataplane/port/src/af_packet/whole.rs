//! TCP frames that stand for several: taken whole from senders that left the cutting to hardware,
//! and handed to the kernel whole, which cuts them as late as it can, or not at all where
//! the receiver is on this host.
//!
//! Within the process such a frame is an ordinary one that is long: its lengths and checksums are
//! right, as if the link had an MTU of 64 kB, so whatever changes headers needs to know nothing of
//! it. Beside it only the number of frames that it stands for is kept. The length of the segments
//! follows from that number: as equal as possible, hence never longer than the sender's.

use super::segment::{Plan, TCP_CWR, plan, pseudo_header, put_u16};
use super::vnet::{GSO_TCP_IPV4, GSO_TCP_IPV6, VNET_LEN};

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

/// The header in front of a frame's payload towards the kernel.
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
    for (field, word) in header[2..].chunks_exact_mut(2).zip(words) {
        field.copy_from_slice(&word.to_ne_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use super::super::segment::tests::{assert_checksums, frame, segments};
    use super::*;
    use proptest::prelude::*;

    /// A TCP frame as a stack hands it down: with its lengths, its checksums open or wrong.
    fn large(is_ipv6: bool, is_tagged: bool, payload_len: usize) -> Vec<u8> {
        let mut frame = frame(is_ipv6, true, is_tagged, payload_len);
        let plan = plan(&frame, 1, true).expect("plain headers");
        let ip_len = (frame.len() - plan.l3) as u16;
        if is_ipv6 {
            put_u16(&mut frame, plan.l3 + 4, ip_len - 40);
        } else {
            put_u16(&mut frame, plan.l3 + 2, ip_len);
            put_u16(&mut frame, plan.l3 + 10, 0);
            let checksum = thruway_wire::checksum::checksum(&frame[plan.l3..plan.l4]);
            put_u16(&mut frame, plan.l3 + 10, checksum);
        }
        frame
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn what_goes_through_whole_is_cut_into_no_longer_and_no_more_frames(
            (is_ipv6, is_tagged) in any::<(bool, bool)>(),
            payload_len in 0..60_000_usize,
            segment_len in 500..2000_usize,
        ) {
            let mut frame = large(is_ipv6, is_tagged, payload_len);
            let count = complete(&mut frame, segment_len, true).expect("few segments");
            prop_assert_eq!(usize::from(count), payload_len.div_ceil(segment_len).max(1));
            let plan = plan(&frame, segment_len, true).expect("plain headers");
            assert_checksums(&frame, &plan);
            let mut head = Head::NONE;
            let Some(payload) = head.set(&frame, count, true) else {
                prop_assert!(count == 1);
                return Ok(());
            };
            let (vnet, headers) = head.bytes().split_at(VNET_LEN);
            let word = |at: usize| usize::from(u16::from_ne_bytes([vnet[at], vnet[at + 1]]));
            prop_assert_eq!((word(2), word(6), word(8)), (plan.payload, plan.l4, 16));
            prop_assert_eq!((vnet[0], vnet[1] & 0x7F), (1, if is_ipv6 { 4 } else { 1 }));
            // What the kernel gets: the open checksum is the pseudo-header's sum, to which it adds
            // the rest.
            let handed = [headers, &frame[payload..]].concat();
            let mut completed = handed.clone();
            let sum = thruway_wire::checksum::checksum(&handed[plan.l4..]);
            put_u16(&mut completed, plan.l4 + CHECKSUM_AT, sum);
            prop_assert_eq!(&completed, &frame);
            // Cut as the kernel cuts.
            let cut = segments(&handed, word(4)).expect("plain headers");
            prop_assert_eq!(cut.len(), usize::from(count));
            let longest = cut.iter().map(|one| one.len() - plan.payload).max();
            prop_assert!(longest <= Some(segment_len));
            let payload: Vec<u8> =
                cut.iter().flat_map(|one| one[plan.payload..].to_vec()).collect();
            prop_assert_eq!(&payload[..], &frame[plan.payload..]);
        }

        #[test]
        fn hostile_frames_are_refused_or_passed_without_panic(
            (is_ipv6, is_tagged) in any::<(bool, bool)>(),
            cut in any::<prop::sample::Index>(),
            at in any::<prop::sample::Index>(),
            value in any::<u8>(),
            (segment_len, segments) in (0..3000_usize, any::<u8>()),
        ) {
            let mut frame = large(is_ipv6, is_tagged, 3000);
            let at = at.index(100);
            frame[at] = value;
            frame.truncate(cut.index(frame.len()));
            let _ = complete(&mut frame, segment_len, true);
            let mut head = Head::NONE;
            if let Some(payload) = head.set(&frame, segments, true) {
                prop_assert!(payload <= frame.len() && head.bytes().len() == VNET_LEN + payload);
            }
        }
    }

    #[test]
    fn what_is_not_such_a_frame_is_refused() {
        // More segments than the annotation counts; a length that is not the header's; UDP.
        let mut frame = large(false, false, 3000);
        assert_eq!(complete(&mut frame, 11, true), None);
        frame.push(0);
        assert_eq!(complete(&mut frame, 1000, true), None);
        assert_eq!(
            complete(&mut super::super::segment::tests::frame(false, false, false, 50), 10, true),
            None
        );
        let mut head = Head::NONE;
        assert_eq!(head.set(&large(false, false, 3000), 1, true), None);
        assert_eq!(head.set(&large(true, false, 0), 9, true), None);
    }
}
