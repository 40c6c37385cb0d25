//! Packets that a switch reads otherwise than a chain: rules before all others leave them to the
//! host.
//!
//! What a switch reads was looked up in Open vSwitch (`lib/flow.c`, `miniflow_extract`): of an IP
//! header that is not right it keeps the EtherType, and zeros for everything behind it; of a
//! transport header that is cut off, the protocol.

use thruway_wire::ethernet::ethertype;

use crate::rule_table::fallback::Fallback;
use crate::rule_table::fields::{Field, Protocol};
use crate::rule_table::matches::Match;
use crate::rule_table::words::{ICMP, ICMP6, IPV4, IPV6, SCTP, TCP, UDP};
use crate::tags::TagKind;

/// Bit of [`Field::Vlan`] that says that there is a tag.
pub const VLAN_PRESENT: u128 = 0x1000;
/// What a switch takes for the EtherType of a frame with a length there.
const LENGTH: u128 = 0x05ff;
/// An EtherType of VLAN tags that a chain knows and OpenFlow does not.
const OLD_DOUBLE_TAG: u128 = 0x9100;
/// Types of ICMP errors: RFC 792, RFC 4443 section 2.1.
const ERRORS4: [u128; 5] = [3, 4, 5, 11, 12];
const ERRORS6: [u128; 4] = [1, 2, 3, 4];

/// What the rules behind look at and do.
pub(crate) struct Needs {
    pub protocol: Protocol,
    /// What carries the tags.
    pub tags: TagKind,
    /// Whether some packets are dropped.
    pub drops: bool,
    /// Whether the chain has sessions.
    pub sessions: bool,
    /// Fields that are looked at.
    pub fields: Vec<Field>,
}

/// The guards, each with why its packets are the host's.
pub(crate) fn guards(needs: &Needs) -> Vec<(Match, Fallback)> {
    let looks_at = |field: Field| needs.fields.contains(&field);
    let mut guards = vec![
        (any().and(Field::Vlan, VLAN_PRESENT, VLAN_PRESENT), Fallback::Vlan),
        (any().and(Field::EthType, OLD_DOUBLE_TAG, 0xffff), Fallback::Vlan),
        (any().and(Field::EthType, LENGTH, 0xffff), Fallback::Length),
    ];
    if needs.tags == TagKind::Mpls {
        let labels = [ethertype::MPLS, ethertype::MPLS_UPSTREAM];
        let of = |label: u16| any().and(Field::EthType, label.into(), 0xffff);
        guards.extend(labels.map(|label| (of(label), Fallback::Label)));
    }
    for (ethertype, src, dst) in
        [(IPV4, Field::Ipv4Src, Field::Ipv4Dst), (IPV6, Field::Ipv6Src, Field::Ipv6Dst)]
    {
        if needs.protocol.has(Field::IpFragment) {
            let fragments = Match::of(Field::EthType, ethertype).and(Field::IpFragment, 1, 1);
            guards.push((fragments, Fallback::Fragment));
        }
        let zeros = protocol(ethertype, 0).and(src, 0, src.all());
        guards.push((zeros.and_then(|zeros| zeros.and(dst, 0, dst.all())), Fallback::Zeros));
        if looks_at(Field::PortSrc) || looks_at(Field::PortDst) || looks_at(Field::TcpFlags) {
            let none = |of: u128| {
                let ports = protocol(ethertype, of).and(Field::PortSrc, 0, 0xffff)?;
                ports.and(Field::PortDst, 0, 0xffff)
            };
            guards.extend([TCP, UDP, SCTP].map(|of| (none(of), Fallback::Zeros)));
        }
        let (icmp, errors): (u128, &[u128]) =
            if ethertype == IPV4 { (ICMP, &ERRORS4) } else { (ICMP6, &ERRORS6) };
        if looks_at(Field::IcmpType) || looks_at(Field::IcmpCode) {
            let zeros = protocol(ethertype, icmp).and(Field::IcmpType, 0, 0xff);
            let zeros = zeros.and_then(|zeros| zeros.and(Field::IcmpCode, 0, 0xff));
            guards.push((zeros, Fallback::Zeros));
        }
        if needs.drops && needs.sessions {
            let of = |error: &u128| protocol(ethertype, icmp).and(Field::IcmpType, *error, 0xff);
            guards.extend(errors.iter().map(|error| (of(error), Fallback::IcmpError)));
        }
    }
    guards.into_iter().filter_map(|(matches, fallback)| Some((matches?, fallback))).collect()
}

fn any() -> Match {
    Match::ANY
}

fn protocol(ethertype: u128, protocol: u128) -> Match {
    let ip = Match::of(Field::EthType, ethertype);
    // Another field than the first, so there is no contradiction.
    ip.and(Field::IpProtocol, protocol, 0xff).unwrap_or(ip)
}
