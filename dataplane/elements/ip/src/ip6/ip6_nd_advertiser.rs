//! IP6NDAdvertiser: says where this host's IPv6 addresses are (RFC 4861 section 7.2.4).

use std::net::Ipv6Addr;

use thruway_element::text::split_words;
use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Ip6Prefix, Operation, Replicas, Spec, Topic, Ty,
    Wants, reasons,
};
use thruway_packet::{Anno, Batch, Packet};
use thruway_wire::MacAddr;
use thruway_wire::ndp::{NeighborMessage, flags};

use super::neighbor::{self, FRAME_LEN};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "IP6NDAdvertiser",
        topic: Topic::Ip6,
        summary: "answers IPv6 neighbour solicitations",
        docs: "Each argument is one or more IPv6 addresses or prefixes and an Ethernet address: \
               neighbour solicitations for those addresses are answered with an advertisement of \
               it. The most specific prefix counts. Solicitations enter with their Ethernet header \
               and come out as advertisements, from the address asked for, with the router and \
               solicited flags; the override flag is set for single addresses and not for \
               prefixes, which are answered by proxy (RFC 4861 section 7.2.4). Duplicate address \
               detection is answered to all nodes. Messages that RFC 4861 section 7.1.1 calls \
               invalid (hop limit other than 255, wrong checksum, ...) and unanswered ones leave \
               by output 1, or are dropped if that is unconnected.",
        example: "InfiniteSource(\\<3333ff000002 020000000001 86dd 6000000000203aff \
                  fe800000000000000000000000000001 ff0200000000000000000001ff000002 \
                  87007a9700000000 fe800000000000000000000000000002 0101020000000001>, LIMIT 1, \
                  STOP true) \
                  -> IP6NDAdvertiser(fe80::2 02:00:00:00:00:02) -> Print(reply) -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        args: &[Arg::rest("ENTRY", Ty::Rule("IP6/MASK... ETH"), "addresses and where they are")],
        drops: Other::DROPS,
        wants: Wants { classes: &["12/86dd 20/3a 54/87"], ..Wants::NOTHING },
        cost: &[
            Operation::HeaderRead.once(),
            Operation::HeaderWrite.times(2.0),
            Operation::ChecksumLine.once(),
        ],
        replicas: Replicas::Alike,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet is not answered.
    enum Other {
        NotSolicitation = "not-solicitation": "it is no valid neighbour solicitation",
        NotOurs = "not-ours": "the solicitation is for an address that has no entry",
    }
}

/// All nodes of the link (RFC 4291 section 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

struct PrefixEntry {
    prefix: Ip6Prefix,
    mac: MacAddr,
}

struct Ip6NdAdvertiser {
    /// The longer prefixes first.
    prefixes: Vec<PrefixEntry>,
}

/// The places of one argument.
fn prefixes(args: &Args<'_>, text: &str) -> Result<Vec<PrefixEntry>, String> {
    let (mut prefixes, mut macs) = (Vec::new(), Vec::new());
    let words = split_words(text);
    for word in &words {
        match (args.parse::<Ip6Prefix>(word), args.parse::<Ipv6Addr>(word)) {
            (Ok(prefix), _) => prefixes.push(prefix),
            (_, Ok(addr)) => prefixes.push(Ip6Prefix { addr, length: 128 }),
            _ => match args.parse::<MacAddr>(word) {
                Ok(mac) => macs.push(mac),
                Err(_) => return Err(format!("'{word}': expected IP6/MASK ETH")),
            },
        }
    }
    // A name may stand for both.
    if macs.is_empty() {
        macs.extend(words.iter().find_map(|word| args.parse::<MacAddr>(word).ok()));
    }
    match (&prefixes[..], &macs[..]) {
        ([], _) => Err("missing IP6/MASK; expected IP6/MASK ETH".into()),
        (_, []) => Err("missing ETH; expected IP6/MASK ETH".into()),
        (_, &[mac]) => Ok(prefixes.into_iter().map(|prefix| PrefixEntry { prefix, mac }).collect()),
        _ => Err("more than one ETH; expected IP6/MASK ETH".into()),
    }
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let mut all = Vec::new();
    for (index, text) in args.rest() {
        all.extend(prefixes(args, text).map_err(|why| args.rest_error(index, why))?);
    }
    all.sort_by_key(|place| std::cmp::Reverse(place.prefix.length));
    Ok(Box::new(Ip6NdAdvertiser { prefixes: all }))
}

