//! Shaper: lets no more be pulled than a rate allows.

use std::convert::Infallible;

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
};
use thruway_packet::Batch;

use thruway_elements_support::rate::{RateArg, TokenBucket};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Shaper<false>>(Spec {
    name: "Shaper",
    topic: Topic::Queueing,
    summary: "shapes pulled packets to a maximum rate in packets",
    docs: "Passes pulls on as long as packets keep to RATE, and has nothing to give otherwise; \
           packets stay where they are meanwhile, usually in a Queue. Packets are spaced evenly; a \
           puller that comes late may catch up at most 10 ms, or one packet. A RATE of 0 lets \
           nothing pass. A second output, where there is one, gives packets only while output 0 \
           does not: what is more than the rate.",
    example: "InfiniteSource -> Queue -> Shaper(1000) -> Unqueue -> Discard",
    ports: "1/1-2",
    processing: "l/l",
    changes: Changes::Nothing,
    cost: &[Operation::Visit.once()],
    replicas: Replicas::OneThread("its outputs keep to one rate"),
    ..Spec::DEFAULT
});

/// See the spec.
pub static BANDWIDTH: Entry = Entry::of::<Shaper<true>>(Spec {
    name: "BandwidthShaper",
    summary: "shapes pulled packets to a maximum rate in bytes",
    docs: "Passes pulls on as long as the packets' bytes keep to RATE, and has nothing to give \
           otherwise; packets stay where they are meanwhile, usually in a Queue. Packets are \
           spaced evenly: after a packet, the next is given when the time for its bytes has \
           passed. A puller that comes late may catch up at most 10 ms. A RATE of 0 lets \
           nothing pass. A second output, where there is one, gives packets only while output \
           0 does not: what is more than the rate.",
    example: "InfiniteSource(LENGTH 1000) -> Queue -> BandwidthShaper(1Mbps) -> Unqueue \
              -> Discard",
    ..ENTRY.spec
});

/// A late puller may catch up the packets of this part of a second, or one packet.
const CATCH_UP: u64 = 100;

const TIMER: u32 = 0;

#[derive(Arguments, Handlers)]
struct Shaper<const BYTES: bool> {
    #[arg(
        required, name = "RATE", as = RateArg<BYTES>, via = bucket_of,
        doc = if BYTES { "most bytes a second" } else { "most packets a second" }
    )]
    #[handler(
        both, name = "rate",
        doc = if BYTES { "most bytes a second, with unit" } else { "most packets a second" },
        get = RateArg::<BYTES>(self.bucket.rate()), then = self.begin(cx)
    )]
    #[handler(write, name = "reset", "resets the bucket", run = {
        self.bucket = bucket(self.bucket.rate());
        self.begin(cx);
    })]
    bucket: TokenBucket,
    /// Whether the timer that wakes the puller is set.
    waking: bool,
    #[new(Batch::with_room())]
    one: Batch,
}

fn bucket_of<const BYTES: bool>(rate: RateArg<BYTES>) -> Result<TokenBucket, Infallible> {
    Ok(bucket(rate.0))
}

fn bucket(rate: u64) -> TokenBucket {
    let mut bucket = TokenBucket::fine(rate, (rate / CATCH_UP).max(2));
    // The first packet may go at once, but nothing is saved up for it.
    bucket.set_tokens(rate.min(1));
    bucket
}

impl<const BYTES: bool> Shaper<BYTES> {
    /// Lets a refused puller try again in time.
    fn wake_later(&mut self, cx: &mut Cx<'_>) {
        if let Some(at) = self.bucket.ready_at(1).filter(|_| !self.waking) {
            self.waking = true;
            cx.set_timer(TIMER, at.max(cx.now()));
        }
    }

    /// With a new bucket, a refused puller may try again at once.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        cx.clear_timer(TIMER);
        self.waking = false;
    }
}

impl<const BYTES: bool> Element for Shaper<BYTES> {
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize, batch: &mut Batch) {
        self.bucket.refill(cx.now());
        if port == 1 {
            if !self.bucket.holds(1) {
                cx.pull(0, max, batch);
            }
            return;
        }
        while batch.len() < max {
            if !self.bucket.holds(1) {
                self.wake_later(cx);
                return;
            }
            cx.pull(0, 1, &mut self.one);
            if self.one.is_empty() {
                return;
            }
            self.bucket.spend(if BYTES { self.one.bytes() } else { 1 });
            batch.extend(self.one.drain());
        }
    }

    fn timer(&mut self, _cx: &mut Cx<'_>, _token: u32) {
        self.waking = false;
    }
}
