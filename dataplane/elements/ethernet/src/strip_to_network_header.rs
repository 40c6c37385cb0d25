//! StripToNetworkHeader, StripIPHeader, UnstripIPHeader: the packet's front to a marked header.

use thruway_element::{
    Alias, Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
    Verdict, reasons,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<StripToNetworkHeader>(Spec {
    name: "StripToNetworkHeader",
    aliases: &[
        Alias {
            name: "StripIPHeader",
            summary: "lets packets begin behind the network header: that is taken off too",
        },
        Alias {
            name: "UnstripIPHeader",
            summary: "gives back what StripIPHeader took, and nothing where the packet begins \
                      at or before its network header",
        },
    ],
    topic: Topic::Ethernet,
    summary: "lets packets begin at the marked network header",
    docs: "Removes the bytes in front of the marked network header, or gives bytes back where the \
           packet begins behind it: then it begins there. The bytes taken off stay in the head \
           room. StripIPHeader takes the network header off, too, and with that what IPEncap put \
           in front. Packets without a marked network header, or that end before, are dropped.",
    example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
              -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> MarkIPHeader(14) \
              -> StripToNetworkHeader -> CheckIPHeader -> Print(ok) -> Discard",
    straight: true,
    drops: StripNetworkDrop::DROPS,
    cost: &[Operation::HeaderMove.once()],
    changes: Changes::Frame,
    replicas: Replicas::Alike,
    large_packets: true,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet goes no further.
    enum StripNetworkDrop {
        NoHeader = "no-network-header": "no network header is marked in it",
        TooShort = "too-short": "it ends before the place where it should begin",
    }
}

/// Where packets are to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    Header,
    Behind,
    /// At the header, if they begin behind it.
    GiveBack,
}

impl Goal {
    fn of(class: &str) -> Goal {
        match class {
            "StripIPHeader" => Goal::Behind,
            "UnstripIPHeader" => Goal::GiveBack,
            _ => Goal::Header,
        }
    }
}

#[derive(Arguments, Handlers)]
struct StripToNetworkHeader {
    #[new(Goal::of(args.class()))]
    goal: Goal,
}

/// Moves the packet's front by `offset` bytes, to the back if positive.
#[inline]
fn move_front(packet: &mut Packet, offset: isize) -> Verdict {
    let moved = match usize::try_from(offset) {
        Ok(forward) => packet.pull(forward),
        Err(_) => packet.unpull(offset.unsigned_abs()),
    };
    if moved { Verdict::Pass } else { Verdict::drop(StripNetworkDrop::TooShort) }
}

#[inline]
fn strip(packet: &mut Packet, goal: Goal) -> Verdict {
    let place = match goal {
        Goal::Behind => packet.transport_signed_offset(),
        _ => packet.network_signed_offset(),
    };
    match place {
        Some(offset) if goal == Goal::GiveBack && offset >= 0 => Verdict::Pass,
        Some(offset) => move_front(packet, offset),
        None => Verdict::drop(StripNetworkDrop::NoHeader),
    }
}

impl Element for StripToNetworkHeader {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| strip(packet, self.goal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn there_and_back() {
        let bytes: Vec<u8> = (0..60).collect();
        let mut packet = Packet::new(&bytes).unwrap();
        assert_eq!(strip(&mut packet, Goal::Header), Verdict::drop(StripNetworkDrop::NoHeader));
        packet.set_network(14, 20);
        for (goal, first) in [
            (Goal::GiveBack, 0),
            (Goal::Header, 14),
            (Goal::Header, 14),
            (Goal::Behind, 34),
            (Goal::GiveBack, 14),
            (Goal::Behind, 34),
            (Goal::Header, 14),
        ] {
            assert_eq!(strip(&mut packet, goal), Verdict::Pass);
            assert_eq!(packet.data()[0], first, "{goal:?}");
        }
    }

    proptest! {
        #[test]
        fn any_marks(len in 0usize..60, at in 0usize..70, header_len in 0usize..70, pull in 0usize..60) {
            for goal in [Goal::Header, Goal::Behind, Goal::GiveBack] {
                let mut packet = Packet::zeroed(len).unwrap();
                packet.set_network(at, header_len);
                let _ = packet.pull(pull);
                let before = packet.len();
                let _ = strip(&mut packet, goal);
                prop_assert!(packet.len() <= before.max(len));
            }
        }
    }
}
