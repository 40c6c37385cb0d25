//! DecIPTTL: one hop less.

use thruway_element::{
    Arg, ArgErrors, Args, Cost, Cx, Element, Entry, Spec, Topic, Ty, Verdict, reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::checksum::Delta;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "DecIPTTL",
        topic: Topic::Ip,
        summary: "decrements IP time-to-live, drops dead packets",
        docs: "Expects IP packets whose network header is marked (CheckIPHeader, MarkIPHeader). A \
               packet with a time-to-live above 1 has it decremented and its checksum updated \
               incrementally (RFC 1624), and goes out of output 0. The others go out of output 1, \
               or are dropped where there is none.",
        example: "InfiniteSource(LIMIT 1, STOP true) -> IPEncap(17, 1.0.0.1, 2.0.0.2) -> DecIPTTL -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        args: &[Arg::keyword("MULTICAST", Ty::Bool, "whether multicast packets are decremented")
            .or("true")],
        drops: Dead::DROPS,
        cost: &[Cost { operation: "ttl-decrement", count: 1.0 }],
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet goes no further.
    enum Dead {
        Expired = "expired": "its time-to-live was 1 or 0",
        NoHeader = "no-ip-header": "no IP header is marked",
    }
}

struct DecIpTtl {
    multicast: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(DecIpTtl { multicast: args.get("MULTICAST")? }))
}

impl DecIpTtl {
    #[inline]
    fn judge(&self, packet: &mut Packet) -> Verdict {
        let Some(header) = packet.network_mut().first_chunk_mut::<20>() else {
            return Verdict::reject(1, Dead::NoHeader);
        };
        let multicast = header[16] & 0xf0 == 0xe0;
        if multicast && !self.multicast {
            return Verdict::Pass;
        }
        let ttl = header[8];
        if ttl <= 1 {
            return Verdict::reject(1, Dead::Expired);
        }
        header[8] = ttl - 1;
        // The TTL is the high byte of the 16-bit word that it shares with the protocol.
        let old = u16::from_be_bytes([ttl, header[9]]);
        let sum = u16::from_be_bytes([header[10], header[11]]);
        let sum = Delta::of_u16(old, old - 0x100).apply(sum);
        [header[10], header[11]] = sum.to_be_bytes();
        Verdict::Pass
    }
}

impl Element for DecIpTtl {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.sift(batch, |packet| self.judge(packet));
    }
}
