//! ARPFaker: ARP replies that nobody asked for.

use std::net::Ipv4Addr;

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Operation, Replicas, Spec, Topic, Ty,
};
use thruway_wire::arp::{ArpPacket, REPLY};
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::{Header, MacAddr};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "ARPFaker",
        topic: Topic::Ip,
        summary: "sends ARP replies now and then, unasked",
        docs: "Sends an ARP reply in an Ethernet frame to IP1 at ETH1 that says that IP2 is at ETH2: \
               after a second, and then every ten seconds. ARPResponder answers when it is asked.",
        example: "ARPFaker(18.26.4.1, 0:e0:2b:b:1a:0, 18.26.4.99, 00:a0:c9:9c:fd:9c) -> Discard",
        ports: "0/1",
        processing: "/h",
        args: &[
            Arg::required("IP1", Ty::Ip, "address of who is told"),
            Arg::required("ETH1", Ty::Ether, "Ethernet address of who is told"),
            Arg::required("IP2", Ty::Ip, "the address it is told of"),
            Arg::required("ETH2", Ty::Ether, "MAC address advertised for this IP address"),
        ],
        cost: &[Operation::HeaderRead.once()],
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
);

/// Nanoseconds until the first reply.
const FIRST: i64 = 1_000_000_000;
/// Nanoseconds between two replies.
const INTERVAL: i64 = 10_000_000_000;
/// The only timer.
const SEND: u32 = 0;

struct ArpFaker {
    frame: [u8; EthernetHeader::LEN + ArpPacket::LEN],
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let target: (MacAddr, Ipv4Addr) = (args.get("ETH1")?, args.get("IP1")?);
    let sender: (MacAddr, Ipv4Addr) = (args.get("ETH2")?, args.get("IP2")?);
    let mut frame = [0; EthernetHeader::LEN + ArpPacket::LEN];
    // The array has room for both.
    if let Ok(rest) = EthernetHeader::new(target.0, sender.0, ethertype::ARP).emit(&mut frame) {
        let _ = ArpPacket::new(REPLY, sender, target).emit(rest);
    }
    Ok(Box::new(ArpFaker { frame }))
}

impl Element for ArpFaker {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.set_timer(SEND, cx.now().saturating_add(FIRST));
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        if let Some(mut packet) = cx.packet(&self.frame) {
            packet.set_timestamp(cx.now());
            packet.set_mac_offset(0);
            packet.set_network(EthernetHeader::LEN, 0);
            cx.emit(0, packet);
        }
        cx.set_timer(SEND, cx.now().saturating_add(INTERVAL));
    }
}
