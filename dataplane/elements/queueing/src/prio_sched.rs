//! PrioSched: the first input that has a packet.

use thruway_element::{
    Alias, Arguments, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Purpose, Replicas, Spec,
    Topic,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<PrioSched>(Spec {
    name: "PrioSched",
    aliases: &[Alias { name: "SimplePrioSched", summary: "the same" }],
    topic: Topic::Queueing,
    summary: "pulls from the first input that has packets",
    docs: "Each pull at its output goes to input 0, and to input 1 only if that has nothing, and \
           so on: strict priority. Inputs usually come from Queues.",
    example: "InfiniteSource(LIMIT 3) -> Queue -> s :: PrioSched -> Unqueue -> Discard;\n\
              InfiniteSource(LIMIT 3) -> Queue -> [1] s",
    ports: "-/1",
    processing: "l/l",
    changes: Changes::Nothing,
    cost: NOTHING_MORE,
    replicas: Replicas::Alike,
    purpose: Purpose::Schedule,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct PrioSched {
    #[new(Batch::with_room())]
    some: Batch,
}

impl Element for PrioSched {
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        for input in 0..cx.inputs() {
            if batch.len() >= max {
                return;
            }
            cx.pull(input, max - batch.len(), &mut self.some);
            batch.append(&mut self.some);
        }
    }
}
