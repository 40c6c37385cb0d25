//! HostEtherFilter: what a network card does on reception.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, ShortCut, Spec, Topic,
    Verdict, reasons,
};
use thruway_packet::{Batch, Packet, PacketKind};
use thruway_wire::MacAddr;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<HostEtherFilter>(Spec {
    name: "HostEtherFilter",
    topic: Topic::Ethernet,
    summary: "drops frames sent to other hosts",
    docs: "Acts as the network card of a host with address ETHER: sets the packet type \
           annotation (host, broadcast, multicast or other host) by the frame's destination, \
           and filters out frames to other hosts, unless DROP_OTHER is false, and with DROP_OWN \
           those from ETHER. Filtered frames leave by output 1, or are dropped \
           if it is unconnected; so do frames too short for two addresses.",
    example: "InfiniteSource(DATA \\<000000000001 000000000002 0800>, LIMIT 1, STOP true)\n\
              -> HostEtherFilter(0:0:0:0:0:1) -> Print -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    straight: true,
    drops: Refused::DROPS,
    cost: &[Operation::HeaderRead.once()],
    changes: Changes::Nothing,
    replicas: Replicas::Alike,
    short_cut: ShortCut::Passes,
    large_packets: true,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet is sorted out.
    enum Refused {
        Own = "own": "this host sent it",
        OtherHost = "other-host": "it is for another host",
        TooShort = "too-short": "it has no room for two Ethernet addresses",
    }
}

#[derive(Arguments, Handlers)]
#[handler(both, field = ether, get = self.ether.dashed())]
struct HostEtherFilter {
    /// address of the host
    #[arg(required)]
    ether: MacAddr,
    /// whether frames from ETHER are sorted out
    #[arg(optional, or = "false")]
    drop_own: bool,
    /// whether frames to other hosts are sorted out
    #[arg(optional, or = "true")]
    drop_other: bool,
    /// where in the packet the Ethernet header begins
    #[arg(keyword, as = u32, or = "0")]
    offset: usize,
}

impl HostEtherFilter {
    #[inline]
    fn judge(&self, packet: &mut Packet) -> Verdict {
        let header = packet.data().get(self.offset..).and_then(|data| data.first_chunk::<12>());
        let Some([a, b, c, d, e, f, source @ ..]) = header else {
            return Verdict::reject(1, Refused::TooShort);
        };
        let destination = MacAddr([*a, *b, *c, *d, *e, *f]);
        if self.drop_own && MacAddr(*source) == self.ether {
            return Verdict::reject(1, Refused::Own);
        }
        let kind = kind_of(destination, self.ether);
        packet.set_kind(kind);
        if kind == PacketKind::OtherHost && self.drop_other {
            return Verdict::reject(1, Refused::OtherHost);
        }
        Verdict::Pass
    }
}

#[inline]
fn kind_of(destination: MacAddr, host: MacAddr) -> PacketKind {
    if destination == host {
        PacketKind::Host
    } else if destination.is_broadcast() {
        PacketKind::Broadcast
    } else if destination.is_multicast() {
        PacketKind::Multicast
    } else {
        PacketKind::OtherHost
    }
}

impl Element for HostEtherFilter {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.judge(packet));
    }
}
