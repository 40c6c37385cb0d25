//! RatedUnqueue: from pull to push, so many packets a second.

use std::any::Any;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Handlers, HotSwap,
    Operation, Replicas, Run, Spec, Threading, Topic, Ty, handler_value,
};
use thruway_packet::{Batch, MAX_BATCH};

use super::limit::{self, Limit, Unit};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "RatedUnqueue",
        topic: Topic::Queueing,
        summary: "pulls packets at a rate and pushes them on",
        docs: "Pulls RATE packets a second and pushes them. The rate is kept by a token bucket, full \
               at the start, which holds what comes in BURST_DURATION or else BURST_SIZE packets \
               (at least one): so much may follow at once on a pause. Time goes in milliseconds, \
               and as in Click the part of a token that no longer fits is lost: with BURST_SIZE 1 \
               and 100 packets a second, there are 11 ms between packets. With RATE 0 nothing is \
               pulled once the bucket is empty.",
        example: "InfiniteSource -> Queue -> RatedUnqueue(100) -> Discard",
        processing: "l/h",
        args: &[
            Arg::required("RATE", Ty::UInt, "packets a second"),
            limit::BURST_DURATION,
            limit::BURST_SIZE,
            ACTIVE,
        ],
        handlers: &[
            Handler::both("rate", "packets a second"),
            Handler::both("active", "whether it moves packets"),
            Handler::sum("count", "packets moved"),
            Handler::sum("calls", "how often it ran, and to what effect"),
        ],
        threading: Threading::Task,
        changes: Changes::Nothing,
        cost: &[Operation::Visit.once()],
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
)
.with_hot_swap::<RatedUnqueue>()
.with_handlers::<RatedUnqueue>();

const ACTIVE: Arg = Arg::keyword("ACTIVE", Ty::Bool, "whether it moves packets").or("true");

/// See the spec.
pub static BANDWIDTH: Entry = Entry::new(
    Spec {
        name: "BandwidthRatedUnqueue",
        summary: "pulls bytes at a rate and pushes them on",
        docs: "A RatedUnqueue whose RATE is in bytes a second. It pulls a packet while its token \
               bucket owes nothing, and the bucket owes what the packet has more than it held. It \
               is full at the start and holds what comes in BURST_DURATION or else BURST_BYTES.",
        example: "InfiniteSource -> Queue -> BandwidthRatedUnqueue(1Mbps) -> Discard",
        args: &[
            Arg::required("RATE", Ty::Bandwidth, "bytes a second"),
            limit::BURST_DURATION,
            limit::BURST_BYTES,
            ACTIVE,
        ],
        handlers: &[
            Handler::both("rate", "bytes a second, with unit"),
            Handler::both("active", "whether it moves packets"),
            Handler::sum("count", "packets moved"),
            Handler::sum("calls", "how often it ran, and to what effect"),
        ],
        ..ENTRY.spec
    },
    build,
)
.with_hot_swap::<RatedUnqueue>()
.with_handlers::<RatedUnqueue>();

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

struct RatedUnqueue {
    limit: Limit,
    active: bool,
    calls: Calls,
    batch: Batch,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(RatedUnqueue {
        limit: Limit::from_args(args)?,
        active: args.get("ACTIVE")?,
        calls: Calls::default(),
        batch: Batch::with_room(),
    }))
}

impl Element for RatedUnqueue {
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
        // Nobody knows how many bytes the next packets have.
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

impl Handlers for RatedUnqueue {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        let calls = &self.calls;
        match name {
            "rate" => Ok(self.limit.rate_text()),
            "active" => Ok(self.active.to_string()),
            "count" => Ok(calls.packets.to_string()),
            "calls" => Ok(format!(
                "{} calls to run_task()\n{} empty runs\n{} pushes\n{} failed pulls\n{} packets\n",
                calls.runs, calls.empty_runs, calls.pushes, calls.failed_pulls, calls.packets
            )),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        match name {
            "rate" => self.limit.write_rate(name, value, cx.now())?,
            "active" => self.active = handler_value(name, value)?,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}

impl HotSwap for RatedUnqueue {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        self.limit.hand_over()
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        self.limit.take_over(state);
    }
}
