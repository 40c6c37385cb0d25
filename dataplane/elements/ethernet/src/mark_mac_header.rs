//! MarkMACHeader: says where the link-layer header is.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Verdict,
    reasons,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<MarkMacHeader>(Spec {
    name: "MarkMACHeader",
    topic: Topic::Ethernet,
    summary: "marks the link-layer header",
    docs: "Marks the link-layer header of every packet at byte OFFSET. With a LENGTH that is not \
           0, the network header is marked LENGTH bytes after. Packets too short for the header \
           are dropped.",
    example: "InfiniteSource(LIMIT 1, STOP true) -> MarkMACHeader(0, 14) -> Discard",
    straight: true,
    drops: Short::DROPS,
    changes: Changes::Nothing,
    cost: &[Operation::Annotate.once()],
    replicas: Replicas::Alike,
    large_packets: true,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet goes no further.
    enum Short {
        TooShort = "too-short": "it ends before the header that is to be marked",
    }
}

/// A network header length beyond any frame: the transport header stays unknown.
const UNKNOWN_LENGTH: usize = 1 << 16;

#[derive(Arguments, Handlers)]
struct MarkMacHeader {
    /// where the header begins
    #[arg(optional, as = u32, or = "0")]
    offset: usize,
    /// its bytes; 0 for unknown
    #[arg(optional, as = u32, or = "0")]
    length: usize,
}

impl MarkMacHeader {
    #[inline]
    fn mark(&self, packet: &mut Packet) -> Verdict {
        // Two 32-bit numbers: no overflow.
        let end = self.offset + self.length;
        if packet.len() < end {
            return Verdict::drop(Short::TooShort);
        }
        packet.set_mac_offset(self.offset);
        if self.length != 0 {
            packet.set_network(end, UNKNOWN_LENGTH);
        }
        Verdict::Pass
    }
}

impl Element for MarkMacHeader {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.mark(packet));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_what_fits() {
        let mut packet = Packet::new(&[7; 20]).unwrap();
        assert_eq!(MarkMacHeader { offset: 2, length: 14 }.mark(&mut packet), Verdict::Pass);
        assert_eq!(packet.mac_offset(), Some(2));
        assert_eq!((packet.network_offset(), packet.transport_offset()), (Some(16), None));

        let mut packet = Packet::new(&[7; 20]).unwrap();
        assert_eq!(MarkMacHeader { offset: 20, length: 0 }.mark(&mut packet), Verdict::Pass);
        assert_eq!((packet.mac_offset(), packet.network_offset()), (Some(20), None));

        let huge = u32::MAX as usize;
        for (offset, length) in [(21, 0), (7, 14), (huge, huge)] {
            let mut packet = Packet::new(&[7; 20]).unwrap();
            let verdict = MarkMacHeader { offset, length }.mark(&mut packet);
            assert_eq!(verdict, Verdict::drop(Short::TooShort));
            assert_eq!(packet.mac_offset(), None);
        }
    }
}
