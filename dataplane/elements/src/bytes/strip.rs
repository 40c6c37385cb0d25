//! Strip: takes bytes off the front.

use thruway_element::{
    Alias, Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Operation, Replicas, Spec, Topic, Ty,
    Verdict, reasons,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Strip",
        aliases: &[Alias { name: "FlowStrip", summary: "the same, in MiddleClick's context" }],
        topic: Topic::Bytes,
        summary: "takes bytes off the front of packets",
        docs: "Takes the first LENGTH bytes off every packet: 14 for an Ethernet header. The bytes \
               stay in the packet's head room, where Unstrip finds them. Packets that have fewer \
               bytes are dropped (Click lets them go on with no bytes at all).",
        example: "InfiniteSource(LIMIT 1, STOP true) -> Strip(14) -> Print -> Discard",
        straight: true,
        args: &[Arg::required("LENGTH", Ty::UInt, "bytes to take off")],
        drops: Short::DROPS,
        cost: &[Operation::HeaderMove.once()],
        changes: Changes::Frame,
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet goes no further.
    enum Short {
        TooShort = "too-short": "it has fewer bytes than are to be taken off",
    }
}

struct Strip {
    length: usize,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Strip { length: args.get::<u32>("LENGTH")? as usize }))
}

impl Element for Strip {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.sift(batch, |packet| match packet.pull(self.length) {
            true => Verdict::Pass,
            false => Verdict::drop(Short::TooShort),
        });
    }
}
