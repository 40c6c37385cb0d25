//! SetIP6Address: a fixed address into the annotation.

use std::net::Ipv6Addr;

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, HandlerError, Handlers, Names, Operation, Replicas,
    Spec, Topic,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<SetIp6Address>(Spec {
    name: "SetIP6Address",
    topic: Topic::Ip6,
    summary: "sets the IPv6 destination annotation",
    docs: "Sets the IPv6 destination annotation of packets, which LookupIP6Route and \
           IP6NDSolicitor look at, to IPADDR. With it a packet goes to a gateway whatever its \
           destination.",
    example: "InfiniteSource(LIMIT 1, STOP true) -> SetIP6Address(2001:db8::1) -> Discard",
    straight: true,
    changes: Changes::Nothing,
    cost: &[Operation::Annotate.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct SetIp6Address {
    /// the address
    #[arg(required, name = "IPADDR")]
    #[handler(both, write = self.write_addr(value))]
    addr: Ipv6Addr,
    #[new(args.names())]
    names: Names,
}

impl SetIp6Address {
    fn write_addr(&mut self, value: &str) -> Result<(), HandlerError> {
        self.addr = self.names.handler_value("addr", value)?;
        Ok(())
    }
}

impl Element for SetIp6Address {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            packet.set_dst_ip6(self.addr.octets());
        }
    }
}
