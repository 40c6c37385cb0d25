//! MarkIPCE: informs receivers of congestion.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Verdict,
    reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::ipv4::Ipv4Header;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<MarkIpCe>(Spec {
    name: "MarkIPCE",
    topic: Topic::Ip,
    summary: "marks IP packets that have seen congestion",
    docs: "Sets the congestion notification bits of IP packets to \"congestion experienced\" (RFC \
           3168 section 5) and updates the header checksum. Packets from a sender without support \
           for congestion notification are dropped, unless FORCE; so are those with no marked \
           IP header.",
    example: "InfiniteSource(\\<4501001400000000401177d60100000102000002>, LIMIT 1, STOP true) \
              -> MarkIPHeader -> MarkIPCE -> CheckIPHeader -> Print(ok) -> Discard",
    straight: true,
    drops: Unmarked::DROPS,
    cost: &[Operation::HeaderWrite.once()],
    changes: Changes::Headers,
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet is not marked.
    enum Unmarked {
        NoHeader = "no-ip-header": "no IP header is marked",
        NotCapable = "not-capable": "its sender does not know of congestion notification",
    }
}

/// The two bits (RFC 3168 section 5).
const EXPERIENCED: u8 = 3;

#[derive(Arguments, Handlers)]
struct MarkIpCe {
    /// packets dropped
    #[handler(sum)]
    drops: u64,
    /// whether all packets are marked
    #[arg(keyword, or = "false")]
    force: bool,
}

#[inline]
fn mark(packet: &mut Packet, force: bool) -> Verdict {
    let Ok((ip, _)) = Ipv4Header::view_mut(packet.network_mut()) else {
        return Verdict::drop(Unmarked::NoHeader);
    };
    let tos = ip.tos();
    if tos & EXPERIENCED == 0 && !force {
        return Verdict::drop(Unmarked::NotCapable);
    }
    ip.update_tos(tos | EXPERIENCED);
    Verdict::Pass
}

impl Element for MarkIpCe {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let before = batch.len();
        cx.filter(batch, |packet| mark(packet, self.force));
        self.drops += (before - batch.len()) as u64;
    }
}
