//! DecIPTTL: one hop less.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, ShortCut, Spec, Topic,
    Verdict, reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::checksum::Delta;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<DecIpTtl>(Spec {
    name: "DecIPTTL",
    topic: Topic::Ip,
    summary: "decrements IP time-to-live, drops dead packets",
    docs: "Expects IP packets whose network header is marked (CheckIPHeader, MarkIPHeader). A \
           packet with a time-to-live above 1 has it decremented and its checksum updated \
           incrementally (RFC 1624), and goes out of output 0. The others go out of output 1, \
           or are dropped where there is none; usually an ICMPError is connected there (RFC \
           1812 section 5.3.1).",
    example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
              -> CheckIPHeader -> DecIPTTL -> Print(ok) -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    straight: true,
    drops: Dead::DROPS,
    cost: &[Operation::TtlDecrement.once()],
    changes: Changes::Headers,
    replicas: Replicas::Alike,
    short_cut: ShortCut::Passes,
    large_packets: true,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet goes no further.
    pub(super) enum Dead {
        Expired = "expired": "its time-to-live was 1 or 0",
        NoHeader = "no-ip-header": "no IP header is marked",
    }
}

#[derive(Arguments, Handlers)]
struct DecIpTtl {
    /// packets with an expired time-to-live
    #[handler(sum)]
    drops: u64,
    /// whether anything is done
    #[arg(keyword, or = "true")]
    #[handler(both)]
    active: bool,
    /// whether multicast packets are decremented
    #[arg(keyword, or = "true")]
    multicast: bool,
}

/// The time-to-live is the high byte of the word that it shares with the protocol: the checksum
/// changes by the same amount whatever they are.
///
/// PERF: of words in the order of this machine's bytes, which give the same sum (RFC 1071 section
/// 1.2 B).
const ONE_LESS: Delta = Delta::of_u16(u16::from_ne_bytes([1, 0]), 0);

/// One hop less, the checksum updated.
#[inline]
pub(super) fn decrement(packet: &mut Packet, multicast: bool) -> Result<(), Dead> {
    let header = packet.network_head_mut::<20>().ok_or(Dead::NoHeader)?;
    if !multicast && header[16] & 0xf0 == 0xe0 {
        return Ok(());
    }
    if header[8] <= 1 {
        return Err(Dead::Expired);
    }
    header[8] -= 1;
    let sum = u16::from_ne_bytes([header[10], header[11]]);
    [header[10], header[11]] = ONE_LESS.apply(sum).to_ne_bytes();
    Ok(())
}

impl Element for DecIpTtl {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if !self.active {
            return;
        }
        let before = batch.len();
        cx.filter(batch, |packet| match decrement(packet, self.multicast) {
            Ok(()) => Verdict::Pass,
            Err(dead) => Verdict::reject(1, dead),
        });
        self.drops += (before - batch.len()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_wire::Header;
    use thruway_wire::ipv4::Ipv4Header;

    proptest! {
        #[test]
        fn checksum_as_recomputed(ttl: u8, protocol: u8, src: u32, dst: u32, tos: u8, id: u16) {
            let mut header = Ipv4Header::new(protocol, src.into(), dst.into(), 0).unwrap();
            header.set_ttl(ttl);
            header.set_tos(tos);
            header.set_id(id);
            header.fill_checksum(&[]);
            let mut bytes = [0; 20];
            header.emit(&mut bytes).unwrap();
            let mut packet = Packet::new(&bytes).unwrap();
            prop_assert_eq!(decrement(&mut packet, true), Err(Dead::NoHeader));
            packet.set_network(0, 20);
            if ttl <= 1 {
                prop_assert_eq!(decrement(&mut packet, true), Err(Dead::Expired));
                prop_assert_eq!(packet.data(), bytes);
                return Ok(());
            }
            prop_assert_eq!(decrement(&mut packet, true), Ok(()));
            header.set_ttl(ttl - 1);
            header.fill_checksum(&[]);
            header.emit(&mut bytes).unwrap();
            prop_assert_eq!(packet.data(), bytes);
        }
    }

    #[test]
    fn multicast_can_be_spared() {
        let header = Ipv4Header::new(17, [1, 0, 0, 1].into(), [224, 0, 0, 1].into(), 0).unwrap();
        let mut bytes = [0; 20];
        header.emit(&mut bytes).unwrap();
        let mut packet = Packet::new(&bytes).unwrap();
        packet.set_network(0, 20);
        assert_eq!(decrement(&mut packet, false), Ok(()));
        assert_eq!(packet.data()[8], 64);
        assert_eq!(decrement(&mut packet, true), Ok(()));
        assert_eq!(packet.data()[8], 63);
    }
}
