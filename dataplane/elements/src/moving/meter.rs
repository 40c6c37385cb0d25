//! Meter: sends the stream where its rate says.

use thruway_element::{
    Arg, ArgErrors, Args, Bandwidth, Changes, Cx, Element, Entry, Handler, HandlerError, Operation,
    Spec, Topic, Ty,
};
use thruway_packet::Batch;

use crate::seeing::ewma::Rate;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Meter",
        topic: Topic::Moving,
        summary: "sends packets to outputs by the rate at which they come",
        docs: "Measures the rate of packets, an exponentially weighted moving average as Counter's, \
               and sends all packets to one output: to output 0 while the rate is below the first \
               RATE, to output 1 while it is below the second, and so on; to the last output while \
               it has reached the last RATE. RATEs must grow, and there is one output more than \
               RATEs.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> m :: Meter(10000) -> Discard;\n\
                  m[1] -> Print(fast) -> Discard",
        ports: "1/2-",
        processing: "h/h",
        args: &[Arg::rest("RATE", Ty::UInt, "packets a second, one argument for each bound")],
        handlers: &[
            Handler::sum("rate", "packets a second, lately"),
            Handler::read("meters", "the bounds, a line each"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Count.once(), Operation::Sort.once()],
        ..Spec::DEFAULT
    },
    build,
);

/// See the spec.
pub static BANDWIDTH: Entry = Entry::new(
    Spec {
        name: "BandwidthMeter",
        summary: "sends packets to outputs by the rate at which their bytes come",
        docs: "A Meter that measures bytes a second: packets go to output 0 while the rate is below \
               the first RATE, to output 1 while it is below the second, and so on. RATEs must \
               grow, and there is one output more than RATEs.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> m :: BandwidthMeter(20kBps) -> Discard;\n\
                  m[1] -> Print(fast) -> Discard",
        args: &[Arg::rest("RATE", Ty::Bandwidth, "bytes a second, one argument for each bound")],
        handlers: &[
            Handler::sum("rate", "bytes a second, lately"),
            Handler::read("meters", "the bounds, a line each"),
        ],
        ..ENTRY.spec
    },
    build,
);

/// Bits of fraction of the rate.
const SCALE: u32 = 10;
/// Highest bound: what the average, 64 bits with its fraction, can show.
const RATE_MAX: u64 = 1 << 42;

struct Meter {
    rate: Rate,
    bounds: Vec<u64>,
    bytes: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let bytes = args.class() == "BandwidthMeter";
    let (rates, outputs) = (args.rest().len(), args.env().outputs);
    if rates == 0 {
        return Err(ArgErrors::whole("missing argument RATE: give a rate for each bound"));
    }
    if outputs != rates + 1 {
        let message = format!("{rates} rates need {} outputs, {outputs} are used", rates + 1);
        return Err(ArgErrors::whole(message));
    }
    let mut bounds: Vec<u64> = Vec::with_capacity(rates);
    for (index, text) in args.rest() {
        let wrong = |why: String| args.rest_error(index, format!("RATE: {why}"));
        let parsed = if bytes {
            args.parse::<Bandwidth>(text).map(|Bandwidth(rate)| rate)
        } else {
            args.parse::<u32>(text).map(u64::from)
        };
        let rate = parsed.map_err(wrong)?;
        if rate > RATE_MAX {
            return Err(wrong(format!("{text} is too large; at most {RATE_MAX} a second")).into());
        }
        if bounds.last().is_some_and(|last| *last >= rate) {
            return Err(wrong(format!("{text} is not above the rate before it")).into());
        }
        bounds.push(rate);
    }
    Ok(Box::new(Meter { rate: Rate::new(SCALE), bounds, bytes }))
}

impl Element for Meter {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let events = if self.bytes { batch.bytes() } else { batch.len() as u64 };
        self.rate.update(cx.now(), events);
        // The average moves between milliseconds only: it is the same for the whole batch.
        let output = self.bounds.iter().filter(|bound| self.rate.reaches(**bound)).count();
        if output > 0 {
            cx.emit_all(output, batch);
        }
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "rate" => Ok(self.rate.unparse(cx.now(), 1)),
            "meters" => Ok(self.bounds.iter().map(|bound| format!("{bound}\n")).collect()),
            _ => Err(HandlerError::no_read(name)),
        }
    }
}
