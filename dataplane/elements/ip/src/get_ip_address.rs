//! GetIPAddress: an address from the packet into an annotation.

use thruway_element::{
    AnnoArg, Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Operation, Replicas, Spec, Topic,
    Ty, Verdict, reasons,
};
use thruway_packet::{Anno, Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "GetIPAddress",
        topic: Topic::Ip,
        summary: "copies an IP address from the packet into an annotation",
        docs: "Copies four bytes of the packet into ANNO, by default the destination annotation \
               that route tables and ARPQuerier look at. They come from OFFSET (16 is an IP \
               packet's destination), or with IP from that field of the marked IP header. Packets \
               that have no such bytes are dropped.",
        example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
                  -> GetIPAddress(16) -> Print(ok) -> Discard",
        straight: true,
        args: &[
            Arg::optional("OFFSET", Ty::UInt, "where in the packet the address is"),
            Arg::optional("ANNO", Ty::Anno, "where to put it").or("DST_IP"),
            Arg::keyword("IP", Ty::Choice(&["src", "dst"]), "which field of the IP header"),
        ],
        drops: GetIpAddressDrop::DROPS,
        changes: Changes::Nothing,
        cost: &[Operation::HeaderRead.once()],
        replicas: Replicas::Alike,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why there is no address.
    enum GetIpAddressDrop {
        Short = "too-short": "the packet ends before the address does",
    }
}

#[derive(Debug, Clone, Copy)]
enum Source {
    Packet(usize),
    Header(usize),
}

struct GetIpAddress {
    from: Source,
    anno: Anno,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let field = args.opt::<String>("IP")?;
    let from = match (args.opt("OFFSET")?, field.as_deref()) {
        (Some(offset), None) => Source::Packet(offset),
        (None, Some("src")) => Source::Header(12),
        (None, Some("dst")) => Source::Header(16),
        (None, Some(_)) => return Err(args.error("IP", "write src or dst").into()),
        _ => return Err(ArgErrors::whole("give either OFFSET or IP")),
    };
    let AnnoArg(anno) = args.get("ANNO")?;
    // An offset alone means one byte; an address has four.
    let Some(anno) = Anno::at(usize::from(anno.offset), 4) else {
        let last = Anno::SPACE - 4;
        return Err(args.error("ANNO", format!("no room for 4 bytes; at most {last}")).into());
    };
    Ok(Box::new(GetIpAddress { from, anno }))
}

#[inline]
fn address(packet: &Packet, from: Source) -> Option<[u8; 4]> {
    let (bytes, offset) = match from {
        Source::Packet(offset) => (packet.data(), offset),
        Source::Header(offset) => (packet.network(), offset),
    };
    bytes.get(offset..)?.first_chunk().copied()
}

impl Element for GetIpAddress {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| match address(packet, self.from) {
            Some(address) => {
                // As an array: a slice of a length not known here would be copied by a call.
                if let Some(anno) = packet.anno_mut(self.anno).first_chunk_mut() {
                    *anno = address;
                }
                Verdict::Pass
            }
            None => Verdict::drop(GetIpAddressDrop::Short),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_packet_or_header() {
        let bytes: Vec<u8> = (0..24).collect();
        let mut packet = Packet::new(&bytes).unwrap();
        assert_eq!(address(&packet, Source::Packet(20)), Some([20, 21, 22, 23]));
        assert_eq!(address(&packet, Source::Packet(21)), None);
        assert_eq!(address(&packet, Source::Header(12)), None);
        packet.set_network(4, 20);
        assert_eq!(address(&packet, Source::Header(16)), Some([20, 21, 22, 23]));
    }
}
