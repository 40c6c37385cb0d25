//! Isolate: parts of the configuration that run in a process of their own.

use thruway_element::{Arg, Element, Entry, NOTHING_MORE, Purpose, Replicas, Spec, Topic, Ty};

use super::nf;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Isolate",
        topic: Topic::Nf,
        summary: "lets elements run in a process of their own",
        docs: "Each NAME is that of an element or of a compound element; it is taken out of the \
               configuration and runs, with all that belongs to it, in a process without rights \
               (`thruway worker`), to which packets go and from which they come as through Nf. \
               The elements know nothing of it. The keywords are those of Nf.\n\
               Packets keep their annotations, marked headers, times, and 80 bytes of what stands \
               before them, both ways. Several that leave in consequence of one leave in their \
               order. Connections from and to the outside must push. Names that information \
               elements (AddressInfo) declare are known inside; handlers of elements outside are \
               not. What the elements print is part of the process's output, of which `last_error` \
               tells the end.\n\
               Handlers of the isolated elements work as before, from outside, too, and those of \
               the process are those of the Nf called NAME/nf.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> s :: Strip(14) -> Discard; Isolate(s)",
        ports: "0/0",
        args: &ARGS,
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        purpose: Purpose::IsolateNamed,
        ..Spec::DEFAULT
    },
    |_| Ok(Box::new(Isolate)),
);

/// Those of Nf, but for what the isolation itself decides.
const ARGS: [Arg; nf::ARGS.len() - nf::OWN + 1] = {
    let mut args =
        [Arg::rest("NAME", Ty::Element, "what is isolated"); nf::ARGS.len() - nf::OWN + 1];
    let mut at = 1;
    while at < args.len() {
        args[at] = nf::ARGS[at - 1 + nf::OWN];
        at += 1;
    }
    args
};

struct Isolate;

impl Element for Isolate {}
