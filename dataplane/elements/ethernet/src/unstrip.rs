//! Unstrip: gives bytes back to the front.

use thruway_element::{
    Alias, Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Reason, Replicas, ShortCut,
    Spec, Topic, Verdict,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Unstrip>(Spec {
    name: "Unstrip",
    aliases: &[Alias { name: "FlowUnstrip", summary: "the same, in MiddleClick's context" }],
    topic: Topic::Ethernet,
    summary: "gives bytes back to the front of packets",
    docs: "Puts LENGTH bytes in front of every packet. After Strip these are the bytes that it \
           took off; where nothing was taken off they are whatever the head room held, or \
           zeros where it was too small.",
    example: "InfiniteSource(LIMIT 1, STOP true) -> Strip(14) -> Unstrip(14) -> Print -> Discard",
    straight: true,
    cost: &[Operation::HeaderMove.once()],
    changes: Changes::Frame,
    replicas: Replicas::Alike,
    short_cut: ShortCut::Passes,
    large_packets: true,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct Unstrip {
    /// bytes to give back
    #[arg(required, as = u32)]
    length: usize,
}

#[cold]
fn push_zeros(packet: &mut Packet, length: usize) -> Verdict {
    if !packet.push(length) {
        return Verdict::Drop(Reason::NO_MEMORY);
    }
    packet.data_mut()[..length].fill(0);
    Verdict::Pass
}

impl Element for Unstrip {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| match packet.unpull(self.length) {
            true => Verdict::Pass,
            false => push_zeros(packet, self.length),
        });
    }
}
