//! Unqueue2: from pull to push, as far as there is room.

use std::convert::Infallible;

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Replicas, Run, Spec, Threading,
    Topic,
};
use thruway_packet::{Batch, MAX_BATCH};

use super::red::{QUEUES, find_stores, names_of};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Unqueue2>(Spec {
    name: "Unqueue2",
    topic: Topic::Queueing,
    summary: "pulls packets and pushes them on while there is room for them",
    docs: "Pulls up to BURST packets whenever it is scheduled (0 for all there are, at most 256 \
           at a time) and pushes them, but no more than the fullest of the nearest queues \
           downstream, or of those that QUEUES names, has room for.",
    example: "InfiniteSource -> Queue -> Unqueue2 -> Queue(5) -> Shaper(10) -> Unqueue \
              -> Discard",
    processing: "l/h",
    threading: Threading::Task,
    changes: Changes::Nothing,
    cost: NOTHING_MORE,
    replicas: Replicas::Single,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct Unqueue2 {
    /// packets per scheduling; 0 for all there are
    #[arg(optional, or = "1", as = u32, via = burst_of)]
    burst: usize,
    /// The elements of QUEUES, if given.
    #[arg(like = QUEUES)]
    #[new(names_of(args))]
    named: Option<Vec<String>>,
    queues: Vec<u32>,
    /// packets moved
    #[handler(sum)]
    count: u64,
    #[new(Batch::with_room())]
    batch: Batch,
}

fn burst_of(burst: u32) -> Result<usize, Infallible> {
    Ok(if burst == 0 { MAX_BATCH } else { MAX_BATCH.min(burst as usize) })
}

impl Element for Unqueue2 {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.queues = match &self.named {
            Some(names) => find_stores(cx, names)?,
            None => cx.neighbours().nearest_stores_downstream(),
        };
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        let stores = self.queues.iter().filter_map(|queue| cx.neighbours().storage(*queue));
        let room = stores.map(|store| store.capacity.saturating_sub(store.len)).min();
        let burst = self.burst.min(room.unwrap_or(usize::MAX));
        if burst == 0 {
            return Run::Idle;
        }
        cx.pull(0, burst, &mut self.batch);
        if self.batch.is_empty() {
            return Run::Idle;
        }
        self.count += self.batch.len() as u64;
        cx.emit_all(0, &mut self.batch);
        Run::Again
    }
}
