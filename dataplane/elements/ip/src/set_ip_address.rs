//! SetIPAddress: a fixed address into an annotation.

use std::net::Ipv4Addr;

use thruway_element::{
    AnnoArg, Arg, ArgErrors, Args, Changes, Cx, Element, Entry, HandlerError, Handlers, Names,
    Operation, Replicas, Spec, Topic, Ty,
};
use thruway_packet::{Anno, Batch};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<SetIpAddress>(
    Spec {
        name: "SetIPAddress",
        topic: Topic::Ip,
        summary: "sets an address annotation",
        docs: "Sets the four bytes of ANNO, by default the destination annotation that route tables \
               and ARPQuerier look at, to IPADDR. With it a packet goes to a gateway whatever its \
               destination.",
        example: "InfiniteSource(LIMIT 1, STOP true) -> SetIPAddress(1.2.3.4) \
                  -> StoreIPAddress(0) -> Print(ok) -> Discard",
        straight: true,
        args: &[
            Arg::required("IPADDR", Ty::Ip, "the address"),
            Arg::keyword("ANNO", Ty::Anno, "where to put it").or("DST_IP"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Annotate.once()],
        replicas: Replicas::Alike,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

#[derive(Handlers)]
struct SetIpAddress {
    /// the address
    #[handler(both, write = self.write_addr(value))]
    addr: Ipv4Addr,
    anno: Anno,
    names: Names,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let AnnoArg(anno) = args.get("ANNO")?;
    let anno = Anno::at(anno.offset.into(), 4)
        .ok_or_else(|| args.error("ANNO", "there are fewer than 4 bytes from there on"))?;
    Ok(Box::new(SetIpAddress { addr: args.get("IPADDR")?, anno, names: args.names() }))
}

impl SetIpAddress {
    fn write_addr(&mut self, value: &str) -> Result<(), HandlerError> {
        self.addr = self.names.handler_value("addr", value)?;
        Ok(())
    }
}

impl Element for SetIpAddress {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            packet.anno_mut(self.anno).copy_from_slice(&self.addr.octets());
        }
    }
}
