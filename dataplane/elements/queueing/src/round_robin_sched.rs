//! RoundRobinSched: one packet from each input in turn.

use thruway_element::{
    Alias, Arguments, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Purpose, Replicas, Spec,
    Topic,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<RoundRobinSched>(Spec {
    name: "RoundRobinSched",
    aliases: &[Alias { name: "SimpleRoundRobinSched", summary: "the same" }],
    topic: Topic::Queueing,
    summary: "pulls from its inputs in turn",
    docs: "Each packet pulled at its output is pulled from the input after the one that gave the \
           last packet, or from the next that has one. Inputs usually come from Queues.",
    example: "InfiniteSource(LIMIT 3) -> Queue -> s :: RoundRobinSched -> Unqueue -> Discard;\n\
              InfiniteSource(LIMIT 3) -> Queue -> [1] s",
    ports: "-/1",
    processing: "l/l",
    changes: Changes::Nothing,
    cost: NOTHING_MORE,
    replicas: Replicas::Apart("each goes round by itself"),
    purpose: Purpose::Schedule,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct RoundRobinSched {
    next: usize,
    #[new(Batch::with_room())]
    one: Batch,
}

/// Asks `inputs` inputs in turn, from `next` on, until `max` have given something or none has
/// anything. `give` says whether the input gave.
fn rotate(next: &mut usize, inputs: usize, max: usize, mut give: impl FnMut(usize) -> bool) {
    let (mut given, mut refused) = (0, 0);
    let mut input = *next;
    while given < max && refused < inputs {
        let gave = give(input);
        input = if input + 1 >= inputs { 0 } else { input + 1 };
        if gave {
            (given, refused, *next) = (given + 1, 0, input);
        } else {
            refused += 1;
        }
    }
}

impl Element for RoundRobinSched {
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        let inputs = cx.inputs();
        rotate(&mut self.next, inputs, max, |input| {
            cx.pull(input, 1, &mut self.one);
            let gave = !self.one.is_empty();
            batch.extend(self.one.drain());
            gave
        });
    }
}

#[cfg(test)]
mod tests {
    use super::rotate;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// Click's rule for one pull, written plainly.
    fn pull_one(next: &mut usize, queues: &mut [VecDeque<u32>]) -> Option<u32> {
        let n = queues.len();
        let order: Vec<usize> = (0..n).map(|i| (*next + i) % n).collect();
        for input in order {
            if let Some(packet) = queues[input].pop_front() {
                *next = (input + 1) % n;
                return Some(packet);
            }
        }
        None
    }

    proptest! {
        #[test]
        fn batches_are_pulls_one_by_one(
            sizes in prop::collection::vec(0usize..8, 1..6),
            pulls in prop::collection::vec(1usize..7, 1..20),
        ) {
            let mut number = 0..;
            let mut queues: Vec<VecDeque<u32>> = sizes
                .iter()
                .map(|size| number.by_ref().take(*size).collect())
                .collect();
            let mut model = queues.clone();
            let (mut next, mut model_next) = (0, 0);
            for max in pulls {
                let mut got = Vec::new();
                rotate(&mut next, queues.len(), max, |input| {
                    let packet = queues[input].pop_front();
                    got.extend(packet);
                    packet.is_some()
                });
                let wanted: Vec<u32> =
                    (0..max).map_while(|_| pull_one(&mut model_next, &mut model)).collect();
                prop_assert_eq!(got, wanted);
            }
        }
    }

    #[test]
    fn no_inputs() {
        rotate(&mut 0, 0, 5, |_| unreachable!());
    }
}
