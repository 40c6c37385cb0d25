//! EtherRewrite: new Ethernet addresses.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Verdict,
    reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::MacAddr;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<EtherRewrite>(Spec {
    name: "EtherRewrite",
    topic: Topic::Ethernet,
    summary: "sets Ethernet source and destination",
    docs: "Writes SRC and DST into the Ethernet header of every packet and leaves its type as it \
           is. The header is where it is marked (by a source, EtherEncap or MarkMACHeader), \
           also when Strip took it off the packet's front meanwhile; with no mark, it is at \
           the packet's first byte. Packets too short for both addresses are dropped.",
    example: "InfiniteSource(DATA \\<000000000001 000000000002 0800>, LIMIT 1, STOP true)\n\
              -> EtherRewrite(0:0:0:0:0:3, 0:0:0:0:0:4) -> Print -> Discard",
    straight: true,
    drops: Short::DROPS,
    cost: &[Operation::HeaderWrite.once()],
    changes: Changes::Frame,
    replicas: Replicas::Alike,
    large_packets: true,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet goes no further.
    enum Short {
        TooShort = "too-short": "it ends before the second Ethernet address does",
    }
}

/// Bytes of the two addresses.
const ADDRESSES: usize = 12;

#[derive(Arguments, Handlers)]
struct EtherRewrite {
    /// source address
    #[arg(required)]
    #[handler(both, get = self.src.dashed(), then = self.bytes = header(self.src, self.dst))]
    src: MacAddr,
    /// destination address
    #[arg(required)]
    #[handler(both, get = self.dst.dashed(), then = self.bytes = header(self.src, self.dst))]
    dst: MacAddr,
    /// As they stand in the header.
    #[new(header(src, dst))]
    bytes: [u8; ADDRESSES],
}

fn header(src: MacAddr, dst: MacAddr) -> [u8; ADDRESSES] {
    let mut bytes = [0; ADDRESSES];
    bytes[..6].copy_from_slice(&dst.0);
    bytes[6..].copy_from_slice(&src.0);
    bytes
}

impl EtherRewrite {
    #[inline]
    fn rewrite(&self, packet: &mut Packet) -> Verdict {
        if let Some(header) = packet.mac_head_mut() {
            *header = self.bytes;
            return Verdict::Pass;
        }
        self.rewrite_elsewhere(packet)
    }

    /// The header is not marked, or it was pulled off.
    #[cold]
    fn rewrite_elsewhere(&self, packet: &mut Packet) -> Verdict {
        let stripped = packet.mac_offset().map_or(0, |offset| offset.min(0).unsigned_abs());
        // The mark of a header that was pulled off lies in the head room, so the bytes are there.
        let written = packet.unpull(stripped) && self.write(packet) && packet.pull(stripped);
        if written { Verdict::Pass } else { Verdict::drop(Short::TooShort) }
    }

    fn write(&self, packet: &mut Packet) -> bool {
        let header = packet.data_mut().first_chunk_mut();
        if let Some(header) = header {
            *header = self.bytes;
            return true;
        }
        false
    }
}

impl Element for EtherRewrite {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.rewrite(packet));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: [u8; 16] = *b"DDDDDDSSSSSSttpp";
    const NEW: [u8; 16] = *b"ddddddssssssttpp";

    fn element() -> EtherRewrite {
        let (src, dst) = (MacAddr(*b"ssssss"), MacAddr(*b"dddddd"));
        EtherRewrite { src, dst, bytes: header(src, dst) }
    }

    #[test]
    fn at_the_front_or_at_the_mark() {
        let mut unmarked = Packet::new(&OLD).unwrap();
        assert_eq!(element().rewrite(&mut unmarked), Verdict::Pass);
        assert_eq!(unmarked.data(), NEW);

        let mut shifted = Packet::new(&[&[1, 2, 3][..], &OLD].concat()).unwrap();
        shifted.set_mac_offset(3);
        assert_eq!(element().rewrite(&mut shifted), Verdict::Pass);
        assert_eq!(shifted.data(), [&[1, 2, 3][..], &NEW].concat());
    }

    #[test]
    fn under_what_was_stripped() {
        let mut packet = Packet::new(&OLD).unwrap();
        packet.set_mac_offset(0);
        assert!(packet.pull(14));
        assert_eq!(element().rewrite(&mut packet), Verdict::Pass);
        assert_eq!(packet.data(), b"pp");
        assert!(packet.unpull(14));
        assert_eq!(packet.data(), NEW);
    }

    #[test]
    fn too_short() {
        for length in 0..12 {
            let mut packet = Packet::new(&OLD[..length]).unwrap();
            assert_eq!(element().rewrite(&mut packet), Verdict::drop(Short::TooShort));
        }
    }
}
