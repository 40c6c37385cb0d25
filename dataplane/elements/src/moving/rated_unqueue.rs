//! RatedUnqueue: from pull to push, so many packets a second.

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, Nanos, Run, Spec, Topic, Ty,
    handler_value,
};
use thruway_packet::{Batch, MAX_BATCH};

use crate::rate::TokenBucket;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "RatedUnqueue",
        topic: Topic::Moving,
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
            Arg::keyword("BURST_DURATION", Ty::Time, "what the bucket holds, in time").or("20ms"),
            Arg::keyword("BURST_SIZE", Ty::UInt, "what the bucket holds, in packets"),
            Arg::keyword("ACTIVE", Ty::Bool, "whether it moves packets").or("true"),
        ],
        handlers: &[
            Handler::both("rate", "packets a second"),
            Handler::both("active", "whether it moves packets"),
            Handler::sum("count", "packets moved"),
            Handler::sum("calls", "how often it ran, and to what effect"),
        ],
        task: true,
        ..Spec::DEFAULT
    },
    build,
);

/// Longest time until it looks again whether its rate was changed, nanoseconds.
const SLEEP_MAX: i64 = 100_000_000;

/// What the bucket holds.
#[derive(Debug, Clone, Copy)]
enum Burst {
    Milliseconds(u64),
    Packets(u64),
}

impl Burst {
    fn capacity(self, rate: u64) -> u64 {
        match self {
            Burst::Milliseconds(ms) => {
                let tokens = u128::from(rate) * u128::from(ms) / 1000;
                u64::try_from(tokens).unwrap_or(u64::MAX)
            }
            Burst::Packets(n) => n,
        }
    }
}

#[derive(Debug, Default)]
struct Calls {
    runs: u64,
    empty_runs: u64,
    pushes: u64,
    failed_pulls: u64,
    packets: u64,
}

struct RatedUnqueue {
    bucket: TokenBucket,
    burst: Burst,
    active: bool,
    calls: Calls,
    batch: Batch,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let burst = match args.opt("BURST_SIZE")? {
        Some(_) if args.given("BURST_DURATION") => {
            return Err(ArgErrors::whole("give BURST_DURATION or BURST_SIZE, not both"));
        }
        Some(n) => Burst::Packets(n),
        None => {
            let Nanos(ns) = args.get("BURST_DURATION")?;
            let ms = u64::try_from(ns / 1_000_000);
            Burst::Milliseconds(ms.map_err(|_| args.error("BURST_DURATION", "is negative"))?)
        }
    };
    let rate = args.get::<u32>("RATE")?.into();
    Ok(Box::new(RatedUnqueue {
        bucket: TokenBucket::new(rate, burst.capacity(rate)),
        burst,
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
        self.bucket.refill(cx.now());
        if !self.bucket.holds(1) {
            self.calls.empty_runs += 1;
            let latest = cx.now().saturating_add(SLEEP_MAX);
            return self.bucket.ready_at(1).map_or(Run::Idle, |at| Run::At(at.min(latest)));
        }
        let tokens = usize::try_from(self.bucket.tokens()).unwrap_or(usize::MAX);
        cx.pull(0, tokens.min(cx.burst()).min(MAX_BATCH), &mut self.batch);
        if self.batch.is_empty() {
            self.calls.failed_pulls += 1;
            return Run::Idle;
        }
        self.bucket.spend(self.batch.len() as u64);
        self.calls.pushes += 1;
        self.calls.packets += self.batch.len() as u64;
        cx.emit_all(0, &mut self.batch);
        Run::Again
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        let calls = &self.calls;
        match name {
            "rate" => Ok(self.bucket.rate().to_string()),
            "active" => Ok(self.active.to_string()),
            "count" => Ok(calls.packets.to_string()),
            "calls" => Ok(format!(
                "{} calls to run_task()\n{} empty runs\n{} pushes\n{} failed pulls\n{} packets\n",
                calls.runs, calls.empty_runs, calls.pushes, calls.failed_pulls, calls.packets
            )),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "rate" => {
                let rate = handler_value::<u32>(name, value)?.into();
                self.bucket.set_rate(rate, self.burst.capacity(rate));
            }
            "active" => self.active = handler_value(name, value)?,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}
