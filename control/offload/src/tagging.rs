//! How the rules of a switch tag packets: the one place where the kinds of tags differ.

use thruway_flow::decision::LeafId;
use thruway_flow::tags::{self, Generation, TagKind};

use crate::fallback::Fallback;
use crate::guards::VLAN_PRESENT;
use crate::table::{Rule, Verdict};
use crate::words::IPV6;
use crate::{Field, Match};

/// The option's value begins with the number.
const OPTION_SHIFT: u32 = 8 * (tags::OPTION_LEN as u32 - 2);

/// The tags that rules give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tagging {
    /// What carries them.
    pub kind: TagKind,
    /// Which numbers they have.
    pub generation: Generation,
    /// Of [`TagKind::Metadata`]: the switch's field `tun_metadata` for the option, by its number.
    pub option: u8,
}

/// What stands in the field that carries a class: the number of a VLAN, a label, a number.
pub fn shown(kind: TagKind, generation: Generation, class: LeafId, matches: &Match) -> Option<u32> {
    let number = kind.number(generation, class)?;
    let is_ipv6 = matches.exact(Field::EthType) == Some(IPV6);
    Some(if kind == TagKind::Mpls { tags::label(number, is_ipv6) } else { number })
}

impl Tagging {
    /// What a switch does with the packets of a rule that it sends to this port, in the notation of
    /// ovs-actions(7).
    pub fn actions(&self, rule: &Rule, host: &str) -> String {
        let tag = match rule.verdict {
            Verdict::Drop(_) => return "drop".to_owned(),
            Verdict::Class(class) => self.of_class(class, &rule.matches),
            Verdict::Software(fallback) => self.of_none(fallback),
        };
        tag.map_or_else(String::new, |tag| tag + ",") + &format!("output:{host}")
    }

    fn of_class(&self, class: LeafId, matches: &Match) -> Option<String> {
        let value = shown(self.kind, self.generation, class, matches)?;
        Some(match self.kind {
            TagKind::Vlan => vlan(value),
            TagKind::Mpls => format!("push_mpls:{:#06x},set_field:{value}->mpls_label", tags::MPLS),
            TagKind::Metadata => self.metadata(value),
        })
    }

    /// Lest what the packet brings is taken for the tag of a class.
    fn of_none(&self, fallback: Fallback) -> Option<String> {
        let is_forgeable = match self.kind {
            TagKind::Vlan => fallback == Fallback::Vlan,
            // In front of a label, too: a switch reads three labels at most, and pushes no fourth.
            TagKind::Mpls => matches!(fallback, Fallback::Vlan | Fallback::Label),
            // A packet that came by Geneve has the option that it came with.
            TagKind::Metadata => return Some(self.metadata(0)),
        };
        is_forgeable.then(|| vlan(tags::UNCLASSIFIED.into()))
    }

    fn metadata(&self, number: u32) -> String {
        format!("set_field:{:#x}->tun_metadata{}", number << OPTION_SHIFT, self.option)
    }
}

fn vlan(number: u32) -> String {
    format!("push_vlan:{:#06x},set_field:{}->vlan_vid", tags::VLAN, VLAN_PRESENT as u32 | number)
}

/// The generation of the tags of this kind that rules give, as `ovs-ofctl` prints them; `None` if
/// they give none.
pub(crate) fn generation(kind: TagKind, dump: &str) -> Option<Generation> {
    let set = dump.split("set_field:").filter_map(|rest| rest.split_once("->"));
    let numbers = set.filter_map(|(value, rest)| {
        let value = number(value)?;
        match kind {
            TagKind::Vlan if rest.starts_with("vlan_vid") => Some(value & !(VLAN_PRESENT as u32)),
            TagKind::Mpls if rest.starts_with("mpls_label") => tags::number_of_label(value),
            TagKind::Metadata if rest.starts_with("tun_metadata") => Some(value >> OPTION_SHIFT),
            _ => None,
        }
    });
    numbers.filter_map(|number| kind.generation(number)).next()
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::IPV4;

    fn tagging(kind: TagKind) -> Tagging {
        Tagging { kind, generation: Generation::default().next(kind), option: 3 }
    }

    fn actions(kind: TagKind, ethertype: u128, verdict: Verdict) -> String {
        let matches = Match::of(Field::EthType, ethertype);
        tagging(kind).actions(&Rule { matches, verdict }, "host")
    }

    #[test]
    fn classes_are_tagged() {
        let class = Verdict::Class(5);
        let of = |kind, ethertype| actions(kind, ethertype, class);
        // 4096 and 2 + 2046 + 5.
        let vlan = "push_vlan:0x88a8,set_field:6149->vlan_vid,output:host";
        assert_eq!(of(TagKind::Vlan, IPV4), vlan);
        // 0xc0000 and 2 * (2 + 16384 + 5), one more for IPv6.
        let label = |number| format!("push_mpls:0x8847,set_field:{number}->mpls_label,output:host");
        assert_eq!(of(TagKind::Mpls, IPV4), label(819_214));
        assert_eq!(of(TagKind::Mpls, IPV6), label(819_215));
        // 2 + 16383 + 5, and two bytes.
        let option = "set_field:0x40060000->tun_metadata3,output:host";
        assert_eq!(of(TagKind::Metadata, IPV4), option);
        for kind in TagKind::ALL {
            let tagging = tagging(kind);
            assert_eq!(generation(kind, &of(kind, IPV4)), Some(tagging.generation));
            let others = TagKind::ALL.into_iter().filter(|other| *other != kind);
            others.for_each(|other| assert_eq!(generation(other, &of(kind, IPV4)), None));
            assert_eq!(actions(kind, IPV4, Verdict::Drop(5)), "drop");
        }
    }

    #[test]
    fn what_a_packet_brings_is_covered() {
        let of = |kind, fallback| actions(kind, IPV4, Verdict::Software(fallback));
        let cover = "push_vlan:0x88a8,set_field:4097->vlan_vid,output:host";
        assert_eq!(of(TagKind::Vlan, Fallback::Bytes), "output:host");
        assert_eq!(of(TagKind::Vlan, Fallback::Vlan), cover);
        assert_eq!(of(TagKind::Mpls, Fallback::Bytes), "output:host");
        assert_eq!(of(TagKind::Mpls, Fallback::Vlan), cover);
        assert_eq!(of(TagKind::Mpls, Fallback::Label), cover);
        for fallback in [Fallback::Bytes, Fallback::Vlan] {
            let none = "set_field:0x0->tun_metadata3,output:host";
            assert_eq!(of(TagKind::Metadata, fallback), none);
        }
        for kind in TagKind::ALL {
            assert_eq!(generation(kind, cover), None);
        }
    }
}
