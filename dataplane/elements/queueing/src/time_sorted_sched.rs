//! TimeSortedSched: merges streams by their packets' timestamps.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thruway_element::{
    Arguments, Buffer, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<TimeSortedSched>(Spec {
    name: "TimeSortedSched",
    topic: Topic::Queueing,
    summary: "merges its inputs by timestamp",
    docs: "Gives the packet with the earliest timestamp of those at its inputs, each of which \
           should be sorted by itself, as captures are. Up to BUFFER packets of each input are \
           inspected, so that more than 1 corrects minor reordering. Packets of equal times go in \
           order of the inputs. With STOP, the driver is asked to stop when no input has packets, \
           and again when packets came and ran out.",
    example: "InfiniteSource(LIMIT 3) -> Queue -> s :: TimeSortedSched -> Unqueue -> Discard;\n\
              InfiniteSource(LIMIT 3) -> Queue -> [1] s",
    ports: "-/1",
    processing: "l/l",
    changes: Changes::Nothing,
    cost: &[Operation::Visit.once()],
    replicas: Replicas::OneThread("it sorts all packets that are pulled through it"),
    ..Spec::DEFAULT
})
.with_buffer::<TimeSortedSched>();

const BUFFER_MAX: usize = 1 << 16;
/// Packets of an input for which room is made beforehand.
const ROOM: usize = 64;

/// A packet that waits for its turn: by time, then input, then arrival.
#[derive(Debug)]
struct Waiting<P> {
    time: i64,
    input: usize,
    number: u64,
    what: P,
}

impl<P> Waiting<P> {
    fn key(&self) -> (i64, usize, u64) {
        (self.time, self.input, self.number)
    }
}

impl<P> Ord for Waiting<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<P> PartialOrd for Waiting<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Waiting<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<P> Eq for Waiting<P> {}

/// All that wait, and how many of each input.
struct Merge<P> {
    heap: BinaryHeap<Reverse<Waiting<P>>>,
    waiting: Vec<usize>,
    buffer: usize,
    number: u64,
    last: i64,
    well_ordered: bool,
}

impl<P> Merge<P> {
    fn new(inputs: usize, buffer: usize) -> Merge<P> {
        Merge {
            heap: BinaryHeap::with_capacity(inputs * buffer.min(ROOM)),
            waiting: vec![0; inputs],
            buffer,
            number: 0,
            last: i64::MIN,
            well_ordered: true,
        }
    }

    /// The earliest packet, after each input has given what it may to `pull`, with its time.
    fn take(&mut self, mut pull: impl FnMut(usize) -> Option<(i64, P)>) -> Option<P> {
        for (input, waiting) in self.waiting.iter_mut().enumerate() {
            while *waiting < self.buffer
                && let Some((time, what)) = pull(input)
            {
                *waiting += 1;
                self.number += 1;
                self.heap.push(Reverse(Waiting { time, input, number: self.number, what }));
            }
        }
        let Reverse(first) = self.heap.pop()?;
        self.waiting[first.input] -= 1;
        self.well_ordered &= first.time >= self.last;
        self.last = first.time;
        Some(first.what)
    }
}

#[derive(Arguments, Handlers)]
#[handler(
    read, name = "well_ordered", "whether all packets left in order of time",
    get = self.merge.well_ordered
)]
struct TimeSortedSched {
    /// whether the driver stops when nothing is left
    #[arg(keyword, or = "false")]
    stop: bool,
    #[arg(
        keyword, name = "BUFFER", value = usize, or = "1", range = 1..=BUFFER_MAX,
        "packets of an input to look at, 1 to 65536"
    )]
    #[new(Merge::new(args.env().inputs, buffer))]
    merge: Merge<Packet>,
    /// The driver was asked to stop, and nothing came since.
    asked: bool,
    #[new(Batch::with_room())]
    one: Batch,
}

impl Element for TimeSortedSched {
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        while batch.len() < max {
            let packet = self.merge.take(|input| {
                cx.pull(input, 1, &mut self.one);
                let packet = self.one.pop()?;
                Some((packet.timestamp(), packet))
            });
            let Some(packet) = packet else { break };
            self.asked = false;
            batch.push(packet);
        }
        if batch.is_empty() && self.stop && !self.asked {
            self.asked = true;
            cx.stop();
        }
    }
}

impl Buffer for TimeSortedSched {
    fn holding(&self) -> usize {
        self.merge.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn run(inputs: &[Vec<i64>], buffer: usize) -> (Vec<i64>, bool) {
        let mut queues: Vec<VecDeque<i64>> =
            inputs.iter().map(|times| times.iter().copied().collect()).collect();
        let mut merge = Merge::new(inputs.len(), buffer);
        let mut out = Vec::new();
        while let Some(time) = merge.take(|at| queues[at].pop_front().map(|time| (time, time))) {
            out.push(time);
        }
        assert!(merge.waiting.iter().all(|waiting| *waiting == 0));
        (out, merge.well_ordered)
    }

    proptest! {
        #[test]
        fn sorted_inputs_make_a_sorted_output(
            mut inputs in prop::collection::vec(prop::collection::vec(any::<i64>(), 0..20), 0..5),
            buffer in 1usize..4,
        ) {
            let mut all: Vec<i64> = inputs.concat();
            all.sort_unstable();
            let (out, well_ordered) = run(&inputs, 20);
            prop_assert_eq!((&out, well_ordered), (&all, true));
            inputs.iter_mut().for_each(|times| times.sort_unstable());
            prop_assert_eq!(run(&inputs, buffer), (all, true));
        }
    }

    #[test]
    fn disorder_is_noticed() {
        assert_eq!(run(&[vec![5, 1], vec![2]], 1), (vec![2, 5, 1], false));
        assert_eq!(run(&[vec![5, 1], vec![2]], 2), (vec![1, 2, 5], true));
    }
}
