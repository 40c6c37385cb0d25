//! IPOutputCombo: what a router does with packets last, in one element.

use std::net::Ipv4Addr;

use thruway_element::{
    Arguments, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Verdict, reasons,
};
use thruway_packet::{Anno, Batch, Packet, PacketKind};

use super::dec_ip_ttl::decrement;
use super::fix_ip_src::fix;
use super::ipgw_options::Gateway;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<IpOutputCombo>(Spec {
    name: "IPOutputCombo",
    topic: Topic::Ip,
    summary: "does the output processing of an IP router",
    docs: "Does with every packet what DropBroadcasts -> PaintTee(COLOR) -> IPGWOptions(IPADDR) \
           -> FixIPSrc(IPADDR) -> DecIPTTL would do, and then looks at its length. Copies of \
           packets with the paint leave by output 1, packets with bad options by output 2, \
           expired ones by output 3, and those of more than MTU bytes by output 4: an \
           IPFragmenter belongs there.",
    example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
              -> CheckIPHeader -> o :: IPOutputCombo(1, 1.0.0.1, 1500) -> Print(ok) -> Discard; \
              o[1] -> d :: Discard; o[2] -> d; o[3] -> d; o[4] -> d",
    ports: "1/5",
    processing: "h/h",
    drops: IpOutputComboDrop::DROPS,
    cost: &[Operation::TtlDecrement.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet is not forwarded.
    enum IpOutputComboDrop {
        ToMany = "to-many": "it was sent to several stations of the link",
        Option = "bad-option": "an option has a bad length, pointer or flag",
        NoHeader = "no-ip-header": "no sound IP header is marked",
        Expired = "expired": "its time-to-live was 1 or 0",
        TooLong = "too-long": "it has more than MTU bytes",
    }
}

#[derive(Arguments, Handlers)]
struct IpOutputCombo {
    /// the paint, 0 to 255
    #[arg(required)]
    color: u8,
    /// this router's address on the link
    #[arg(required, name = "IPADDR")]
    addr: Ipv4Addr,
    /// most bytes a packet may have
    #[arg(required)]
    mtu: usize,
    #[new(Gateway::new(addr.octets()))]
    gateway: Gateway,
}

impl IpOutputCombo {
    /// All but the copy.
    #[inline]
    fn judge(&self, packet: &mut Packet, now: i64) -> Verdict {
        let network = packet.network_mut();
        if network.first().is_some_and(|first| *first != 0x45) {
            match self.gateway.rewrite(network, now) {
                Ok(()) => {}
                Err(None) => return Verdict::drop(IpOutputComboDrop::NoHeader),
                Err(Some(offset)) => {
                    packet.set_anno_number(Anno::ICMP_PARAM, offset as u32);
                    return Verdict::reject(2, IpOutputComboDrop::Option);
                }
            }
        }
        if packet.anno_number(Anno::FIX_IP_SRC) != 0 {
            fix(packet, self.addr);
        }
        match decrement(packet, true) {
            Ok(()) if packet.len() > self.mtu => Verdict::reject(4, IpOutputComboDrop::TooLong),
            Ok(()) => Verdict::Pass,
            Err(super::dec_ip_ttl::Dead::Expired) => Verdict::reject(3, IpOutputComboDrop::Expired),
            Err(super::dec_ip_ttl::Dead::NoHeader) => Verdict::drop(IpOutputComboDrop::NoHeader),
        }
    }
}

impl Element for IpOutputCombo {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let now = cx.now();
        for mut packet in batch.drain() {
            if matches!(packet.kind(), PacketKind::Broadcast | PacketKind::Multicast) {
                cx.drop(IpOutputComboDrop::ToMany, packet);
                continue;
            }
            if packet.paint() == self.color
                && let Some(copy) = cx.duplicate(&packet)
            {
                cx.emit(1, copy);
            }
            let verdict = self.judge(&mut packet, now);
            cx.apply(packet, verdict);
        }
    }
}
