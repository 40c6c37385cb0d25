//! SetIP6Address: a fixed address into the annotation.

use std::net::Ipv6Addr;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Names, Operation,
    Replicas, Spec, Topic, Ty,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "SetIP6Address",
        topic: Topic::Ip6,
        summary: "sets the IPv6 destination annotation",
        docs: "Sets the IPv6 destination annotation of packets, which LookupIP6Route and \
               IP6NDSolicitor look at, to IPADDR. With it a packet goes to a gateway whatever its \
               destination.",
        example: "InfiniteSource(LIMIT 1, STOP true) -> SetIP6Address(2001:db8::1) -> Discard",
        straight: true,
        args: &[Arg::required("IPADDR", Ty::Ip6, "the address")],
        handlers: &[Handler::both("addr", "the address")],
        changes: Changes::Nothing,
        cost: &[Operation::Annotate.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

struct SetIp6Address {
    addr: Ipv6Addr,
    names: Names,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(SetIp6Address { addr: args.get("IPADDR")?, names: args.names() }))
}

impl Element for SetIp6Address {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            packet.set_dst_ip6(self.addr.octets());
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
