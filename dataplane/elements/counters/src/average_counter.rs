//! AverageCounter: packets and rates over the whole time that packets came.

use thruway_element::{
    Alias, Arguments, Changes, Cx, Element, Entry, Handlers, Nanos, Operation, Replicas, Spec,
    Topic,
};
use thruway_packet::Batch;

use thruway_elements_support::text::general;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<AverageCounter>(Spec {
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
    changes: Changes::Nothing,
    cost: &[Operation::Count.once()],
    replicas: Replicas::Apart(
        "each counts from the first packet of its thread; counts and rates add up, time is \
         that of the first thread",
    ),
    large_packets: true,
    ..Spec::DEFAULT
});

/// Nanoseconds in a tick.
const TICK: i64 = 1_000_000;
/// Ticks in a second.
const TICKS: f64 = 1_000.0;

#[derive(Arguments, Handlers)]
#[handler(sum, field = count, "packets")]
#[handler(sum, name = "byte_count", "bytes", get = self.bytes)]
#[handler(sum, name = "bit_count", "bits", get = self.bits())]
#[handler(sum, name = "rate", "packets a second", get = self.rate(self.count))]
#[handler(sum, name = "byte_rate", "bytes a second", get = self.rate(self.bytes))]
#[handler(sum, name = "bit_rate", "bits a second", get = self.rate(self.bits()))]
#[handler(
    read, name = "time", "seconds from the first to the last packet, less IGNORE",
    get = general(self.ticks() / TICKS, 12)
)]
#[handler(
    write, name = "reset", "sets counts and times to zero",
    run = (self.first, self.last, self.count, self.bytes) = (None, 0, 0, 0)
)]
struct AverageCounter {
    /// time at the start that does not count
    #[arg(optional, or = "0", via = in_ticks)]
    ignore: i64,
    first: Option<i64>,
    last: i64,
    count: u64,
    bytes: u64,
}

fn in_ticks(time: Nanos) -> Result<i64, &'static str> {
    Ok(time.not_negative()? / TICK)
}

impl AverageCounter {
    /// Ticks that the counts are divided by.
    fn ticks(&self) -> f64 {
        let first = self.first.unwrap_or(self.last);
        self.last.saturating_sub(first).saturating_sub(self.ignore).max(1) as f64
    }

    fn bits(&self) -> u64 {
        self.bytes.saturating_mul(8)
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
