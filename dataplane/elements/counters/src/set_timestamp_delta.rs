//! SetTimestampDelta: times since the first packet.

use std::sync::Arc;

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
};
use thruway_packet::Batch;
use thruway_sync::atomic::{AtomicU64, Ordering};

use thruway_elements_support::text::timestamp;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<SetTimestampDelta>(Spec {
    name: "SetTimestampDelta",
    topic: Topic::Counters,
    summary: "makes timestamps count from the first",
    docs: "Subtracts the first timestamp that it sees from all. Timestamps of zero are left \
           alone and do not count as the first. A thread counts from the first that it saw \
           itself.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> SetTimestamp -> SetTimestampDelta \
              -> Print(TIMESTAMP true) -> Discard",
    changes: Changes::Nothing,
    cost: &[Operation::Clock.once()],
    replicas: Replicas::Sharing("the time of the first packet"),
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
#[handler(
    read, name = "first", "the first timestamp, 0.000000 for none yet",
    get = timestamp(self.first.load(Ordering::Relaxed) as i64)
)]
#[handler(
    write, shared, name = "reset", "counts from the next timestamp",
    run = self.first.store(0, Ordering::Relaxed)
)]
struct SetTimestampDelta {
    /// That of all threads, as two's complement; 0 before there was one.
    #[new(args.shared("first", || AtomicU64::new(0)))]
    first: Arc<AtomicU64>,
}

impl SetTimestampDelta {
    /// The first timestamp; this one, if there was none.
    #[inline]
    fn first(&self, time: i64) -> i64 {
        // Relaxed: the word stands for itself.
        let none =
            self.first.compare_exchange(0, time as u64, Ordering::Relaxed, Ordering::Relaxed);
        none.map_or_else(|first| first as i64, |_| time)
    }
}

impl Element for SetTimestampDelta {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let mut first = self.first.load(Ordering::Relaxed) as i64;
        for packet in batch {
            let time = packet.timestamp();
            if time == 0 {
                continue;
            }
            if first == 0 {
                first = self.first(time);
            }
            packet.set_timestamp(time.saturating_sub(first));
        }
    }
}
