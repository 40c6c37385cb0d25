//! Unqueue: from pull to push.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Replicas, Run, Spec, Threading,
    Topic,
};
use thruway_packet::{Batch, MAX_BATCH};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Unqueue>(Spec {
    name: "Unqueue",
    topic: Topic::Queueing,
    summary: "pulls packets and pushes them on",
    docs: "Pulls up to BURST packets whenever it is scheduled and pushes them; a negative BURST \
           stands for all there are (at most 256 at a time), and 0 moves nothing. It sleeps \
           while nothing can be pulled. After LIMIT packets it stops moving until reset is \
           written or the limit raised.",
    example: "InfiniteSource(LIMIT 3) -> Queue -> Unqueue(LIMIT 3) -> Discard",
    processing: "l/h",
    threading: Threading::Task,
    changes: Changes::Nothing,
    cost: NOTHING_MORE,
    replicas: Replicas::Single,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
#[handler(sum, field = count, "packets moved")]
#[handler(both, field = active)]
#[handler(both, field = burst, "packets per scheduling")]
#[handler(both, field = limit)]
#[handler(
    write, name = "reset", "sets count to zero, so that LIMIT more may pass", run = self.count = 0
)]
#[handler(write, name = "reset_counts", "the same", run = self.count = 0)]
struct Unqueue {
    /// packets per scheduling; -1 for all there are
    #[arg(optional, or = "1")]
    burst: i32,
    /// whether it moves packets
    #[arg(keyword, or = "true")]
    active: bool,
    /// packets to move in all; -1 for no limit
    #[arg(keyword, as = i32, or = "-1")]
    limit: i64,
    count: u64,
    #[new(Batch::with_room())]
    batch: Batch,
}

impl Unqueue {
    /// Packets to move now.
    fn allowance(&self) -> usize {
        let burst = usize::try_from(self.burst).unwrap_or(MAX_BATCH).min(MAX_BATCH);
        match u64::try_from(self.limit) {
            Ok(limit) => burst.min(limit.saturating_sub(self.count) as usize),
            Err(_) => burst,
        }
    }
}

impl Element for Unqueue {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        let allowance = self.allowance();
        if !self.active || allowance == 0 {
            return Run::Idle;
        }
        cx.pull(0, allowance, &mut self.batch);
        if self.batch.is_empty() {
            return Run::Idle;
        }
        self.count += self.batch.len() as u64;
        cx.emit_all(0, &mut self.batch);
        Run::Again
    }
}
