//! DelayShaper: packets can be pulled after a delay.

use thruway_element::{
    Arguments, Buffer, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
};
use thruway_packet::Batch;

use super::held::Held;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<DelayShaper>(Spec {
    name: "DelayShaper",
    topic: Topic::Queueing,
    summary: "lets packets be pulled after a delay",
    docs: "Packets can be pulled DELAY after the time in their timestamp, but not before those \
           that came earlier; a packet without timestamp counts from when it was first asked for. \
           Packets leave with the present time as their timestamp. One packet at a time is held \
           here; the others wait where they are, usually in a Queue behind a SetTimestamp.",
    example: "TimedSource(10ms, LIMIT 3) -> Queue -> DelayShaper(5ms) -> Unqueue -> Discard",
    processing: "l/l",
    changes: Changes::Nothing,
    cost: &[Operation::Store.once(), Operation::Clock.once()],
    replicas: Replicas::OneThread("it holds the packet that may go next"),
    ..Spec::DEFAULT
})
.with_buffer::<DelayShaper>();

const TIMER: u32 = 0;

#[derive(Arguments, Handlers)]
struct DelayShaper {
    #[part]
    held: Held,
    /// Whether the timer that wakes the puller is set.
    waking: bool,
}

impl Element for DelayShaper {
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        while batch.len() < max {
            match self.held.due(cx) {
                None => return,
                Some(due) if due > cx.now() => {
                    if !std::mem::replace(&mut self.waking, true) {
                        cx.set_timer(TIMER, due);
                    }
                    return;
                }
                Some(_) => batch.extend(self.held.take()),
            }
            if let Some(last) = batch.iter_mut().last() {
                last.set_timestamp(cx.now());
            }
        }
    }

    fn timer(&mut self, _cx: &mut Cx<'_>, _token: u32) {
        self.waking = false;
    }
}

impl Buffer for DelayShaper {
    fn holding(&self) -> usize {
        self.held.holding()
    }
}
