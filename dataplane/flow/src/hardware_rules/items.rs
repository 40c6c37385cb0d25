//! A rule in headers with masks, as rte_flow has them.

use crate::rule_table::words::{ICMP, ICMP6, IPV4, IPV6, SCTP, TCP, UDP};
use crate::rule_table::{Field, Match};

use super::Guards;

/// Bytes of the longest header of an item: IPv6 (RFC 8200, section 3).
pub const HEADER_LEN_MAX: usize = 40;

/// Which header an item is about: `RTE_FLOW_ITEM_TYPE_*` (DPDK, rte_flow.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Header {
    /// Destination, source and type.
    Ethernet = 0,
    /// RFC 791, section 3.1.
    Ipv4 = 1,
    /// RFC 8200, section 3.
    Ipv6 = 2,
    /// RFC 9293, section 3.1.
    Tcp = 3,
    /// RFC 768.
    Udp = 4,
    /// RFC 9260, section 3.
    Sctp = 5,
    /// RFC 792.
    Icmp = 6,
    /// RFC 4443, section 2.1.
    Icmp6 = 7,
}

/// What a packet's header must look like: equal to `spec` in the bits of `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Which header.
    pub header: Header,
    /// The header's bytes, in the network's order.
    pub spec: [u8; HEADER_LEN_MAX],
    /// The bits that count.
    pub mask: [u8; HEADER_LEN_MAX],
    /// Of Ethernet: no VLAN tag follows (`has_vlan`); of IPv6: no extension header (`has_*_ext`).
    pub alone: bool,
}

impl Item {
    fn new(header: Header) -> Item {
        Item { header, spec: [0; HEADER_LEN_MAX], mask: [0; HEADER_LEN_MAX], alone: false }
    }

    /// Puts a field of a match at a bit of the header, counted from its first byte's highest.
    fn put(&mut self, matches: &Match, field: Field, bit: u32) {
        let (value, mask) = matches.get(field);
        for at in 0..field.bits() {
            let from = field.bits() - 1 - at;
            let (to, shift) = (((bit + at) / 8) as usize, 7 - (bit + at) % 8);
            self.spec[to] |= ((value >> from & 1) as u8) << shift;
            self.mask[to] |= ((mask >> from & 1) as u8) << shift;
        }
    }

    /// Whether a header of a packet looks like that; one that is cut off does not.
    pub fn holds(&self, header: &[u8]) -> bool {
        let bytes = self.mask.iter().zip(&self.spec).enumerate();
        let mut looked_at = bytes.filter(|(_, (mask, _))| **mask != 0);
        looked_at.all(|(at, (mask, spec))| header.get(at).is_some_and(|byte| byte & mask == *spec))
    }
}

/// The items of a match, from the outermost header on; `None` if no header has one of the fields.
pub(super) fn items(matches: &Match, guards: Guards) -> Option<Vec<Item>> {
    let mut ethernet = Item::new(Header::Ethernet);
    ethernet.put(matches, Field::EthDst, 0);
    ethernet.put(matches, Field::EthSrc, 48);
    ethernet.put(matches, Field::EthType, 96);
    ethernet.alone = guards.tags;
    let mut items = vec![ethernet];
    let transport = transport(matches);
    let ip = match matches.exact(Field::EthType) {
        Some(IPV4) => ipv4(matches, guards),
        Some(IPV6) => ipv6(matches, guards),
        _ if needs_ip(matches) => return None,
        _ => return Some(items),
    };
    items.push(ip);
    match transport {
        // The item stands for the protocol.
        Some(transport) => items.push(transport),
        None if needs_transport(matches) => return None,
        None => {
            let (ip, bit) = items.last_mut().map(|ip| (ip, protocol_bit(matches)))?;
            ip.put(matches, Field::IpProtocol, bit);
        }
    }
    Some(items)
}

fn needs_transport(matches: &Match) -> bool {
    let fields =
        [Field::PortSrc, Field::PortDst, Field::IcmpType, Field::IcmpCode, Field::TcpFlags];
    fields.into_iter().any(|field| matches.looks_at(field))
}

fn needs_ip(matches: &Match) -> bool {
    let fields = [Field::IpProtocol, Field::IpDscp, Field::IpEcn, Field::IpTtl, Field::Ipv4Src];
    let others = [Field::Ipv4Dst, Field::Ipv6Src, Field::Ipv6Dst];
    let mut all = fields.into_iter().chain(others);
    needs_transport(matches) || all.any(|field| matches.looks_at(field))
}

fn protocol_bit(matches: &Match) -> u32 {
    if matches.exact(Field::EthType) == Some(IPV4) { 72 } else { 48 }
}

