//! EnsureEther: an Ethernet header in front of IP packets that have none.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Reason, Replicas, Spec, Topic,
    Verdict,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::MacAddr;
use thruway_wire::ethernet::{EthernetHeader, ethertype};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<EnsureEther>(Spec {
    name: "EnsureEther",
    topic: Topic::Ethernet,
    summary: "puts Ethernet headers in front of IP packets that lack one",
    docs: "A packet with 14 bytes in front of its marked network header that look like an Ethernet \
           header with the type of IP or IPv6 passes unchanged; one from which such a header was \
           taken off gets it back. From any other, the bytes in front of the network header are \
           removed, and a header from SRC to DST of type ETHERTYPE is put there. Packets without a \
           marked network header pass unchanged.",
    example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
              -> MarkIPHeader -> EnsureEther(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Print \
              -> Discard",
    straight: true,
    cost: &[Operation::HeaderWrite.once()],
    changes: Changes::Frame,
    replicas: Replicas::Alike,
    large_packets: true,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct EnsureEther {
    #[arg(optional, name = "ETHERTYPE", value = u16, or = "0x0800", "type of new headers")]
    #[arg(optional, name = "SRC", value = MacAddr, or = "1:1:1:1:1:1", "source of new headers")]
    #[arg(
        optional, name = "DST", value = MacAddr, or = "2:2:2:2:2:2", "destination of new headers"
    )]
    #[new(EthernetHeader::new(dst, src, ethertype))]
    header: EthernetHeader,
}

/// Whether the packet begins with what looks like the Ethernet header of an IP packet.
#[inline]
fn has_header(packet: &Packet) -> bool {
    let header = EthernetHeader::view(packet.data());
    header.is_ok_and(|(ether, _)| matches!(ether.ethertype(), ethertype::IPV4 | ethertype::IPV6))
}

impl EnsureEther {
    #[inline]
    fn ensure(&self, packet: &mut Packet) -> Verdict {
        let Some(offset) = packet.network_offset() else { return Verdict::Pass };
        if offset == EthernetHeader::LEN && has_header(packet) {
            return Verdict::Pass;
        }
        if offset == 0 && packet.unpull(EthernetHeader::LEN) {
            if has_header(packet) {
                packet.set_mac_offset(0);
                return Verdict::Pass;
            }
            // What was just given back.
            let _ = packet.pull(EthernetHeader::LEN);
        }
        // The network header lies within the packet.
        let _ = packet.pull(offset);
        if !packet.push(EthernetHeader::LEN) {
            return Verdict::Drop(Reason::NO_MEMORY);
        }
        let _ = self.header.emit(packet.data_mut());
        packet.set_mac_offset(0);
        Verdict::Pass
    }
}

impl Element for EnsureEther {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.ensure(packet));
    }
}
