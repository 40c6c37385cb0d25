//! AverageCounter: packets and rates over the whole time that packets came.

use thruway_element::{
    Alias, Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Handlers,
    Nanos, Operation, Replicas, Spec, Topic, Ty,
};
use thruway_packet::Batch;

use thruway_elements_support::text::general;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "AverageCounter",
        aliases: &[Alias {
            name: "AverageCounterMP",
            summary: "the same: each thread counts for itself and handlers add up",
        }],
        topic: Topic::Counters,
        summary: "measures the average rate since the first packet",
        docs: "Passes packets on unchanged and counts those that come IGNORE seconds or more after \
               the first. The rates are the counts over the time from the first packet to the last, \
               less IGNORE; time is taken in milliseconds, and is at least one.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> c :: AverageCounter -> Discard",
        straight: true,
        args: &[Arg::optional("IGNORE", Ty::Time, "time at the start that does not count").or("0")],
        handlers: &[
            Handler::sum("count", "packets"),
            Handler::sum("byte_count", "bytes"),
            Handler::sum("bit_count", "bits"),
            Handler::sum("rate", "packets a second"),
            Handler::sum("byte_rate", "bytes a second"),
            Handler::sum("bit_rate", "bits a second"),
            Handler::read("time", "seconds from the first to the last packet, less IGNORE"),
            Handler::write("reset", "sets counts and times to zero"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Count.once()],
        replicas: Replicas::Apart(
            "each counts from the first packet of its thread; counts and rates add up, time is \
             that of the first thread",
        ),
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<AverageCounter>();

/// Nanoseconds in a tick.
const TICK: i64 = 1_000_000;
/// Ticks in a second.
const TICKS: f64 = 1_000.0;

struct AverageCounter {
    /// In ticks.
    ignore: i64,
    first: Option<i64>,
    last: i64,
    count: u64,
    bytes: u64,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let Nanos(ignore) = args.get("IGNORE")?;
    if ignore < 0 {
        return Err(args.error("IGNORE", "must not be negative").into());
    }
    let ignore = ignore / TICK;
    Ok(Box::new(AverageCounter { ignore, first: None, last: 0, count: 0, bytes: 0 }))
}

impl AverageCounter {
    /// Ticks that the counts are divided by.
    fn ticks(&self) -> f64 {
        let first = self.first.unwrap_or(self.last);
        self.last.saturating_sub(first).saturating_sub(self.ignore).max(1) as f64
    }

    fn rate(&self, count: u64) -> String {
        general(count as f64 * TICKS / self.ticks(), 12)
    }
}

impl Element for AverageCounter {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let tick = cx.now().div_euclid(TICK);
        let first = *self.first.get_or_insert(tick);
        if tick.saturating_sub(first) >= self.ignore {
            self.count += batch.len() as u64;
            self.bytes += batch.bytes();
        }
        self.last = tick;
    }
}

impl Handlers for AverageCounter {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        let bits = self.bytes.saturating_mul(8);
        match name {
            "count" => Ok(self.count.to_string()),
            "byte_count" => Ok(self.bytes.to_string()),
            "bit_count" => Ok(bits.to_string()),
            "rate" => Ok(self.rate(self.count)),
            "byte_rate" => Ok(self.rate(self.bytes)),
            "bit_rate" => Ok(self.rate(bits)),
            "time" => Ok(general(self.ticks() / TICKS, 12)),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _value: &str,
    ) -> Result<(), HandlerError> {
        if name != "reset" {
            return Err(HandlerError::no_write(name));
        }
        (self.first, self.last, self.count, self.bytes) = (None, 0, 0, 0);
        Ok(())
    }
}
