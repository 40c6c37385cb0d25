//! TimestampAccum: adds up how old packets are.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
};
use thruway_packet::Batch;

use thruway_elements_support::text::general;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<TimestampAccum>(Spec {
    name: "TimestampAccum",
    topic: Topic::Counters,
    summary: "adds up the time since packets' timestamps",
    docs: "Measures how long ago each packet's timestamp is when the packet passes, and adds \
           these times up. The present is read once a round, not for each packet.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> SetTimestamp -> a :: TimestampAccum \
              -> Discard",
    changes: Changes::Nothing,
    cost: &[Operation::Clock.once()],
    replicas: Replicas::Apart(
        "counts and times add up; each shows its average, shortest and longest in a line of \
         its own",
    ),
    ..Spec::DEFAULT
});

#[derive(Debug, Default, Arguments, Handlers)]
#[handler(sum, field = count, "packets")]
#[handler(sum, name = "time", "the sum of all times, seconds", get = seconds(self.sum as f64))]
#[handler(
    read, lines, name = "average_time", "time by count",
    get = seconds(self.sum as f64 / self.count as f64)
)]
#[handler(
    read, lines, name = "min", "the shortest, seconds", get = seconds(self.min.unwrap_or(0) as f64)
)]
#[handler(
    read, lines, name = "max", "the longest, seconds", get = seconds(self.max.unwrap_or(0) as f64)
)]
#[handler(
    write, name = "reset_counts", "forgets all packets", run = *self = TimestampAccum::default()
)]
struct TimestampAccum {
    count: u64,
    sum: i128,
    min: Option<i64>,
    max: Option<i64>,
}

/// Nanoseconds as seconds, as Click prints real numbers.
fn seconds(ns: f64) -> String {
    general(ns / 1e9, 12)
}

impl TimestampAccum {
    fn see(&mut self, ns: i64) {
        self.count += 1;
        self.sum += i128::from(ns);
        self.min = Some(self.min.map_or(ns, |min| min.min(ns)));
        self.max = Some(self.max.map_or(ns, |max| max.max(ns)));
    }
}

impl Element for TimestampAccum {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.iter() {
            self.see(cx.now().saturating_sub(packet.timestamp()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_add_up() {
        let mut accum = TimestampAccum::default();
        for ns in [1_000_000_000, -500_000_000, i64::MAX] {
            accum.see(ns);
        }
        assert_eq!((accum.count, accum.min), (3, Some(-500_000_000)));
        assert_eq!((accum.sum, accum.max), (i128::from(i64::MAX) + 500_000_000, Some(i64::MAX)));
    }
}
