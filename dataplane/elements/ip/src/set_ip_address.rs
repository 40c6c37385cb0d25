//! SetIPAddress: a fixed address into an annotation.

use std::net::Ipv4Addr;

use thruway_element::{
    AnnoArg, Arguments, Changes, Cx, Element, Entry, HandlerError, Handlers, Names, Operation,
    Replicas, Spec, Topic,
};
use thruway_packet::{Anno, Batch};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<SetIpAddress>(Spec {
    name: "SetIPAddress",
    topic: Topic::Ip,
    summary: "sets an address annotation",
    docs: "Sets the four bytes of ANNO, by default the destination annotation that route tables \
           and ARPQuerier look at, to IPADDR. With it a packet goes to a gateway whatever its \
           destination.",
    example: "InfiniteSource(LIMIT 1, STOP true) -> SetIPAddress(1.2.3.4) \
              -> StoreIPAddress(0) -> Print(ok) -> Discard",
    straight: true,
    changes: Changes::Nothing,
    cost: &[Operation::Annotate.once()],
    replicas: Replicas::Alike,
    large_packets: true,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct SetIpAddress {
    /// the address
    #[arg(required, name = "IPADDR")]
    #[handler(both, write = self.write_addr(value))]
    addr: Ipv4Addr,
    /// where to put it
    #[arg(keyword, via = with_room, or = "DST_IP")]
    anno: Anno,
    #[new(args.names())]
    names: Names,
}

fn with_room(AnnoArg(anno): AnnoArg) -> Result<Anno, &'static str> {
    Anno::at(anno.offset.into(), 4).ok_or("there are fewer than 4 bytes from there on")
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
