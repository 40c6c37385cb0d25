//! AlignmentInfo: what Click's tools say about packets' positions in memory.

use thruway_element::{Arg, Element, Entry, NOTHING_MORE, Replicas, Spec, Topic, Ty};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "AlignmentInfo",
        topic: Topic::Ethernet,
        summary: "is accepted and has no effect",
        docs: "In Click, a tool writes it to show elements where packets begin in memory: each \
               argument is an element's name and a MODULUS and OFFSET for each of its inputs. Here \
               elements read headers wherever they are.",
        example: "AlignmentInfo(d 4 2); InfiniteSource(LIMIT 1, STOP true) -> d :: Discard",
        ports: "0/0",
        processing: "/",
        args: &[Arg::rest("ALIGNMENT", Ty::Rule("ELEMENT [MODULUS OFFSET]..."), "not looked at")],
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    |_| Ok(Box::new(AlignmentInfo)),
);

struct AlignmentInfo;

impl Element for AlignmentInfo {}
