//! PaintTee: copies packets of one colour.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
};
use thruway_packet::{Anno, Batch};

use super::paint::one_byte;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<PaintTee>(Spec {
    name: "PaintTee",
    topic: Topic::Queueing,
    summary: "copies packets of one colour to a second output",
    docs: "Every packet goes on through output 0. Before, a copy of each packet of colour COLOR \
           (set by Paint) leaves by output 1. Routers use it to notice packets that \
           leave by the interface they came in by, which call for an ICMP redirect. ANNO names \
           another one-byte annotation to look at.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> Paint(1) -> t :: PaintTee(1) -> Discard;\n\
              t[1] -> Print(copy) -> Discard",
    ports: "1/2",
    processing: "a/ah",
    changes: Changes::Nothing,
    cost: &[Operation::Annotate.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct PaintTee {
    /// 0 to 255
    #[arg(required)]
    #[handler(both, "the colour")]
    color: u8,
    /// the annotation to look at
    #[arg(optional, via = one_byte, or = "PAINT")]
    anno: Anno,
}

impl Element for PaintTee {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.iter() {
            if packet.anno_number(self.anno) == u32::from(self.color)
                && let Some(copy) = cx.duplicate(packet)
            {
                cx.emit(1, copy);
            }
        }
    }
}
