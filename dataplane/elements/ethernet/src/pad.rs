//! Pad: bytes at the end.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Reason, Replicas, Spec, Topic,
    Verdict,
};
use thruway_packet::{Anno, Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Pad>(Spec {
    name: "Pad",
    topic: Topic::Ethernet,
    summary: "makes packets longer",
    docs: "Lengthens packets of fewer than LENGTH bytes to that length; without LENGTH (or with \
           0), by as many bytes as the EXTRA_LENGTH annotation says, which is then 0. The new \
           bytes are zeros; with ZERO false they are whatever memory held.",
    example: "InfiniteSource(LENGTH 14, LIMIT 1, STOP true) -> Pad(60) -> Print -> Discard",
    straight: true,
    changes: Changes::Headers,
    cost: &[Operation::HeaderMove.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

/// Longest LENGTH: that of the largest frame, or nearly.
const MAX_LENGTH: usize = 65_535;

#[derive(Arguments, Handlers)]
struct Pad {
    /// fewest bytes a packet then has; 0 for the annotation
    #[arg(optional, range = ..=MAX_LENGTH, or = "0")]
    #[handler(read, "fewest bytes a packet then has")]
    length: usize,
    /// whether the new bytes are zeros
    #[arg(keyword, or = "true")]
    zero: bool,
}

impl Pad {
    #[inline]
    fn pad(&self, packet: &mut Packet) -> Verdict {
        let before = packet.len();
        let lacking = match self.length {
            0 => packet.anno_number(Anno::EXTRA_LENGTH) as usize,
            length => length.saturating_sub(before),
        };
        if lacking > 0 {
            if !packet.put(lacking) {
                return Verdict::Drop(Reason::NO_MEMORY);
            }
            if self.zero {
                packet.data_mut()[before..].fill(0);
            }
        }
        packet.set_anno_number(Anno::EXTRA_LENGTH, 0);
        Verdict::Pass
    }
}

impl Element for Pad {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.pad(packet));
    }
}
