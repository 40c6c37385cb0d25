//! DRRSched: inputs share by bytes.

use thruway_element::{
    Arguments, Buffer, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<DrrSched>(Spec {
    name: "DRRSched",
    topic: Topic::Queueing,
    summary: "pulls equally many bytes from each of its inputs",
    docs: "Deficit round robin (Shreedhar and Varghese, \"Efficient Fair Queuing Using Deficit \
           Round Robin\", 1995): in turn, each input that has packets may send QUANTUM more bytes; \
           bytes left over, because its next packet is longer, count for its next turn. So inputs \
           get equal parts of the bytes however long their packets are. Inputs usually come from \
           Queues.",
    example: "InfiniteSource(LENGTH 1000) -> Queue -> s :: DRRSched -> Unqueue -> Discard;\n\
              InfiniteSource(LENGTH 100) -> Queue -> [1] s",
    ports: "-/1",
    processing: "l/l",
    changes: Changes::Nothing,
    cost: &[Operation::Visit.once()],
    replicas: Replicas::Apart("each pulls for its thread, by deficits of its own"),
    ..Spec::DEFAULT
})
.with_buffer::<DrrSched>();

/// One input.
#[derive(Debug)]
struct Share<P> {
    /// A packet that was pulled and was too long for its turn.
    head: Option<P>,
    /// Bytes that it may give.
    deficit: u64,
}

/// The state of the deficit round robin, for packets `P`.
struct Rounds<P> {
    shares: Vec<Share<P>>,
    next: usize,
    quantum: u64,
}

impl<P> Rounds<P> {
    fn new(inputs: usize, quantum: u64) -> Rounds<P> {
        let shares = (0..inputs).map(|_| Share { head: None, deficit: 0 }).collect();
        Rounds { shares, next: 0, quantum }
    }

    /// The next packet, from inputs that give what they have to `pull`. `None` when no input has
    /// any.
    fn take(
        &mut self,
        mut pull: impl FnMut(usize) -> Option<P>,
        len: impl Fn(&P) -> u64,
    ) -> Option<P> {
        let mut empty = 0;
        while empty < self.shares.len() {
            let share = &mut self.shares[self.next];
            match share.head.take().or_else(|| pull(self.next)) {
                Some(packet) if len(&packet) <= share.deficit => {
                    share.deficit -= len(&packet);
                    return Some(packet);
                }
                Some(packet) => {
                    share.head = Some(packet);
                    empty = 0;
                }
                None => {
                    share.deficit = 0;
                    empty += 1;
                }
            }
            self.next = if self.next + 1 == self.shares.len() { 0 } else { self.next + 1 };
            self.shares[self.next].deficit += self.quantum;
        }
        None
    }
}

#[derive(Arguments, Handlers)]
struct DrrSched {
    #[arg(
        optional, name = "QUANTUM", value = u32, or = "500", range = 1..,
        "bytes an input may give in a round"
    )]
    #[new(Rounds::new(args.env().inputs, quantum.into()))]
    rounds: Rounds<Packet>,
    #[new(Batch::with_room())]
    one: Batch,
}

impl Element for DrrSched {
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        let one = &mut self.one;
        while batch.len() < max {
            let pull = |input: usize| {
                cx.pull(input, 1, one);
                one.pop()
            };
            let Some(packet) = self.rounds.take(pull, |packet| packet.len() as u64) else { return };
            batch.push(packet);
        }
    }
}

impl Buffer for DrrSched {
    fn holding(&self) -> usize {
        self.rounds.shares.iter().filter(|share| share.head.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// While all inputs have packets, none is behind another by more than a quantum and the
        /// longest packet; nothing is lost, and each input keeps its order.
        #[test]
        fn bytes_are_shared(
            inputs in prop::collection::vec(prop::collection::vec(1u64..2000, 1..40), 1..5),
            quantum in 1u64..1500,
        ) {
            let mut queues: Vec<VecDeque<(usize, u64)>> = inputs
                .iter()
                .enumerate()
                .map(|(at, lens)| lens.iter().map(|len| (at, *len)).collect())
                .collect();
            let mut rounds = Rounds::new(inputs.len(), quantum);
            let mut given: Vec<Vec<u64>> = vec![Vec::new(); inputs.len()];
            let mut fair = true;
            while let Some((at, len)) =
                rounds.take(|input| queues[input].pop_front(), |packet| packet.1)
            {
                given[at].push(len);
                fair &= queues.iter().all(|queue| !queue.is_empty());
                if fair {
                    let sums = || given.iter().map(|lens| lens.iter().sum::<u64>());
                    let spread = sums().max().unwrap() - sums().min().unwrap();
                    prop_assert!(spread <= 2 * (quantum + 2000), "{spread}");
                }
            }
            prop_assert_eq!(given, inputs);
        }
    }

    #[test]
    fn no_inputs() {
        assert_eq!(Rounds::<u8>::new(0, 1).take(|_| unreachable!(), |_| 0), None);
    }
}
