//! BandwidthShaper: lets no more bytes be pulled than a rate allows.

use thruway_element::{
    Arg, ArgErrors, Args, Bandwidth, Cx, Element, Entry, Handler, HandlerError, Spec, Topic, Ty,
    handler_value,
};
use thruway_packet::Batch;

use crate::rate::{TokenBucket, bandwidth_text};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "BandwidthShaper",
        topic: Topic::Moving,
        summary: "shapes what is pulled to a maximum rate in bytes",
        docs: "Passes pulls on as long as the packets' bytes keep to RATE, and has nothing to give \
               otherwise; packets stay where they are meanwhile, usually in a Queue. Packets are \
               spaced evenly: after a packet, the next is given when the time for its bytes has \
               passed. A puller that comes late may catch up at most 10 ms. A RATE of 0 lets \
               nothing pass.",
        example: "InfiniteSource(LENGTH 1000) -> Queue -> BandwidthShaper(1Mbps) -> Unqueue \
                  -> Discard",
        processing: "l/l",
        args: &[Arg::required("RATE", Ty::Bandwidth, "most bytes a second")],
        handlers: &[
            Handler::both("rate", "most bytes a second, with unit"),
            Handler::write("reset", "forgets what was owed or saved up"),
        ],
        ..Spec::DEFAULT
    },
    build,
);

/// A late puller may catch up the bytes of this part of a second.
const CATCH_UP: u64 = 100;

const TIMER: u32 = 0;

struct BandwidthShaper {
    bucket: TokenBucket,
    /// Whether the timer that wakes the puller is set.
    waking: bool,
    one: Batch,
}

fn bucket(rate: u64) -> TokenBucket {
    let mut bucket = TokenBucket::fine(rate, (rate / CATCH_UP).max(1));
    // The first packet may go at once, but nothing is saved up for it.
    bucket.set_tokens(rate.min(1));
    bucket
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let Bandwidth(rate) = args.get("RATE")?;
    Ok(Box::new(BandwidthShaper { bucket: bucket(rate), waking: false, one: Batch::with_room() }))
}

impl BandwidthShaper {
    /// Lets whoever was refused try again in time.
    fn wake_later(&mut self, cx: &mut Cx<'_>) {
        if let Some(at) = self.bucket.ready_at(1).filter(|_| !self.waking) {
            self.waking = true;
            cx.set_timer(TIMER, at.max(cx.now()));
        }
    }
}

impl Element for BandwidthShaper {
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        self.bucket.refill(cx.now());
        while batch.len() < max {
            if !self.bucket.holds(1) {
                self.wake_later(cx);
                return;
            }
            cx.pull(0, 1, &mut self.one);
            let bytes = self.one.bytes();
            if self.one.is_empty() {
                return;
            }
            self.bucket.spend(bytes);
            batch.extend(self.one.drain());
        }
    }

    fn timer(&mut self, _cx: &mut Cx<'_>, _token: u32) {
        self.waking = false;
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "rate" => Ok(bandwidth_text(self.bucket.rate())),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let rate = match name {
            "rate" => handler_value::<Bandwidth>(name, value)?.0,
            "reset" => self.bucket.rate(),
            _ => return Err(HandlerError::no_write(name)),
        };
        self.bucket = bucket(rate);
        cx.clear_timer(TIMER);
        self.waking = false;
        Ok(())
    }
}
