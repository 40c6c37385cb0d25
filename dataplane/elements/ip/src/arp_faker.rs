//! ARPFaker: unsolicited ARP replies.

use std::net::Ipv4Addr;

use thruway_element::{Arguments, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic};
use thruway_wire::arp::{ArpPacket, REPLY};
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::{Header, MacAddr};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<ArpFaker>(Spec {
    name: "ARPFaker",
    topic: Topic::Ip,
    summary: "sends ARP replies now and then, unasked",
    docs: "Sends an ARP reply in an Ethernet frame to IP1 at ETH1 that says that IP2 is at ETH2: \
           after a second, and then every ten seconds. ARPResponder answers when it is asked.",
    example: "ARPFaker(18.26.4.1, 0:e0:2b:b:1a:0, 18.26.4.99, 00:a0:c9:9c:fd:9c) -> Discard",
    ports: "0/1",
    processing: "/h",
    cost: &[Operation::HeaderRead.once()],
    replicas: Replicas::Single,
    ..Spec::DEFAULT
});

/// Nanoseconds until the first reply.
const FIRST: i64 = 1_000_000_000;
/// Nanoseconds between two replies.
const INTERVAL: i64 = 10_000_000_000;
/// The only timer.
const SEND: u32 = 0;

#[derive(Arguments, Handlers)]
struct ArpFaker {
    #[arg(required, name = "IP1", value = Ipv4Addr, "address of the receiver")]
    #[arg(required, name = "ETH1", value = MacAddr, "Ethernet address of the receiver")]
    #[arg(required, name = "IP2", value = Ipv4Addr, "the address that is announced")]
    #[arg(
        required, name = "ETH2", value = MacAddr, "MAC address advertised for this IP address"
    )]
    #[new(frame((eth1, ip1), (eth2, ip2)))]
    frame: [u8; EthernetHeader::LEN + ArpPacket::LEN],
}

fn frame(
    target: (MacAddr, Ipv4Addr),
    sender: (MacAddr, Ipv4Addr),
) -> [u8; EthernetHeader::LEN + ArpPacket::LEN] {
    let mut frame = [0; EthernetHeader::LEN + ArpPacket::LEN];
    // The array has room for both.
    if let Ok(rest) = EthernetHeader::new(target.0, sender.0, ethertype::ARP).emit(&mut frame) {
        let _ = ArpPacket::new(REPLY, sender, target).emit(rest);
    }
    frame
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
