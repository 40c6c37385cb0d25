//! SetTimestamp: notes the time on packets.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Nanos, Operation, Replicas, Spec, Topic, Ty,
};
use thruway_packet::{Anno, Batch};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<SetTimestamp>(Spec {
    name: "SetTimestamp",
    topic: Topic::Counters,
    summary: "sets the timestamp of packets",
    docs: "Sets each packet's timestamp to TIMESTAMP, seconds since 1970, or to the present time. \
           With FIRST, it is the annotation of the first timestamp that is set; it has room \
           where an IPv6 destination annotation would be.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> SetTimestamp -> Print(TIMESTAMP true) \
              -> Discard",
    straight: true,
    changes: Changes::Nothing,
    cost: &[Operation::Clock.once()],
    replicas: Replicas::Alike,
    large_packets: true,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct SetTimestamp {
    /// the time; the present if not given
    #[arg(optional, name = "TIMESTAMP", ty = Ty::Time)]
    #[new(args.opt("TIMESTAMP")?.map(|Nanos(ns)| ns))]
    time: Option<i64>,
    /// whether the first timestamp is set
    #[arg(keyword, or = "false")]
    first: bool,
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
