//! StrideSched: inputs in proportion to their tickets.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Purpose, Replicas, Spec, Topic,
};
use thruway_packet::Batch;

use super::strides::{Strides, TICKETS};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<StrideSched>(Spec {
    name: "StrideSched",
    topic: Topic::Queueing,
    summary: "pulls from its inputs in proportion to their tickets",
    docs: "Stride scheduling of packets: each input that has packets gets a share of the pulls at \
           the output in proportion to its TICKETS, one argument for each input (0 to 32768). An \
           input that has nothing when its turn comes is passed over until its next turn. Inputs \
           usually come from Queues.",
    example: "InfiniteSource -> Queue -> s :: StrideSched(3, 1) -> Unqueue -> Discard;\n\
              InfiniteSource -> Queue -> [1] s",
    ports: "1-/1",
    processing: "l/l",
    changes: Changes::Nothing,
    cost: &[Operation::Visit.once()],
    replicas: Replicas::Apart("each keeps to the tickets by itself"),
    purpose: Purpose::ScheduleByArguments,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct StrideSched {
    #[arg(like = TICKETS)]
    #[new(Strides::from_args(args, args.env().inputs)?)]
    #[part]
    strides: Strides,
    #[new(Batch::with_room())]
    one: Batch,
}

impl Element for StrideSched {
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        let one = &mut self.one;
        while batch.len() < max {
            let taken = self.strides.turn(|input| {
                cx.pull(input, 1, one);
                !one.is_empty()
            });
            if !taken {
                return;
            }
            batch.extend(one.drain());
        }
    }
}
