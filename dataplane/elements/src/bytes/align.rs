//! Align: where in memory packets begin, which matters to nobody here.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, NOTHING_MORE, Operation, Spec, Topic, Ty,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Align",
        topic: Topic::Bytes,
        summary: "is accepted and passes packets on",
        docs: "In Click, moves packets so that they begin OFFSET bytes behind a multiple of MODULUS. \
               Here every element reads headers wherever they are, so that packets pass \
               unchanged; only the arguments are checked.",
        example: "InfiniteSource(LIMIT 1, STOP true) -> Align(4, 0) -> Discard",
        args: &[
            Arg::required("MODULUS", Ty::UInt, "2, 4 or 8"),
            Arg::required("OFFSET", Ty::UInt, "below MODULUS"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::HeaderRead.once()],
        ..Spec::DEFAULT
    },
    build,
);

/// See the spec.
pub static INFO: Entry = Entry::new(
    Spec {
        name: "AlignmentInfo",
        topic: Topic::Bytes,
        summary: "is accepted and has no effect",
        docs: "In Click, a tool writes it to tell elements where packets begin in memory: each \
               argument is an element's name and a MODULUS and OFFSET for each of its inputs. Here \
               elements read headers wherever they are.",
        example: "AlignmentInfo(d 4 2); InfiniteSource(LIMIT 1, STOP true) -> d :: Discard",
        ports: "0/0",
        processing: "/",
        args: &[Arg::rest("ALIGNMENT", Ty::Rule("ELEMENT [MODULUS OFFSET]..."), "not looked at")],
        cost: NOTHING_MORE,
        ..Spec::DEFAULT
    },
    |_| Ok(Box::new(Align)),
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
