//! GREDecap: the GRE header off.

use thruway_element::{
    Arguments, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Verdict, reasons,
};
use thruway_packet::{Anno, Batch, Packet};
use thruway_wire::gre::{GreFields, GreHeader};
use thruway_wire::{Header, checksum};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<GreDecap>(Spec {
    name: "GREDecap",
    topic: Topic::Ip,
    summary: "takes GRE headers off packets",
    docs: "Expects packets that begin with a GRE header (RFC 2784, RFC 2890), which is what \
           StripIPHeader leaves of an IP packet of protocol 47, and takes it off. The AGGREGATE \
           annotation becomes its key, 0 where it has none. Packets that have no such header, a \
           wrong checksum, or another protocol or key than PROTOCOL and KEY where these are \
           given, leave by output 1, or are dropped where there is none.",
    example: "InfiniteSource(DATA abc, LIMIT 1, STOP true) -> GREEncap(0x88b5, KEY 5) \
              -> GREDecap(0x88b5) -> Print(ok) -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    straight: true,
    drops: GreDecapDrop::DROPS,
    cost: &[Operation::HeaderMove.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

reasons! {
    /// Why nothing is taken off.
    enum GreDecapDrop {
        Header = "bad-header": "it does not begin with a GRE header of version 0",
        Checksum = "bad-checksum": "the checksum is wrong",
        Protocol = "other-protocol": "it carries another protocol than PROTOCOL",
        Key = "other-key": "it has another key than KEY",
    }
}

#[derive(Arguments, Handlers)]
struct GreDecap {
    /// EtherType of what must be inside
    #[arg(optional)]
    protocol: Option<u16>,
    /// key that it must have
    #[arg(keyword)]
    key: Option<u32>,
}

impl GreDecap {
    #[inline]
    fn decap(&self, packet: &mut Packet) -> Result<(), GreDecapDrop> {
        let parsed = GreHeader::parse_with_options(packet.data());
        let (header, options, payload) = parsed.map_err(|_| GreDecapDrop::Header)?;
        let fields = GreFields::read(header, options);
        if fields.checksum.is_some() && checksum::checksum(packet.data()) != 0 {
            return Err(GreDecapDrop::Checksum);
        }
        if self.protocol.is_some_and(|wanted| wanted != header.protocol()) {
            return Err(GreDecapDrop::Protocol);
        }
        if self.key.is_some() && self.key != fields.key {
            return Err(GreDecapDrop::Key);
        }
        let len = packet.len() - payload.len();
        packet.set_anno_number(Anno::AGGREGATE, fields.key.unwrap_or(0));
        if packet.pull(len) { Ok(()) } else { Err(GreDecapDrop::Header) }
    }
}

impl Element for GreDecap {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| match self.decap(packet) {
            Ok(()) => Verdict::Pass,
            Err(bad) => Verdict::reject(1, bad),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gre_encap;
    use proptest::prelude::*;
    use thruway_elements_rig::Rig;

    proptest! {
        #[test]
        fn round_trip(body in prop::collection::vec(any::<u8>(), 0..60), key: Option<u32>,
                      sequence: bool, checksum: bool, flip in 0usize..64) {
            let mut texts = vec![format!("SEQUENCE {sequence}"), format!("CHECKSUM {checksum}")];
            texts.extend(key.map(|key| format!("KEY {key}")));
            let mut encap = Rig::new(&gre_encap::ENTRY, &texts, 1).unwrap();
            let texts: Vec<String> = key.map(|key| format!("KEY {key}")).into_iter().collect();
            let mut decap = Rig::new(&ENTRY, &texts, 1).unwrap();
            let packet = || Packet::new(&body).unwrap();
            let mut inside = encap.push([packet(), packet()]);
            let mut second = inside[0].pop().unwrap();
            let out = decap.push(inside.remove(0));
            prop_assert_eq!(out[0][0].data(), &body[..]);
            prop_assert_eq!(out[0][0].anno_number(Anno::AGGREGATE), key.unwrap_or(0));
            // One wrong bit: with a checksum it is found.
            if checksum {
                let at = 8 * 4 + flip % (8 * (second.len() - 4));
                second.data_mut()[at / 8] ^= 1 << (at % 8);
                prop_assert!(decap.push([second])[0].is_empty());
            }
        }

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut decap = Rig::new(&ENTRY, &[""; 0], 1).unwrap();
            decap.push([Packet::new(&bytes).unwrap()]);
        }
    }
}
