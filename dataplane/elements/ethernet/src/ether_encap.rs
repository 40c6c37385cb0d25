//! EtherEncap: puts an Ethernet header in front.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Reason, Replicas, ShortCut, Spec,
    Topic, Verdict, handler_value,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::MacAddr;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<EtherEncap>(Spec {
    name: "EtherEncap",
    topic: Topic::Ethernet,
    summary: "puts an Ethernet header in front of packets",
    docs: "Puts the 14 bytes of an Ethernet header (destination DST, source SRC, type ETHERTYPE) \
           in front of every packet and marks it as the link-layer header. For IP packets \
           to several next hops, see ARPQuerier.",
    example: "InfiniteSource(LIMIT 1, STOP true) -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)\n\
              -> Print(CONTENTS HEX, MAXLENGTH 14) -> Discard",
    straight: true,
    cost: &[Operation::HeaderWrite.once()],
    changes: Changes::Frame,
    replicas: Replicas::Alike,
    short_cut: ShortCut::Passes,
    large_packets: true,
    ..Spec::DEFAULT
});

/// Bytes of an Ethernet header.
const HEADER: usize = 14;

#[derive(Arguments, Handlers)]
struct EtherEncap {
    #[arg(
        required, name = "ETHERTYPE", value = u16, "the type of the payload: 0x0800 for IP"
    )]
    #[arg(required, name = "SRC", value = MacAddr, "source address")]
    #[arg(required, name = "DST", value = MacAddr, "destination address")]
    #[new(header(dst, src, ethertype))]
    #[handler(
        both, name = "src", "source address", get = self.address(6),
        run = self.header[6..12].copy_from_slice(&handler_value::<MacAddr>(name, value)?.0)
    )]
    #[handler(
        both, name = "dst", "destination address", get = self.address(0),
        run = self.header[..6].copy_from_slice(&handler_value::<MacAddr>(name, value)?.0)
    )]
    #[handler(
        both, name = "ethertype", "the type of the payload",
        get = u16::from_be_bytes([self.header[12], self.header[13]]),
        run = self.header[12..].copy_from_slice(&handler_value::<u16>(name, value)?.to_be_bytes())
    )]
    header: [u8; HEADER],
}

fn header(dst: MacAddr, src: MacAddr, ethertype: u16) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..6].copy_from_slice(&dst.0);
    header[6..12].copy_from_slice(&src.0);
    header[12..].copy_from_slice(&ethertype.to_be_bytes());
    header
}

impl EtherEncap {
    #[inline]
    fn encap(&self, packet: &mut Packet) -> Verdict {
        if !packet.push(HEADER) {
            return Verdict::Drop(Reason::NO_MEMORY);
        }
        packet.data_mut()[..HEADER].copy_from_slice(&self.header);
        packet.set_mac_offset(0);
        Verdict::Pass
    }

    fn address(&self, at: usize) -> String {
        let [a, b, c, d, e, f, ..] = &self.header[at..] else { return String::new() };
        MacAddr([*a, *b, *c, *d, *e, *f]).dashed().to_string()
    }
}

impl Element for EtherEncap {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.encap(packet));
    }
}
