//! Fragments that wait for their first one, and later packets between the same hosts.

use thruway_packet::Packet;
use thruway_wire::Header;
use thruway_wire::ipv4::Ipv4Header;

use super::flows::{Flows, Marks};

/// Most packets that wait.
const MAX: usize = 256;

/// Two hosts in either order, and the protocol they talk.
pub(super) type Pair = (u32, u32, u8);

/// Whether a packet that begins with its IP header is a fragment.
pub(super) fn is_fragment(network: &[u8]) -> bool {
    Ipv4Header::view(network).is_ok_and(|(ip, _)| ip.is_fragment())
}

/// The hosts between which a packet goes that begins with its IP header.
pub(super) fn pair(network: &[u8]) -> Option<Pair> {
    let (ip, _) = Ipv4Header::view(network).ok()?;
    Some((ip.src().min(ip.dst()), ip.src().max(ip.dst()), ip.protocol()))
}

struct Waiting {
    pair: Pair,
    packet: Packet,
    /// Set once the packet's flow is known: it waits for its turn.
    marks: Option<Marks>,
    since: i64,
}

/// The fate of a packet that waited.
pub(super) enum Fate {
    /// Its flow is known.
    Marked(Packet, Marks),
    /// Its first fragment did not come in time.
    Late(Packet),
}

/// The packets, in the order in which they came.
pub(super) struct Held(Vec<Waiting>);

impl Held {
    pub(super) fn with_room() -> Held {
        Held(Vec::with_capacity(MAX))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= MAX
    }

    pub(super) fn has(&self, pair: Pair) -> bool {
        self.0.iter().any(|waiting| waiting.pair == pair)
    }

    pub(super) fn push(&mut self, pair: Pair, packet: Packet, marks: Marks, since: i64) {
        let marks = Some(marks).filter(|marks| *marks != Marks::Waits);
        self.0.push(Waiting { pair, packet, marks, since });
    }

    /// A pair with an oldest packet that has waited too long.
    pub(super) fn late(&self, flows: &Flows, now: i64) -> Option<Pair> {
        self.0.first().filter(|first| flows.is_late(first.since, now)).map(|first| first.pair)
    }

    /// The next packet between these hosts that need not wait any longer.
    pub(super) fn next(&mut self, pair: Pair, flows: &mut Flows, now: i64) -> Option<Fate> {
        let at = self.0.iter().position(|waiting| waiting.pair == pair)?;
        let waiting = &self.0[at];
        let find = || flows.find(waiting.packet.network(), waiting.since);
        match waiting.marks.unwrap_or_else(find) {
            Marks::Waits if flows.is_late(waiting.since, now) => {
                Some(Fate::Late(self.0.remove(at).packet))
            }
            Marks::Waits => None,
            marks => Some(Fate::Marked(self.0.remove(at).packet, marks)),
        }
    }

    /// Hosts between which packets wait.
    pub(super) fn any(&self) -> Option<Pair> {
        self.0.first().map(|first| first.pair)
    }
}
