//! SetIPChecksum: the right checksum into IP headers.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Verdict,
    reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::checksum;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<SetIpChecksum>(Spec {
    name: "SetIPChecksum",
    topic: Topic::Ip,
    summary: "sets the IP header checksum",
    docs: "Computes the header checksum (RFC 791 section 3.1) of the marked IP header, or of \
           one at the packet's start, and sets it. Elements that change a header keep its \
           checksum right by themselves; this is for headers changed byte by byte. A packet \
           too short for its header is dropped.",
    example: "InfiniteSource(\\<4500001400000000401100000100000102000002>, LIMIT 1, STOP true) \
              -> SetIPChecksum -> CheckIPHeader -> Print(ok) -> Discard",
    straight: true,
    drops: SetIpChecksumDrop::DROPS,
    cost: &[Operation::ChecksumIp.once()],
    changes: Changes::Headers,
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

reasons! {
    /// Why there is no checksum to set.
    enum SetIpChecksumDrop {
        Length = "bad-length": "the packet is shorter than its IP header, or that than 20 bytes",
    }
}

#[derive(Arguments, Handlers)]
struct SetIpChecksum {
    /// packets dropped
    #[handler(sum)]
    drops: u64,
}

/// Sets the checksum; false when the lengths are wrong.
#[inline]
fn set(packet: &mut Packet) -> bool {
    let bytes = match packet.network_offset() {
        Some(_) => packet.network_mut(),
        None => packet.data_mut(),
    };
    let header_len = bytes.first().map_or(0, |first| usize::from(first & 0x0f) * 4);
    let Some(header) = bytes.get_mut(..header_len) else { return false };
    let Some(fixed) = header.first_chunk_mut::<20>() else { return false };
    fixed[10..12].fill(0);
    let sum = match header_len {
        20 => checksum::checksum_20(fixed),
        _ => checksum::checksum(header),
    };
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    true
}

impl Element for SetIpChecksum {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let before = batch.len();
        cx.filter(batch, |packet| match set(packet) {
            true => Verdict::Pass,
            false => Verdict::drop(SetIpChecksumDrop::Length),
        });
        let bad = (before - batch.len()) as u64;
        if self.drops == 0 && bad > 0 {
            cx.log("SetIPChecksum: bad input packet");
        }
        self.drops += bad;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn right_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..70)) {
            let mut packet = Packet::new(&bytes).unwrap();
            let len = bytes.first().map_or(0, |first| usize::from(first & 15) * 4);
            let good = len >= 20 && len <= bytes.len();
            prop_assert_eq!(set(&mut packet), good);
            if good {
                prop_assert_eq!(checksum::checksum(&packet.data()[..len]), 0);
            } else {
                prop_assert_eq!(packet.data(), &bytes[..]);
            }
        }
    }
}
