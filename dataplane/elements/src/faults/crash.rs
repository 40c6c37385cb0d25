//! Crash: a bug, made to order.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, NOTHING_MORE, Replicas, Spec, Topic, Ty,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Crash",
        topic: Topic::Faults,
        summary: "panics, as an element with a bug does",
        docs: "Passes packets on until AFTER of them have come in one thread; the next batch that \
               reaches it makes it panic. Its thread dies, and with it the run: all threads stop, \
               files are closed, interfaces are given back, and the program fails. It is for \
               seeing that they are.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> Crash(AFTER 10) -> Discard",
        args: &[Arg::optional("AFTER", Ty::UInt, "packets that it passes on before").or("0")],
        changes: Changes::Nothing,
        cost: NOTHING_MORE,
        replicas: Replicas::Apart("each counts the packets of its thread"),
        ..Spec::DEFAULT
    },
    build,
);

struct Crash {
    left: u64,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Crash { left: args.get("AFTER")? }))
}

impl Element for Crash {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        assert!(self.left > 0, "Crash does what it is for");
        self.left = self.left.saturating_sub(batch.len() as u64);
    }
}
