//! TimedSink: pulls and drops a packet at every interval.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Nanos, Replicas, Spec, Topic,
};
use thruway_packet::Batch;

use thruway_elements_support::text::interval;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<TimedSink>(Spec {
    name: "TimedSink",
    topic: Topic::Sources,
    summary: "pulls and drops a packet at every interval",
    docs: "Pulls one packet every INTERVAL, the first after one INTERVAL, and frees it.",
    example: "InfiniteSource -> Queue -> TimedSink(10ms)",
    ports: "1/0",
    processing: "l/",
    changes: Changes::Nothing,
    cost: NOTHING_MORE,
    replicas: Replicas::Single,
    ..Spec::DEFAULT
});

/// Timer: time to pull.
const DUE: u32 = 0;
/// Nothing is pulled more often than a thousand times a millisecond.
const INTERVAL_MIN: i64 = 1_000;

#[derive(Arguments, Handlers)]
struct TimedSink {
    /// time between packets
    #[arg(optional, or = "0.5", via = in_range)]
    #[handler(both, get = interval(self.interval))]
    interval: i64,
    /// packets dropped
    #[handler(sum)]
    count: u64,
    due: i64,
    #[new(Batch::with_room())]
    one: Batch,
}

fn in_range(Nanos(ns): Nanos) -> Result<i64, &'static str> {
    if ns < INTERVAL_MIN { Err("must be at least 1us") } else { Ok(ns) }
}

impl Element for TimedSink {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.due = cx.now().saturating_add(self.interval);
        cx.set_timer(DUE, self.due);
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        cx.pull(0, 1, &mut self.one);
        self.count += self.one.len() as u64;
        self.one.clear();
        // From when it was due, so that lateness does not add up; unless it is late by more.
        self.due = self.due.saturating_add(self.interval).max(cx.now());
        cx.set_timer(DUE, self.due);
    }
}
