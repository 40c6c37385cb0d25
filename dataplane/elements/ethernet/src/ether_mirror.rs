//! EtherMirror: sends frames back where they came from.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, ShortCut, Spec, Topic,
    Verdict, reasons,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<EtherMirror>(Spec {
    name: "EtherMirror",
    topic: Topic::Ethernet,
    summary: "swaps Ethernet source and destination",
    docs: "Swaps source and destination address of the Ethernet header that packets begin with. \
           Packets too short for both addresses are dropped.",
    example: "InfiniteSource(DATA \\<000000000001 000000000002 0800>, LIMIT 1, STOP true)\n\
              -> EtherMirror -> Print -> Discard",
    straight: true,
    drops: Short::DROPS,
    cost: &[Operation::HeaderWrite.once()],
    changes: Changes::Frame,
    replicas: Replicas::Alike,
    short_cut: ShortCut::Passes,
    large_packets: true,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet goes no further.
    enum Short {
        TooShort = "too-short": "it has less than the 12 bytes of two Ethernet addresses",
    }
}

#[derive(Arguments, Handlers)]
struct EtherMirror;

#[inline]
fn mirror(packet: &mut Packet) -> Verdict {
    let Some(addresses) = packet.data_mut().first_chunk_mut::<12>() else {
        return Verdict::drop(Short::TooShort);
    };
    let (to, from) = addresses.split_at_mut(6);
    to.swap_with_slice(from);
    Verdict::Pass
}

impl Element for EtherMirror {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, mirror);
    }
}
