//! Crash: a bug, made to order.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, NOTHING_MORE, Replicas, Spec, Topic,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Crash>(Spec {
    name: "Crash",
    topic: Topic::Faults,
    summary: "panics, as an element with a bug does",
    docs: "Passes packets on until AFTER of them have come in one thread; the next batch that \
           reaches it makes it panic. Its thread dies, and with it the run: all threads stop, \
           files are closed, interfaces are given back, and the program fails. It is for \
           seeing that they are.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> Crash(AFTER 10) -> Discard",
    changes: Changes::Nothing,
    cost: NOTHING_MORE,
    replicas: Replicas::Apart("each counts the packets of its thread"),
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct Crash {
    /// packets that it passes on before
    #[arg(optional, name = "AFTER", or = "0")]
    left: u64,
}

impl Element for Crash {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        assert!(self.left > 0, "Crash does what it is for");
        self.left = self.left.saturating_sub(batch.len() as u64);
    }
}
