//! TimedSink: pulls and drops a packet at every interval.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, HandlerError, Handlers, NOTHING_MORE, Nanos,
    Replicas, Spec, Topic, Ty, handler_value,
};
use thruway_packet::Batch;

use thruway_elements_support::text::interval;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<TimedSink>(
    Spec {
        name: "TimedSink",
        topic: Topic::Sources,
        summary: "pulls and drops a packet at every interval",
        docs: "Pulls one packet every INTERVAL, the first after one INTERVAL, and frees it.",
        example: "InfiniteSource -> Queue -> TimedSink(10ms)",
        ports: "1/0",
        processing: "l/",
        args: &[Arg::optional("INTERVAL", Ty::Time, "time between packets").or("0.5")],
        changes: Changes::Nothing,
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
);

/// Timer: time to pull.
const DUE: u32 = 0;
/// Nothing is pulled more often than a thousand times a millisecond.
const INTERVAL_MIN: i64 = 1_000;

#[derive(Handlers)]
#[handler(
    both, name = "interval", "time between packets", get = interval(self.interval),
    write = self.write_interval(name, value)
)]
#[handler(sum, field = count, "packets dropped")]
struct TimedSink {
    interval: i64,
    count: u64,
    due: i64,
    one: Batch,
}

fn in_range(Nanos(ns): Nanos) -> Result<i64, &'static str> {
    if ns < INTERVAL_MIN { Err("must be at least 1us") } else { Ok(ns) }
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let interval = in_range(args.get("INTERVAL")?).map_err(|why| args.error("INTERVAL", why))?;
    Ok(Box::new(TimedSink { interval, count: 0, due: 0, one: Batch::with_room() }))
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

impl TimedSink {
    fn write_interval(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let refused = |why| HandlerError::refused(format!("{name}: {why}"));
        self.interval = in_range(handler_value(name, value)?).map_err(refused)?;
        Ok(())
    }
}
