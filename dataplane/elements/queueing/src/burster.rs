//! Burster: from pull to push, so many packets each interval.

use thruway_element::{
    Alias, Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Nanos,
    Replicas, Run, Spec, Threading, Topic, Ty,
};
use thruway_packet::{Batch, MAX_BATCH};

use thruway_elements_support::text::interval;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<Burster>(
    Spec {
        name: "Burster",
        aliases: &[Alias { name: "TimedUnqueue", summary: "the same, but BURST is 1 by default" }],
        topic: Topic::Queueing,
        summary: "pulls packets at intervals and pushes them on",
        docs: "Pulls up to BURST packets, pushes them on, and waits for INTERVAL before it does so \
               again. When there are none, it waits until some come.",
        example: "InfiniteSource -> Queue -> Burster(10ms, 3) -> Discard",
        processing: "l/h",
        args: &[
            Arg::required("INTERVAL", Ty::Time, "time between bursts, at least 1us"),
            Arg::optional("BURST", Ty::UInt, "packets in a burst, 1 to 65536; 8 if not given"),
        ],
        threading: Threading::Task,
        changes: Changes::Nothing,
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
);

/// Shortest INTERVAL, nanoseconds.
const INTERVAL_MIN: i64 = 1_000;
/// Largest BURST: it is moved in one go.
const BURST_MAX: usize = 1 << 16;

#[derive(Handlers)]
#[handler(read, name = "interval", "time between bursts", get = interval(self.interval))]
struct Burster {
    interval: i64,
    /// packets in a burst
    #[handler(read)]
    burst: usize,
    /// packets moved
    #[handler(sum)]
    count: u64,
    batch: Batch,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let Nanos(interval) = args.get("INTERVAL")?;
    if interval < INTERVAL_MIN {
        return Err(args.error("INTERVAL", "must be at least 1us").into());
    }
    let usual = if args.class() == "TimedUnqueue" { 1 } else { 8 };
    let burst = args.opt("BURST")?.unwrap_or(usual);
    if !(1..=BURST_MAX).contains(&burst) {
        return Err(args.error("BURST", format!("must be from 1 to {BURST_MAX}")).into());
    }
    Ok(Box::new(Burster { interval, burst, count: 0, batch: Batch::with_room() }))
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
