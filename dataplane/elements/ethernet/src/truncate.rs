//! Truncate: a limit to length.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
};
use thruway_packet::{Anno, Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Truncate>(Spec {
    name: "Truncate",
    topic: Topic::Ethernet,
    summary: "cuts packets to a length",
    docs: "Cuts packets of more than LENGTH bytes to that length. With EXTRA_LENGTH, the bytes \
           cut off are added to the annotation of that name, at most 65,535 in all: ToDump and \
           counters may then count them, and Pad gives them back as zeros.",
    example: "InfiniteSource(LENGTH 100, LIMIT 1, STOP true) -> Truncate(64) -> Print -> Discard",
    straight: true,
    changes: Changes::Headers,
    cost: &[Operation::Visit.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct Truncate {
    /// most bytes a packet keeps
    #[arg(required, as = u32)]
    #[handler(read)]
    length: usize,
    /// whether the annotation reports what was cut
    #[arg(keyword, name = "EXTRA_LENGTH", or = "true")]
    note: bool,
}

impl Truncate {
    #[inline]
    fn truncate(&self, packet: &mut Packet) {
        let cut = packet.len().saturating_sub(self.length);
        if cut == 0 {
            return;
        }
        packet.truncate(self.length);
        if self.note {
            let all = cut + packet.anno_number(Anno::EXTRA_LENGTH) as usize;
            packet.set_anno_number(Anno::EXTRA_LENGTH, all.min(usize::from(u16::MAX)) as u32);
        }
    }
}

impl Element for Truncate {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            self.truncate(packet);
        }
    }
}
