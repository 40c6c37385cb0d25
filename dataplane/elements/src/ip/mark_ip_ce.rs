//! MarkIPCE: tells receivers of congestion.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Operation, Replicas,
    Spec, Topic, Ty, Verdict, reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::ipv4::Ipv4Header;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "MarkIPCE",
        topic: Topic::Ip,
        summary: "marks IP packets that have seen congestion",
        docs: "Sets the congestion notification bits of IP packets to \"congestion experienced\" (RFC \
               3168 section 5) and updates the header checksum. Packets whose sender does not know \
               of congestion notification are dropped, unless FORCE; so are those whose IP header \
               is not marked.",
        example: "InfiniteSource(\\<4501001400000000401177d60100000102000002>, LIMIT 1, STOP true) \
                  -> MarkIPHeader -> MarkIPCE -> CheckIPHeader -> Print(ok) -> Discard",
        straight: true,
        args: &[Arg::keyword("FORCE", Ty::Bool, "whether all packets are marked").or("false")],
        drops: Unmarked::DROPS,
        handlers: &[Handler::sum("drops", "packets dropped")],
        cost: &[Operation::HeaderWrite.once()],
        changes: Changes::Headers,
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet is not marked.
    enum Unmarked {
        NoHeader = "no-ip-header": "no IP header is marked",
        NotCapable = "not-capable": "its sender does not know of congestion notification",
    }
}

/// The two bits (RFC 3168 section 5).
const EXPERIENCED: u8 = 3;

struct MarkIpCe {
    force: bool,
    drops: u64,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(MarkIpCe { force: args.get("FORCE")?, drops: 0 }))
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
        cx.sift(batch, |packet| mark(packet, self.force));
        self.drops += (before - batch.len()) as u64;
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }
}
