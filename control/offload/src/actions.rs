//! What a switch does with packets, as `ovs-ofctl` reads it (ovs-actions(7)).

use thruway_flow::tags::{self, Generation};

use crate::fallback::Fallback;
use crate::guards::VLAN_PRESENT;
use crate::table::Verdict;

/// What a switch does with the packets of a verdict that it sends to this port.
pub fn actions(verdict: Verdict, generation: Generation, host: &str) -> String {
    let tagged = |tag: u16| {
        let vlan = VLAN_PRESENT as u16 | tag;
        format!("push_vlan:{:#06x},set_field:{vlan}->vlan_vid,output:{host}", tags::ETHERTYPE)
    };
    match verdict {
        Verdict::Drop(_) => "drop".to_owned(),
        Verdict::Class(class) => match generation.tag(class) {
            Some(tag) => tagged(tag),
            None => format!("output:{host}"),
        },
        // Lest a tag of its own is taken for that of a class.
        Verdict::Software(Fallback::Vlan) => tagged(tags::UNCLASSIFIED),
        Verdict::Software(_) => format!("output:{host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_tagged() {
        let of = |verdict| actions(verdict, Generation::Odd, "host");
        assert_eq!(of(Verdict::Class(5)), "push_vlan:0x88a8,set_field:6149->vlan_vid,output:host");
        assert_eq!(of(Verdict::Drop(5)), "drop");
        assert_eq!(of(Verdict::Software(Fallback::Bytes)), "output:host");
        assert_eq!(
            of(Verdict::Software(Fallback::Vlan)),
            "push_vlan:0x88a8,set_field:4097->vlan_vid,output:host"
        );
    }
}
