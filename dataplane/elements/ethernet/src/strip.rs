//! Strip: takes bytes off the front.

use thruway_element::{
    Alias, Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, ShortCut, Spec,
    Topic, Verdict, reasons,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Strip>(Spec {
    name: "Strip",
    aliases: &[Alias { name: "FlowStrip", summary: "the same, in MiddleClick's context" }],
    topic: Topic::Ethernet,
    summary: "takes bytes off the front of packets",
    docs: "Takes the first LENGTH bytes off every packet: 14 for an Ethernet header. The bytes \
           stay in the packet's head room, where Unstrip finds them. Packets that have fewer \
           bytes are dropped (Click lets them go on with no bytes at all).",
    example: "InfiniteSource(LIMIT 1, STOP true) -> Strip(14) -> Print -> Discard",
    straight: true,
    drops: Short::DROPS,
    cost: &[Operation::HeaderMove.once()],
    changes: Changes::Frame,
    replicas: Replicas::Alike,
    short_cut: ShortCut::Passes,
    large_packets: true,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet goes no further.
    enum Short {
        TooShort = "too-short": "it has fewer bytes than are to be taken off",
    }
}

#[derive(Arguments, Handlers)]
struct Strip {
    /// bytes to take off
    #[arg(required, as = u32)]
    length: usize,
}

impl Element for Strip {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| match packet.pull(self.length) {
            true => Verdict::Pass,
            false => Verdict::drop(Short::TooShort),
        });
    }
}
