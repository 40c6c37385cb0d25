//! Shaper: lets no more be pulled than a rate allows.

use thruway_element::{
    Arg, ArgErrors, Args, Bandwidth, Changes, Cx, Element, Entry, Handler, HandlerError, Handlers,
    Operation, Replicas, Spec, Topic, Ty, handler_value,
};
use thruway_packet::Batch;

use thruway_elements_support::rate::{TokenBucket, bandwidth_text};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Shaper",
        topic: Topic::Queueing,
        summary: "shapes what is pulled to a maximum rate in packets",
        docs: "Passes pulls on as long as packets keep to RATE, and has nothing to give otherwise; \
               packets stay where they are meanwhile, usually in a Queue. Packets are spaced \
               evenly; a puller that comes late may catch up at most 10 ms, or one packet. A RATE of 0 lets \
               nothing pass. A second output, where there is one, gives packets only while output \
               0 does not: what is more than the rate.",
        example: "InfiniteSource -> Queue -> Shaper(1000) -> Unqueue -> Discard",
        ports: "1/1-2",
        processing: "l/l",
        args: &[Arg::required("RATE", Ty::UInt, "most packets a second")],
        handlers: &[
            Handler::both("rate", "most packets a second"),
            Handler::write("reset", "forgets what was owed or saved up"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Visit.once()],
        replicas: Replicas::OneThread("its outputs keep to one rate"),
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<Shaper>();

/// See the spec.
pub static BANDWIDTH: Entry = Entry::new(
    Spec {
        name: "BandwidthShaper",
        summary: "shapes what is pulled to a maximum rate in bytes",
        docs: "Passes pulls on as long as the packets' bytes keep to RATE, and has nothing to give \
               otherwise; packets stay where they are meanwhile, usually in a Queue. Packets are \
               spaced evenly: after a packet, the next is given when the time for its bytes has \
               passed. A puller that comes late may catch up at most 10 ms. A RATE of 0 lets \
               nothing pass. A second output, where there is one, gives packets only while output \
               0 does not: what is more than the rate.",
        example: "InfiniteSource(LENGTH 1000) -> Queue -> BandwidthShaper(1Mbps) -> Unqueue \
                  -> Discard",
        args: &[Arg::required("RATE", Ty::Bandwidth, "most bytes a second")],
        handlers: &[
            Handler::both("rate", "most bytes a second, with unit"),
            Handler::write("reset", "forgets what was owed or saved up"),
        ],
        ..ENTRY.spec
    },
    build,
)
.with_handlers::<Shaper>();

/// A late puller may catch up what comes in this part of a second, or one packet.
const CATCH_UP: u64 = 100;

const TIMER: u32 = 0;

struct Shaper {
    bucket: TokenBucket,
    /// Whether bytes are counted rather than packets.
    bytes: bool,
    /// Whether the timer that wakes the puller is set.
    waking: bool,
    one: Batch,
}

fn bucket(rate: u64) -> TokenBucket {
    let mut bucket = TokenBucket::fine(rate, (rate / CATCH_UP).max(2));
    // The first packet may go at once, but nothing is saved up for it.
    bucket.set_tokens(rate.min(1));
    bucket
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let bytes = args.class() == "BandwidthShaper";
    let rate =
        if bytes { args.get::<Bandwidth>("RATE")?.0 } else { args.get::<u32>("RATE")?.into() };
    Ok(Box::new(Shaper { bucket: bucket(rate), bytes, waking: false, one: Batch::with_room() }))
}

impl Shaper {
    /// Lets whoever was refused try again in time.
    fn wake_later(&mut self, cx: &mut Cx<'_>) {
        if let Some(at) = self.bucket.ready_at(1).filter(|_| !self.waking) {
            self.waking = true;
            cx.set_timer(TIMER, at.max(cx.now()));
        }
    }

    fn parse_rate(&self, name: &str, value: &str) -> Result<u64, HandlerError> {
        if self.bytes {
            Ok(handler_value::<Bandwidth>(name, value)?.0)
        } else {
            Ok(handler_value::<u32>(name, value)?.into())
        }
    }
}

impl Element for Shaper {
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
            self.bucket.spend(if self.bytes { self.one.bytes() } else { 1 });
            batch.extend(self.one.drain());
        }
    }

    fn timer(&mut self, _cx: &mut Cx<'_>, _token: u32) {
        self.waking = false;
    }
}

impl Handlers for Shaper {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "rate" if self.bytes => Ok(bandwidth_text(self.bucket.rate())),
            "rate" => Ok(self.bucket.rate().to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let rate = match name {
            "rate" => self.parse_rate(name, value)?,
            "reset" => self.bucket.rate(),
            _ => return Err(HandlerError::no_write(name)),
        };
        self.bucket = bucket(rate);
        cx.clear_timer(TIMER);
        self.waking = false;
        Ok(())
    }
}