/// The advertisement for a solicitation.
fn reply(frame: &[u8], prefixes: &[PrefixEntry]) -> Result<[u8; FRAME_LEN], Other> {
    let asked = neighbor::parse(frame).filter(|found| found.solicits);
    let asked = asked.ok_or(Other::NotSolicitation)?;
    let place = prefixes.iter().find(|place| place.prefix.contains(asked.target));
    let place = place.ok_or(Other::NotOurs)?;
    // RFC 4861 section 7.2.4
    let detection = asked.src.is_unspecified();
    let solicited = if detection { 0 } else { flags::SOLICITED };
    let overrides = if place.prefix.length == 128 { flags::OVERRIDE } else { 0 };
    let message =
        NeighborMessage::advertisement(asked.target, flags::ROUTER | solicited | overrides);
    let (to, to_mac) = match detection {
        true => (ALL_NODES, MacAddr::ipv6_multicast(ALL_NODES)),
        false => (asked.src, asked.link.unwrap_or(asked.ether_src)),
    };
    Ok(neighbor::frame(&message, (place.mac, to_mac), (asked.target, to)))
}

impl Ip6NdAdvertiser {
    fn answer(&self, cx: &mut Cx<'_>, packet: Packet) {
        let reply = match reply(packet.data(), &self.prefixes) {
            Ok(reply) => reply,
            Err(other) => return cx.reject(1, other, packet),
        };
        let Some(mut answer) = cx.packet(&reply) else { return };
        answer.set_mac_offset(0);
        answer.set_anno_number(Anno::VLAN_TCI, packet.anno_number(Anno::VLAN_TCI));
        cx.emit(0, answer);
    }
}

impl Element for Ip6NdAdvertiser {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            self.answer(cx, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thruway_wire::ndp;

    const ME: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    fn ip(n: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n)
    }

    fn asked(target: Ipv6Addr) -> [u8; FRAME_LEN] {
        let to = ndp::solicited_node(target);
        let message = NeighborMessage::solicitation(target);
        neighbor::frame(&message, (HOST, MacAddr::ipv6_multicast(to)), (ip(9), to))
    }

    fn prefixes() -> Vec<PrefixEntry> {
        let of = |addr, length| PrefixEntry { prefix: Ip6Prefix { addr, length }, mac: ME };
        vec![of(ip(1), 128), of(Ipv6Addr::new(0xfe80, 1, 0, 0, 0, 0, 0, 0), 32)]
    }

    #[test]
    fn the_answer_is_a_valid_advertisement() {
        let reply = reply(&asked(ip(1)), &prefixes()).unwrap();
        assert_eq!((&reply[..6], &reply[6..12]), (&HOST.0[..], &ME.0[..]));
        let found = neighbor::parse(&reply).unwrap();
        assert_eq!((found.target, found.link, found.src), (ip(1), Some(ME), ip(1)));
        assert_eq!(found.flags, 0xe000_0000);
    }

    #[test]
    fn proxies_do_not_override_and_others_are_not_answered() {
        let target = Ipv6Addr::new(0xfe80, 1, 2, 0, 0, 0, 0, 3);
        let found = neighbor::parse(&reply(&asked(target), &prefixes()).unwrap()).unwrap();
        assert_eq!(found.flags, 0xc000_0000);
        assert_eq!(reply(&asked(ip(3)), &prefixes()), Err(Other::NotOurs));
        let answer = reply(&asked(ip(1)), &prefixes()).unwrap();
        assert_eq!(reply(&answer, &prefixes()), Err(Other::NotSolicitation));
    }

    #[test]
    fn duplicate_address_detection_is_answered_to_all() {
        let to = ndp::solicited_node(ip(1));
        let message = NeighborMessage::solicitation(ip(1));
        let ethers = (HOST, MacAddr::ipv6_multicast(to));
        let mut probe = neighbor::frame(&message, ethers, (Ipv6Addr::UNSPECIFIED, to)).to_vec();
        probe.truncate(FRAME_LEN - 8);
        probe[19] = 24;
        let (header, _) = thruway_wire::Header::view(&probe[14..]).unwrap();
        let header: &thruway_wire::ipv6::Ipv6Header = header;
        let sum = header.pseudo_sum(58, 24);
        thruway_wire::icmpv6::Icmpv6Header::fill_checksum(&mut probe[54..], sum).unwrap();
        let reply = reply(&probe, &prefixes()).unwrap();
        assert_eq!(reply[..6], [0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(neighbor::parse(&reply).unwrap().flags, 0xa000_0000);
    }
}
