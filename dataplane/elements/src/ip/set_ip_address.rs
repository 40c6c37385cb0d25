//! SetIPAddress: a fixed address into an annotation.

use std::net::Ipv4Addr;

use thruway_element::{
    AnnoArg, Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Names,
    Operation, Replicas, Spec, Topic, Ty,
};
use thruway_packet::{Anno, Batch};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
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
        handlers: &[Handler::both("addr", "the address")],
        changes: Changes::Nothing,
        cost: &[Operation::Annotate.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

struct SetIpAddress {
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

impl Element for SetIpAddress {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            packet.anno_mut(self.anno).copy_from_slice(&self.addr.octets());
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "addr" => Ok(self.addr.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "addr" => self.addr = self.names.handler_value(name, value)?,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}