/// RFC 791, section 3.1.
fn ipv4(matches: &Match, guards: Guards) -> Item {
    let mut item = Item::new(Header::Ipv4);
    item.put(matches, Field::IpDscp, 8);
    item.put(matches, Field::IpEcn, 14);
    item.put(matches, Field::IpTtl, 64);
    item.put(matches, Field::Ipv4Src, 96);
    item.put(matches, Field::Ipv4Dst, 128);
    if guards.pieces {
        // No more fragments, no offset.
        (item.mask[6], item.mask[7]) = (0x3f, 0xff);
    }
    item
}

/// RFC 8200, section 3.
fn ipv6(matches: &Match, guards: Guards) -> Item {
    let mut item = Item::new(Header::Ipv6);
    item.put(matches, Field::IpDscp, 4);
    item.put(matches, Field::IpEcn, 10);
    item.put(matches, Field::IpTtl, 56);
    item.put(matches, Field::Ipv6Src, 64);
    item.put(matches, Field::Ipv6Dst, 192);
    item.alone = guards.pieces;
    item
}

/// The item of the transport header, where the match looks at it.
fn transport(matches: &Match) -> Option<Item> {
    let (ip, protocol) = (matches.exact(Field::EthType)?, matches.exact(Field::IpProtocol)?);
    let header = match (ip, protocol) {
        (_, TCP) => Header::Tcp,
        (_, UDP) => Header::Udp,
        (_, SCTP) => Header::Sctp,
        (IPV4, ICMP) => Header::Icmp,
        (IPV6, ICMP6) => Header::Icmp6,
        _ => return None,
    };
    let mut item = Item::new(header);
    match header {
        Header::Icmp | Header::Icmp6 => {
            item.put(matches, Field::IcmpType, 0);
            item.put(matches, Field::IcmpCode, 8);
        }
        _ => {
            item.put(matches, Field::PortSrc, 0);
            item.put(matches, Field::PortDst, 16);
        }
    }
    if header == Header::Tcp {
        item.put(matches, Field::TcpFlags, 100);
    }
    needs_transport(matches).then_some(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_headers_have_them() {
        let syn = Match::of(Field::EthType, IPV4)
            .and(Field::IpProtocol, TCP, 0xff)
            .and_then(|syn| syn.and(Field::TcpFlags, 2, 0x12))
            .and_then(|syn| syn.and(Field::PortDst, 80, 0xffff))
            .and_then(|syn| syn.and(Field::Ipv4Src, 0x0a01_0000, 0xffff_0000))
            .and_then(|syn| syn.and(Field::IpDscp, 46, 0x3f))
            .unwrap();
        let all = items(&syn, Guards { tags: true, pieces: true }).unwrap();
        assert_eq!(all.iter().map(|item| item.header as u8).collect::<Vec<_>>(), [0, 1, 3]);
        let [ethernet, ip, tcp] = all[..] else { panic!("{all:?}") };
        assert_eq!((&ethernet.spec[12..14], ethernet.alone), (&[8, 0][..], true));
        assert_eq!((ip.spec[1], ip.mask[1], ip.mask[9]), (46 << 2, 0xfc, 0), "of the TCP item");
        assert_eq!(
            (&ip.spec[12..16], &ip.mask[12..16]),
            (&[10, 1, 0, 0][..], &[255, 255, 0, 0][..])
        );
        assert_eq!((&ip.spec[6..8], &ip.mask[6..8]), (&[0, 0][..], &[0x3f, 0xff][..]));
        assert_eq!((tcp.spec[3], tcp.spec[13], tcp.mask[12], tcp.mask[13]), (80, 2, 0, 0x12));
        let six = Match::of(Field::EthType, IPV6).and(Field::IpProtocol, 17, 0xff).unwrap();
        let six = six.and(Field::Ipv6Dst, 1, 0xff).unwrap().and(Field::IpTtl, 3, 0xff).unwrap();
        let six = six.and(Field::IpEcn, 1, 3).unwrap();
        let all = items(&six, Guards::default()).unwrap();
        assert_eq!((all.len(), all[1].spec[6], all[1].mask[6], all[1].alone), (2, 17, 0xff, false));
        assert_eq!((all[1].spec[39], all[1].mask[39], all[1].spec[7]), (1, 0xff, 3));
        assert_eq!((all[1].spec[1], all[1].mask[1]), (0x10, 0x30));
    }

    #[test]
    fn what_no_item_has_is_told() {
        let ports = Match::ANY.and(Field::PortDst, 80, 0xffff).unwrap();
        assert_eq!(items(&ports, Guards::default()), None, "of which protocol?");
        let other = Match::of(Field::EthType, IPV4).and(Field::IpProtocol, ICMP6, 0xff).unwrap();
        assert!(items(&other, Guards::default()).is_some());
        let kind = other.and(Field::IcmpType, 1, 0xff).unwrap();
        assert_eq!(items(&kind, Guards::default()), None, "ICMP for IPv6 in IPv4");
    }
}
