//! Align: the alignment of packets in memory, which no element here depends on.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Operation, Replicas, Spec, Topic, Ty,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Align",
        topic: Topic::Ethernet,
        summary: "is accepted and passes packets on",
        docs: "In Click, moves packets so that they begin OFFSET bytes behind a multiple of \
               MODULUS. Here every element reads headers wherever they are, so that packets pass \
               unchanged; only the arguments are checked.",
        example: "InfiniteSource(LIMIT 1, STOP true) -> Align(4, 0) -> Discard",
        straight: true,
        args: &[
            Arg::required("MODULUS", Ty::UInt, "2, 4 or 8"),
            Arg::required("OFFSET", Ty::UInt, "below MODULUS"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::HeaderRead.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

struct Align;

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let (modulus, offset): (u32, u32) = (args.get("MODULUS")?, args.get("OFFSET")?);
    if !matches!(modulus, 2 | 4 | 8) {
        return Err(args.error("MODULUS", "must be 2, 4 or 8").into());
    }
    if offset >= modulus {
        return Err(args.error("OFFSET", "must be smaller than MODULUS").into());
    }
    Ok(Box::new(Align))
}

impl Element for Align {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch) {}
}
