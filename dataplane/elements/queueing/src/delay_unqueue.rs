//! DelayUnqueue: from pull to push, with a delay.

use thruway_element::{
    Arguments, Buffer, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Run, Spec,
    Threading, Topic,
};
use thruway_packet::MAX_BATCH;

use super::held::Held;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<DelayUnqueue>(Spec {
    name: "DelayUnqueue",
    topic: Topic::Queueing,
    summary: "pulls packets and pushes them on after a delay",
    docs: "Pulls packets and pushes each DELAY after the time in its timestamp, but not before \
           packets pulled earlier; a packet without timestamp counts from when it is pulled. \
           Packets leave with the time at which they were due as their timestamp. One packet at a \
           time is held here; the others wait where they are, usually in a Queue behind a \
           SetTimestamp.",
    example: "TimedSource(10ms, LIMIT 3) -> Queue -> DelayUnqueue(5ms) -> Discard",
    processing: "l/h",
    threading: Threading::Task,
    changes: Changes::Nothing,
    cost: &[Operation::Store.once(), Operation::Clock.once()],
    replicas: Replicas::Single,
    ..Spec::DEFAULT
})
.with_buffer::<DelayUnqueue>();

#[derive(Arguments, Handlers)]
struct DelayUnqueue {
    #[part]
    held: Held,
}

impl Element for DelayUnqueue {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        for _ in 0..MAX_BATCH {
            match self.held.due(cx) {
                None => return Run::Idle,
                Some(due) if due > cx.now() => return Run::At(due),
                Some(_) => self.held.take().into_iter().for_each(|packet| cx.emit(0, packet)),
            }
        }
        Run::Again
    }
}

impl Buffer for DelayUnqueue {
    fn holding(&self) -> usize {
        self.held.holding()
    }
}
