//! RatedSplitter: so much a second goes one way, the rest another.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Operation, Spec,
    Topic, Ty, Verdict, reasons,
};
use thruway_packet::Batch;

use super::limit::{self, Limit, Unit};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "RatedSplitter",
        topic: Topic::Moving,
        summary: "splits off the packets that exceed a rate",
        docs: "Up to RATE packets a second leave by output 0, and what comes beyond that by output 1 \
               (or is dropped where there is none), so that output 0 has its RATE even if more \
               comes. The rate is kept by a token bucket, full at the start, which holds what comes \
               in BURST_DURATION or else BURST_SIZE packets (at least one).",
        example: "InfiniteSource(LIMIT 9, STOP true) -> s :: RatedSplitter(100) -> Discard;\n\
                  s[1] -> Print(more) -> Discard",
        ports: "1/1-2",
        processing: "h/h",
        args: &[
            Arg::required("RATE", Ty::UInt, "packets a second"),
            limit::BURST_DURATION,
            limit::BURST_SIZE,
        ],
        drops: Excess::DROPS,
        handlers: &[Handler::both("rate", "packets a second")],
        changes: Changes::Nothing,
        cost: &[Operation::Sort.once()],
        ..Spec::DEFAULT
    },
    build,
);

/// See the spec.
pub static BANDWIDTH: Entry = Entry::new(
    Spec {
        name: "BandwidthRatedSplitter",
        summary: "splits off the packets that exceed a rate in bytes",
        docs: "A RatedSplitter whose RATE is in bytes a second: packets leave by output 0 while the \
               token bucket owes nothing, and it owes what a packet has more than it held. It is full \
               at the start and holds what comes in BURST_DURATION or else BURST_BYTES.",
        example: "InfiniteSource(LIMIT 9, STOP true) -> s :: BandwidthRatedSplitter(1Mbps) \
                  -> Discard;\n\
                  s[1] -> Print(more) -> Discard",
        args: &[
            Arg::required("RATE", Ty::Bandwidth, "bytes a second"),
            limit::BURST_DURATION,
            limit::BURST_BYTES,
        ],
        handlers: &[Handler::both("rate", "bytes a second, with unit")],
        ..ENTRY.spec
    },
    build,
);

reasons! {
    /// Why a packet leaves by output 1.
    enum Excess {
        Rate = "over-rate": "RATE was exceeded",
    }
}

struct RatedSplitter {
    limit: Limit,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(RatedSplitter { limit: Limit::from_args(args)? }))
}

impl Element for RatedSplitter {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let threshold = self.limit.threshold();
        let Limit { bucket, unit, .. } = &mut self.limit;
        bucket.refill(cx.now());
        cx.sift(batch, |packet| {
            if !bucket.holds(threshold) {
                return Verdict::reject(1, Excess::Rate);
            }
            bucket.spend(if *unit == Unit::Bytes { packet.len() as u64 } else { 1 });
            Verdict::Pass
        });
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "rate" => Ok(self.limit.rate_text()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "rate" => self.limit.write_rate(name, value),
            _ => Err(HandlerError::no_write(name)),
        }
    }
}
