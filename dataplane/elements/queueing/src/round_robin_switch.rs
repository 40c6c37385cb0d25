//! RoundRobinSwitch: one packet to each output in turn.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Verdict,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<RoundRobinSwitch>(Spec {
    name: "RoundRobinSwitch",
    topic: Topic::Queueing,
    summary: "sends packets to its outputs in turn",
    docs: "The first packet leaves by output 0, the next by output 1, and so on round. Where \
           several threads push into it, each has its own turn.",
    example: "InfiniteSource(LIMIT 4, STOP true) -> s :: RoundRobinSwitch;\n\
              s[0] -> Print(even) -> Discard; s[1] -> Print(odd) -> Discard",
    ports: "1/1-",
    processing: "h/h",
    straight: true,
    changes: Changes::Nothing,
    // By turns, which processors foresee.
    cost: &[Operation::Sort.once(), Operation::Surprise.times(0.0)],
    replicas: Replicas::Apart(
        "each goes round by itself, so outputs get equally many of each thread's packets",
    ),
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct RoundRobinSwitch {
    next: usize,
}

impl Element for RoundRobinSwitch {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let outputs = cx.outputs();
        cx.filter(batch, |_| {
            let port = self.next;
            self.next = if port + 1 >= outputs { 0 } else { port + 1 };
            if port == 0 { Verdict::Pass } else { Verdict::To(port) }
        });
    }
}
