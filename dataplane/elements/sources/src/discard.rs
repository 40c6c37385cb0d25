//! Discard: a sink.

use std::convert::Infallible;

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Purpose, Replicas, Run, Spec,
    Threading, Topic,
};
use thruway_packet::{Batch, MAX_BATCH};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Discard>(Spec {
    name: "Discard",
    topic: Topic::Sources,
    summary: "drops all packets",
    docs: "Frees every packet that is pushed into it, or that it pulls.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> Discard",
    ports: "1/0",
    processing: "a/",
    threading: Threading::PullTask,
    changes: Changes::Nothing,
    cost: NOTHING_MORE,
    replicas: Replicas::Alike,
    purpose: Purpose::Discard,
    large_packets: true,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
#[handler(sum, field = count, "packets discarded")]
#[handler(both, field = active, "whether it pulls")]
#[handler(write, name = "reset_counts", "sets count to zero", run = self.count = 0)]
struct Discard {
    /// whether it pulls (pull input only)
    #[arg(keyword, or = "true")]
    active: bool,
    /// packets to pull at once; 0 for all (pull input only)
    #[arg(keyword, or = "1", as = u32, via = burst_of)]
    burst: usize,
    count: u64,
    #[new(Batch::new())]
    batch: Batch,
}

fn burst_of(burst: u32) -> Result<usize, Infallible> {
    Ok(if burst == 0 { MAX_BATCH } else { MAX_BATCH.min(burst as usize) })
}

impl Element for Discard {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if !self.active && !cx.is_pull_input(0) {
            return Err("ACTIVE is meaningless where packets are pushed; leave it out".into());
        }
        Ok(())
    }

    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        self.count += batch.len() as u64;
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !self.active || !cx.is_pull_input(0) {
            return Run::Idle;
        }
        cx.pull(0, self.burst, &mut self.batch);
        if self.batch.is_empty() {
            return Run::Idle;
        }
        self.count += self.batch.len() as u64;
        self.batch.clear();
        Run::Again
    }
}
