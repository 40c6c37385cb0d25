//! Burster: from pull to push, so many packets each interval.

use thruway_element::{
    Alias, Arguments, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Nanos, Replicas, Run,
    Spec, Threading, Topic,
};
use thruway_packet::{Batch, MAX_BATCH};

use thruway_elements_support::text::interval;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Burster>(Spec {
    name: "Burster",
    aliases: &[Alias { name: "TimedUnqueue", summary: "the same, but BURST is 1 by default" }],
    topic: Topic::Queueing,
    summary: "pulls packets at intervals and pushes them on",
    docs: "Pulls up to BURST packets, pushes them on, and waits for INTERVAL before it does so \
           again. When there are none, it waits until some come.",
    example: "InfiniteSource -> Queue -> Burster(10ms, 3) -> Discard",
    processing: "l/h",
    threading: Threading::Task,
    changes: Changes::Nothing,
    cost: NOTHING_MORE,
    replicas: Replicas::Single,
    ..Spec::DEFAULT
});

/// Shortest INTERVAL, nanoseconds.
const INTERVAL_MIN: i64 = 1_000;
/// Largest BURST: it is moved in one go.
const BURST_MAX: usize = 1 << 16;

#[derive(Arguments, Handlers)]
struct Burster {
    /// time between bursts, at least 1us
    #[arg(required, via = interval_of)]
    #[handler(read, "time between bursts", get = interval(self.interval))]
    interval: i64,
    #[arg(
        optional, range = 1..=BURST_MAX, else = if args.class() == "TimedUnqueue" { 1 } else { 8 },
        "packets in a burst, 1 to 65536; 8 if not given"
    )]
    #[handler(read, "packets in a burst")]
    burst: usize,
    /// packets moved
    #[handler(sum)]
    count: u64,
    #[new(Batch::with_room())]
    batch: Batch,
}

fn interval_of(Nanos(ns): Nanos) -> Result<i64, &'static str> {
    if ns < INTERVAL_MIN { Err("must be at least 1us") } else { Ok(ns) }
}

impl Element for Burster {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        let mut moved = 0;
        while moved < self.burst {
            cx.pull(0, (self.burst - moved).min(MAX_BATCH), &mut self.batch);
            if self.batch.is_empty() {
                break;
            }
            moved += self.batch.len();
            cx.emit_all(0, &mut self.batch);
        }
        self.count += moved as u64;
        match moved {
            0 => Run::Idle,
            _ => Run::At(cx.now().saturating_add(self.interval)),
        }
    }
}
