//! RatedSplitter: packets up to a rate leave by one output, the excess by another.

use std::any::Any;

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, HotSwap, Operation, Replicas, Resize, Spec,
    Topic, Verdict, reasons,
};
use thruway_packet::Batch;

use super::limit::{self, Limit};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<RatedSplitter<false>>(Spec {
    name: "RatedSplitter",
    topic: Topic::Queueing,
    summary: "splits off the packets that exceed a rate",
    docs: "Up to RATE packets a second leave by output 0, the excess by output 1 (or is dropped if \
           that is unconnected), so that output 0 has its RATE even if more comes. The rate is \
           kept by a token bucket, full at the start, which holds the packets in BURST_DURATION or \
           else BURST_SIZE packets (at least one). Where several threads bring packets they share \
           the bucket: RATE is that of all of them. A hot swap keeps the bucket's level.",
    example: "InfiniteSource(LIMIT 9, STOP true) -> s :: RatedSplitter(100) -> Discard;\n\
              s[1] -> Print(more) -> Discard",
    ports: "1/1-2",
    processing: "h/h",
    drops: Excess::DROPS,
    changes: Changes::Nothing,
    cost: &[Operation::Sort.once()],
    replicas: Replicas::Sharing("the tokens: the rate is that of all threads"),
    ..Spec::DEFAULT
})
.with_hot_swap::<RatedSplitter<false>>()
.with_resize::<RatedSplitter<false>>();

/// See the spec.
pub static BANDWIDTH: Entry = Entry::of::<RatedSplitter<true>>(Spec {
    name: "BandwidthRatedSplitter",
    summary: "splits off the packets that exceed a rate in bytes",
    docs: "A RatedSplitter with a RATE in bytes a second: packets leave by output 0 while the \
           token bucket owes nothing, and it owes what a packet has more than it held. It is full \
           at the start and holds the bytes of BURST_DURATION, or BURST_BYTES.",
    example: "InfiniteSource(LIMIT 9, STOP true) -> s :: BandwidthRatedSplitter(1Mbps) \
              -> Discard;\n\
              s[1] -> Print(more) -> Discard",
    ..ENTRY.spec
})
.with_hot_swap::<RatedSplitter<true>>()
.with_resize::<RatedSplitter<true>>();

reasons! {
    /// Why a packet leaves by output 1.
    enum Excess {
        Rate = "over-rate": "RATE was exceeded",
    }
}

#[derive(Arguments, Handlers)]
struct RatedSplitter<const BYTES: bool> {
    #[arg(like = limit::rate(BYTES), unread)]
    #[arg(like = limit::BURST_DURATION, unread)]
    #[arg(like = limit::burst(BYTES), unread)]
    #[new(Limit::from_args(args)?)]
    #[handler(
        both, shared, name = "rate", doc = limit::about_rate(BYTES), get = self.limit.rate_text(),
        write = self.limit.write_rate(name, value, cx.now())
    )]
    limit: Limit,
}

impl<const BYTES: bool> Element for RatedSplitter<BYTES> {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.limit.begin(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let mut left = self.limit.admit(cx.now(), batch);
        if left == batch.len() {
            return;
        }
        cx.filter(batch, |_| match left {
            0 => Verdict::reject(1, Excess::Rate),
            _ => {
                left -= 1;
                Verdict::Pass
            }
        });
    }
}

impl<const BYTES: bool> HotSwap for RatedSplitter<BYTES> {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        self.limit.hand_over()
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        self.limit.take_over(state);
    }
}

impl<const BYTES: bool> Resize for RatedSplitter<BYTES> {
    /// All have one bucket, which the first has handed over.
    fn join(&mut self, _state: Box<dyn Any + Send>) {}
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thruway_packet::Packet;

    use super::*;
    use thruway_elements_rig::Rig;

    const MS: i64 = 1_000_000;

    fn packets(count: usize, len: usize) -> impl Iterator<Item = Packet> {
        (0..count).map(move |_| Packet::zeroed(len).unwrap())
    }

