//! DropBroadcasts: only what was sent to one host goes on.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, ShortCut, Spec, Topic,
    Verdict, reasons,
};
use thruway_packet::{Batch, PacketKind};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<DropBroadcasts>(Spec {
    name: "DropBroadcasts",
    topic: Topic::Ethernet,
    summary: "drops link-level broadcasts and multicasts",
    docs: "Packets that came in as a broadcast or multicast of the link go out of output 1, or \
           are dropped where there is none: routers must not forward them (RFC 1812 section \
           5.3.4). Looks at the packet type annotation, which FromDevice and HostEtherFilter \
           set, not at the packet's bytes.",
    example: "InfiniteSource(DATA \\<ffffffffffff 000000000001 0800>, LIMIT 3, STOP true)\n\
              -> HostEtherFilter(0:0:0:0:0:2) -> DropBroadcasts -> Print -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    straight: true,
    drops: ToMany::DROPS,
    changes: Changes::Nothing,
    cost: &[Operation::Annotate.once()],
    replicas: Replicas::Alike,
    short_cut: ShortCut::Passes,
    large_packets: true,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet does not go on.
    enum ToMany {
        Broadcast = "broadcast": "it was sent to all stations of the link",
        Multicast = "multicast": "it was sent to a group of stations",
    }
}

#[derive(Arguments, Handlers)]
struct DropBroadcasts {
    /// packets that did not go on
    #[handler(sum)]
    drops: u64,
}

impl Element for DropBroadcasts {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| {
            let reason = match packet.kind() {
                PacketKind::Broadcast => ToMany::Broadcast,
                PacketKind::Multicast => ToMany::Multicast,
                PacketKind::Host | PacketKind::OtherHost | PacketKind::Outgoing => {
                    return Verdict::Pass;
                }
            };
            self.drops += 1;
            Verdict::reject(1, reason)
        });
    }
}
