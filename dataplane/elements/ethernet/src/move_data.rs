//! MoveData: bytes of a packet to another place in it.

use thruway_element::{
    Arguments, Cx, Element, Entry, Handlers, Operation, Reason, Replicas, Spec, Topic, Verdict,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<MoveData>(Spec {
    name: "MoveData",
    topic: Topic::Ethernet,
    summary: "copies bytes of a packet to another place in it",
    docs: "Copies the LENGTH bytes from SRC_OFFSET on over those from DST_OFFSET on. A packet \
           that ends before the last of the former is left alone; one that ends before the \
           last of the latter too, unless GROW: then it becomes long enough, if it has \
           DST_OFFSET bytes. The places may overlap. No checksum is updated.",
    example: "InfiniteSource(DATA abcdef, LIMIT 1, STOP true) -> MoveData(0, 3, 2) -> Print \
              -> Discard",
    straight: true,
    cost: &[Operation::HeaderRead.once(), Operation::HeaderWrite.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

/// Sums of two of the numbers cannot overflow.
#[derive(Arguments, Handlers)]
struct MoveData {
    /// where the bytes are
    #[arg(required, name = "SRC_OFFSET", as = u32)]
    from: usize,
    /// where they go
    #[arg(required, name = "DST_OFFSET", as = u32)]
    to: usize,
    /// how many
    #[arg(required, as = u32)]
    length: usize,
    /// whether packets become long enough
    #[arg(keyword, or = "false")]
    grow: bool,
}

impl MoveData {
    fn copy(&self, packet: &mut Packet) -> Verdict {
        let (source, end) = (self.from..self.from + self.length, self.to + self.length);
        if source.end > packet.len() || self.to > packet.len() {
            return Verdict::Pass;
        }
        let lacking = end.saturating_sub(packet.len());
        if lacking > 0 && !self.grow {
            return Verdict::Pass;
        }
        if lacking > 0 && !packet.put(lacking) {
            return Verdict::Drop(Reason::NO_MEMORY);
        }
        packet.data_mut().copy_within(source, self.to);
        Verdict::Pass
    }
}

impl Element for MoveData {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.copy(packet));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_with_a_list(
            bytes in prop::collection::vec(any::<u8>(), 0..20),
            (from, to, length) in (0usize..25, 0usize..25, 0usize..25),
            grow: bool,
        ) {
            let mut packet = Packet::new(&bytes).unwrap();
            let verdict = MoveData { from, to, length, grow }.copy(&mut packet);
            prop_assert_eq!(verdict, Verdict::Pass);
            let mut list = bytes.clone();
            let fits = to + length <= list.len() || grow && to <= list.len();
            if from + length <= list.len() && fits {
                let moved = list[from..from + length].to_vec();
                list.resize(list.len().max(to + length), 0);
                list[to..to + length].copy_from_slice(&moved);
            }
            prop_assert_eq!(packet.data(), &list[..]);
        }
    }
}
