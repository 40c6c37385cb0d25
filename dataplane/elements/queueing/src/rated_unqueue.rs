//! RatedUnqueue: from pull to push, so many packets a second.

use std::any::Any;
use std::fmt;

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, HotSwap, Operation, Replicas, Run, Spec,
    Threading, Topic,
};
use thruway_packet::{Batch, MAX_BATCH};

use super::limit::{self, Limit, Unit};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<RatedUnqueue<false>>(Spec {
    name: "RatedUnqueue",
    topic: Topic::Queueing,
    summary: "pulls packets at a rate and pushes them on",
    docs: "Pulls RATE packets a second and pushes them. The rate is kept by a token bucket, full \
           at the start, which holds the packets of BURST_DURATION, or BURST_SIZE packets (at \
           least one): so much may follow at once on a pause. Time goes in milliseconds, and as in \
           Click the part of a token that no longer fits is lost: with BURST_SIZE 1 and 100 \
           packets a second, there are 11 ms between packets. With RATE 0 nothing is pulled once \
           the bucket is empty.",
    example: "InfiniteSource -> Queue -> RatedUnqueue(100) -> Discard",
    processing: "l/h",
    threading: Threading::Task,
    changes: Changes::Nothing,
    cost: &[Operation::Visit.once()],
    replicas: Replicas::Single,
    ..Spec::DEFAULT
})
.with_hot_swap::<RatedUnqueue<false>>();

/// See the spec.
pub static BANDWIDTH: Entry = Entry::of::<RatedUnqueue<true>>(Spec {
    name: "BandwidthRatedUnqueue",
    summary: "pulls bytes at a rate and pushes them on",
    docs: "A RatedUnqueue with a RATE in bytes a second. It pulls a packet while its token bucket \
           owes nothing, and the bucket owes the packet's bytes in excess of its level. It is full \
           at the start and holds the bytes of BURST_DURATION, or BURST_BYTES.",
    example: "InfiniteSource -> Queue -> BandwidthRatedUnqueue(1Mbps) -> Discard",
    ..ENTRY.spec
})
.with_hot_swap::<RatedUnqueue<true>>();

/// Longest time until it looks again whether its rate was changed, nanoseconds.
const SLEEP_MAX: i64 = 100_000_000;

#[derive(Debug, Default)]
struct Calls {
    runs: u64,
    empty_runs: u64,
    pushes: u64,
    failed_pulls: u64,
    packets: u64,
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} calls to run_task()\n{} empty runs", self.runs, self.empty_runs)?;
        writeln!(f, "{} pushes\n{} failed pulls", self.pushes, self.failed_pulls)?;
        writeln!(f, "{} packets", self.packets)
    }
}

#[derive(Arguments, Handlers)]
struct RatedUnqueue<const BYTES: bool> {
    #[arg(like = limit::rate(BYTES), unread)]
    #[arg(like = limit::BURST_DURATION, unread)]
    #[arg(like = limit::burst(BYTES), unread)]
    #[new(Limit::from_args(args)?)]
    #[handler(
        both, name = "rate", doc = limit::about_rate(BYTES), get = self.limit.rate_text(),
        write = self.limit.write_rate(name, value, cx.now())
    )]
    limit: Limit,
    /// whether it moves packets
    #[arg(keyword, or = "true")]
    #[handler(both)]
    active: bool,
    #[handler(sum, name = "count", "packets moved", get = self.calls.packets)]
    #[handler(sum, "runs of the task, and their results")]
    calls: Calls,
    #[new(Batch::with_room())]
    batch: Batch,
}

impl<const BYTES: bool> Element for RatedUnqueue<BYTES> {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !self.active {
            return Run::Idle;
        }
        self.calls.runs += 1;
        let threshold = self.limit.threshold();
        let bucket = &mut self.limit.bucket;
        bucket.refill(cx.now());
        if !bucket.holds(threshold) {
            self.calls.empty_runs += 1;
            let latest = cx.now().saturating_add(SLEEP_MAX);
            return bucket.ready_at(threshold).map_or(Run::Idle, |at| Run::At(at.min(latest)));
        }
        // The sizes of the next packets are unknown.
        let packets = match self.limit.unit {
            Unit::Packets => usize::try_from(bucket.tokens()).unwrap_or(usize::MAX),
            Unit::Bytes => 1,
        };
        cx.pull(0, packets.min(cx.burst()).min(MAX_BATCH), &mut self.batch);
        if self.batch.is_empty() {
            self.calls.failed_pulls += 1;
            return Run::Idle;
        }
        self.limit.bucket.spend(match self.limit.unit {
            Unit::Packets => self.batch.len() as u64,
            Unit::Bytes => self.batch.bytes(),
        });
        self.calls.pushes += 1;
        self.calls.packets += self.batch.len() as u64;
        cx.emit_all(0, &mut self.batch);
        Run::Again
    }
}

impl<const BYTES: bool> HotSwap for RatedUnqueue<BYTES> {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        self.limit.hand_over()
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        self.limit.take_over(state);
    }
}
