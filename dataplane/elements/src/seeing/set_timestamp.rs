//! SetTimestamp: notes the time on packets.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Nanos, Operation, Replicas, Spec, Topic, Ty,
};
use thruway_packet::{Anno, Batch};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "SetTimestamp",
        topic: Topic::Seeing,
        summary: "sets the timestamp of packets",
        docs: "Sets each packet's timestamp to TIMESTAMP, seconds since 1970, or to the present time. \
               With FIRST, it is the annotation of the first timestamp that is set; it has room \
               where an IPv6 destination annotation would be.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> SetTimestamp -> Print(TIMESTAMP true) \
                  -> Discard",
        straight: true,
        args: &[
            Arg::optional("TIMESTAMP", Ty::Time, "the time; the present if not given"),
            Arg::keyword("FIRST", Ty::Bool, "whether the first timestamp is set").or("false"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Clock.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

struct SetTimestamp {
    time: Option<i64>,
    first: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let time = args.opt("TIMESTAMP")?.map(|Nanos(ns)| ns);
    Ok(Box::new(SetTimestamp { time, first: args.get("FIRST")? }))
}

impl Element for SetTimestamp {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let time = self.time.unwrap_or(cx.now());
        for packet in batch {
            if self.first {
                packet.anno_mut(Anno::FIRST_TIMESTAMP).copy_from_slice(&time.to_ne_bytes());
            } else {
                packet.set_timestamp(time);
            }
        }
    }
}
