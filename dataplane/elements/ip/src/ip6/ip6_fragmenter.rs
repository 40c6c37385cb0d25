//! IP6Fragmenter: long IPv6 packets into fragments (RFC 8200 section 4.5).

use thruway_element::{
    Arguments, Cx, Element, Entry, Handlers, Operation, Reason, Replicas, Spec, Topic, reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::ip_protocol::{FRAGMENT, HOP_BY_HOP, ROUTING};
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::ipv6_ext::{Extensions, FragmentHeader};

use thruway_elements_support::random::Secret;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Ip6Fragmenter>(Spec {
    name: "IP6Fragmenter",
    topic: Topic::Ip6,
    summary: "cuts long IPv6 packets into fragments",
    docs: "Expects marked IPv6 headers. Packets of up to MTU bytes pass; longer ones are cut into \
           fragments (RFC 8200 section 4.5), which leave by output 0 in order with the annotations \
           of the packet. Each has the IPv6 header and the hop-by-hop and routing headers of the \
           packet, and a fragment header. Only a packet's source may do that: a router answers \
           with ICMP6Error(..., pkttoobig). A packet that is a fragment already, or has a header \
           that is invalid or leaves no room for 8 bytes, leaves by output 1, or is dropped if \
           that is unconnected.",
    example: "InfiniteSource(\\<6000000000003b4020010db8000000000000000000000001 \
              20010db8000000000000000000000002>, LIMIT 1, STOP true) -> CheckIP6Header \
              -> IP6Fragmenter(1280) -> Print(ok) -> Discard",
    ports: "1/1-2",
    processing: "h/h",
    drops: Ip6FragmenterDrop::DROPS,
    cost: &[Operation::HeaderRead.once()],
    replicas: Replicas::Apart("each draws identifications of its own"),
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet cannot be fragmented.
    enum Ip6FragmenterDrop {
        NoRoom = "no-room": "its headers leave no room for 8 bytes of data",
        Fragment = "fragment": "it is too long and a fragment already",
        Malformed = "bad-ip6-header": "no sound IPv6 header is marked",
    }
}

#[derive(Arguments, Handlers)]
struct Ip6Fragmenter {
    /// packets that could not be fragmented
    #[handler(sum)]
    drops: u64,
    /// fragments made
    #[handler(sum)]
    fragments: u64,
    /// longest packet in bytes, IPv6 header included
    #[arg(required)]
    mtu: usize,
    /// For identifications, which must be unpredictable (RFC 7739 section 5.2): an attacker that
    /// predicts one could insert a fragment of its own into a packet.
    #[new(Secret::fresh())]
    ids: Secret,
}

/// How a packet is to be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    /// Where the headers that every fragment has end.
    head_len: usize,
    /// Where the byte stands that says what follows them.
    next_at: usize,
    /// Where the packet ends.
    end: usize,
    /// Bytes of data in all fragments but the last.
    step: usize,
}

/// How to cut a packet that begins with its IPv6 header.
fn plan(network: &[u8], mtu: usize) -> Result<Plan, Ip6FragmenterDrop> {
    let (ip, payload) = Ipv6Header::parse(network).map_err(|_| Ip6FragmenterDrop::Malformed)?;
    let (mut head_len, mut next_at) = (Ipv6Header::LEN, NEXT_HEADER);
    for extension in Extensions::new(ip.next_header(), payload) {
        let extension = extension.map_err(|_| Ip6FragmenterDrop::Malformed)?;
        let at = Ipv6Header::LEN + extension.offset;
        match extension.kind {
            FRAGMENT => return Err(Ip6FragmenterDrop::Fragment),
            HOP_BY_HOP | ROUTING => {
                (head_len, next_at) = (at + extension.bytes.len(), at);
            }
            _ => {}
        }
    }
    let room = mtu.saturating_sub(head_len + FragmentHeader::LEN) & !7;
    if room == 0 {
        return Err(Ip6FragmenterDrop::NoRoom);
    }
    Ok(Plan { head_len, next_at, end: Ipv6Header::LEN + payload.len(), step: room })
}

/// Where the IPv6 header says what follows it.
const NEXT_HEADER: usize = 6;

/// The fragment with the data from `from` to `to`; `None` when packet memory is used up.
fn fragment(network: &[u8], plan: &Plan, from: usize, to: usize, id: u32) -> Option<Packet> {
    let head = &network[..plan.head_len];
    let mut packet = Packet::zeroed(plan.head_len + FragmentHeader::LEN + to - from)?;
    let data = packet.data_mut();
    data[..plan.head_len].copy_from_slice(head);
    data[plan.next_at] = FRAGMENT;
    let payload_len = data.len() - Ipv6Header::LEN;
    // Not longer than the packet was.
    data[4..6].copy_from_slice(&(payload_len as u16).to_be_bytes());
    let offset = (from - plan.head_len) as u16;
    let header = FragmentHeader::new(head[plan.next_at], offset, to < plan.end, id);
    header.emit(&mut data[plan.head_len..]).ok()?.copy_from_slice(&network[from..to]);
    packet.set_network(0, Ipv6Header::LEN);
    Some(packet)
}

impl Ip6Fragmenter {
    fn cut(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let network = packet.network();
        let plan = match plan(network, self.mtu) {
            Ok(plan) => plan,
            Err(bad) => {
                self.drops += 1;
                return cx.reject(1, bad, packet);
            }
        };
        let (id, mut from) = (self.ids.next_u64() as u32, plan.head_len);
        while from < plan.end {
            let to = (from + plan.step).min(plan.end);
            let Some(mut piece) = fragment(network, &plan, from, to, id) else {
                cx.count_drops(Reason::NO_MEMORY, 1);
                break;
            };
            piece.copy_annotations(&packet);
            self.fragments += 1;
            cx.emit(0, piece);
            from = to;
        }
    }
}

impl Element for Ip6Fragmenter {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            let len = packet.network().len();
            if len == 0 {
                self.drops += 1;
                cx.reject(1, Ip6FragmenterDrop::Malformed, packet);
            } else if len <= self.mtu {
                cx.emit(0, packet);
            } else {
                self.cut(cx, packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_elements_rig::Rig;

    proptest! {
        /// No fragment is too long, and their data in a row are the packet's.
        #[test]
        fn together_again(len in 0usize..400, mtu in 57usize..200, options: bool) {
            let extension = [17u8, 0, 1, 4, 0, 0, 0, 0];
            let head = if options { &extension[..] } else { &[] };
            let body: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let payload = [head, &body].concat();
            let mut bytes = vec![0x60, 0, 0, 0];
            bytes.extend((payload.len() as u16).to_be_bytes());
            bytes.extend([if options { HOP_BY_HOP } else { 17 }, 64]);
            bytes.extend([1; 32]);
            bytes.extend(&payload);
            let mut packet = Packet::new(&bytes).unwrap();
            packet.set_network(0, 40);
            let mut rig = Rig::new(&ENTRY, &[mtu.to_string()], 2).unwrap();
            let out = rig.push([packet]);
            if bytes.len() <= mtu {
                prop_assert_eq!(out[0][0].data(), &bytes[..]);
                return Ok(());
            }
            let head_len = 40 + head.len();
            if mtu < head_len + 16 {
                prop_assert_eq!(out[1].len(), 1);
                return Ok(());
            }
            let mut together: Vec<u8> = Vec::new();
            for piece in &out[0] {
                prop_assert!(piece.len() <= mtu);
                let (ip, _) = Ipv6Header::parse(piece.data()).unwrap();
                prop_assert_eq!(usize::from(ip.payload_len()) + 40, piece.len());
                let at = if options { 40 } else { 6 };
                prop_assert_eq!(piece.data()[at], FRAGMENT);
                let (header, data) = FragmentHeader::parse(&piece.data()[head_len..]).unwrap();
                prop_assert_eq!((header.next_header(), usize::from(header.offset())), (17, together.len()));
                together.extend(data);
                prop_assert_eq!(header.more_fragments(), together.len() < len);
            }
            prop_assert_eq!(together, body);
        }

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..120), fix: bool) {
            let mut bytes = bytes;
            if fix && bytes.len() >= 40 {
                let len = (bytes.len() - 40) as u16;
                bytes[0] = 0x60;
                bytes[4..6].copy_from_slice(&len.to_be_bytes());
                bytes[6] = [HOP_BY_HOP, ROUTING, FRAGMENT, 60][usize::from(bytes[6] & 3)];
            }
            let mut packet = Packet::new(&bytes).unwrap();
            packet.set_network(0, 40);
            Rig::new(&ENTRY, &["60"], 2).unwrap().push([packet]);
        }
    }
}