    /// A bucket of several threads, in packets or bytes, in exact parts of a token.
    struct Plain {
        rate: i128,
        capacity: i128,
        level: i128,
    }

    impl Plain {
        fn pass(&mut self, ns: i64) {
            self.level = (self.level + self.rate * i128::from(ns)).min(self.capacity);
        }
    }

    const TOKEN: i128 = 1_000_000_000;

    proptest! {
        /// Threads that have one clock decide as one bucket does, however packets are spread over
        /// them; and so does the limit of the configuration that takes over.
        #[test]
        fn replicas_keep_one_limit(
            by_bytes: bool,
            threads in 2usize..5,
            rate in 1i64..50_000,
            burst in 1i64..300,
            steps in prop::collection::vec((0i64..40, 0usize..5, 1usize..100, 1usize..200), 1..60),
        ) {
            let (entry, size) = match by_bytes {
                true => (&BANDWIDTH, "BURST_BYTES"),
                false => (&ENTRY, "BURST_SIZE"),
            };
            let unit = if by_bytes { "Bps" } else { "" };
            let texts = [format!("{rate}{unit}"), format!("{size} {burst}")];
            let mut replicas = Rig::replicas(entry, &texts, 2, threads).unwrap();
            let capacity = i128::from(burst) * TOKEN;
            let mut plain = Plain { rate: rate.into(), capacity, level: capacity };
            for (step, thread, count, len) in steps {
                replicas.iter_mut().for_each(|replica| replica.pass(step * MS));
                plain.pass(step * MS);
                let out = replicas[thread % threads].push(packets(count, len));
                prop_assert_eq!(out[0].len() + out[1].len(), count);
                // Off by what times are rounded, a few parts of 10^8.
                let near = plain.level / 10_000_000 + TOKEN / 10_000;
                for nth in 0..count {
                    let enough = |level: i128| level >= if by_bytes { 0 } else { TOKEN };
                    let passed = nth < out[0].len();
                    let is_close = enough(plain.level + near) != enough(plain.level - near);
                    prop_assert!(is_close || passed == enough(plain.level));
                    let tokens = if by_bytes { len as i128 } else { 1 };
                    plain.level -= if passed { tokens * TOKEN } else { 0 };
                }
            }
        }
    }

    /// Two threads at full load: what passes is what one bucket holds, packet by packet.
    #[test]
    fn two_threads_share_a_bucket() {
        let texts = ["0", "BURST_SIZE 10000"];
        let replicas = Rig::replicas(&ENTRY, &texts, 2, 2).unwrap();
        let run = |mut replica: Rig| {
            (0..500).map(|_| replica.push(packets(32, 60))[0].len()).sum::<usize>()
        };
        let passed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> =
                replicas.into_iter().map(|replica| scope.spawn(move || run(replica))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(passed, 10_000);
    }

    #[test]
    fn what_is_left_goes_to_the_next_configuration() {
        for (before, after) in [(1, 1), (1, 2), (2, 1), (3, 2)] {
            let build =
                |threads| Rig::replicas(&ENTRY, &["10", "BURST_SIZE 8"], 2, threads).unwrap();
            let (mut old, mut new) = (build(before), build(after));
            old.iter_mut().chain(&mut new).for_each(|rig| rig.pass(1_000 * MS));
            assert_eq!(old[0].push(packets(5, 60))[0].len(), 5);
            for (old, new) in old.iter_mut().zip(&mut new) {
                old.hand_over_to(new);
            }
            assert_eq!(new[0].push(packets(9, 60))[0].len(), 3, "{before} {after}");
            new.iter_mut().for_each(|rig| rig.pass(201 * MS));
            let last = new.last_mut().unwrap();
            assert_eq!(last.push(packets(9, 60))[0].len(), 2, "{before} {after}");
            last.write("rate", "1000").unwrap();
            new.iter_mut().for_each(|rig| rig.pass(4 * MS));
            assert_eq!(new[0].push(packets(9, 60))[0].len(), 4, "{before} {after}");
            assert_eq!(new[0].read("rate", "").unwrap(), "1000");
        }
    }
}
