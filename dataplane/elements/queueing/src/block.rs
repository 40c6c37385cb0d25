//! Block: turns away packets of flows that send too much.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Verdict,
};
use thruway_packet::{Anno, Batch};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Block>(Spec {
    name: "Block",
    topic: Topic::Queueing,
    summary: "sorts packets by the rate that was noted on them",
    docs: "Packets with a FWD_RATE annotation (set by a monitor) of at most THRESH leave by \
           output 0, others by output 1. With THRESH 0 all leave by output 0.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> b :: Block(500) -> Discard;\n\
              b[1] -> Print(blocked) -> Discard",
    ports: "1/2",
    processing: "a/ah",
    changes: Changes::Nothing,
    cost: &[Operation::Sort.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct Block {
    /// highest rate that passes; 0 for any
    #[arg(required)]
    #[handler(both)]
    thresh: u32,
}

impl Element for Block {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let thresh = self.thresh;
        if thresh > 0 {
            cx.filter(batch, |packet| match packet.anno_number(Anno::FWD_RATE) <= thresh {
                true => Verdict::Pass,
                false => Verdict::To(1),
            });
        }
    }
}
