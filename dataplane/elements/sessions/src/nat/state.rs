//! State of a session: what its packets come and leave with, by which sides, and what it holds.

use thruway_element::Direction;
use thruway_packet::Packet;
use thruway_wire::Header;
use thruway_wire::flow::FiveTuple;
use thruway_wire::ipv4::Ipv4Header;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::rewrite::{End, Translation, Untranslatable};

use super::kind::Kind;

/// The treatment of a session's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Fate {
    /// Translated.
    Translate = 1,
    /// They go through as they are.
    Keep = 2,
    /// They are for the middlebox itself, or for no host.
    Local = 3,
    /// No inside host has asked for them.
    Filtered = 4,
}

impl Fate {
    /// Of its number.
    pub(super) fn of_number(number: u8) -> Option<Fate> {
        [Fate::Translate, Fate::Keep, Fate::Local, Fate::Filtered]
            .into_iter()
            .find(|fate| *fate as u8 == number)
    }
}

/// The input by which packets of a direction come, and the output by which they leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    /// 0 from inside, 1 from outside.
    pub input: u8,
    /// 0 to the outside, 1 to the inside.
    pub output: u8,
}

/// To the outside.
pub(super) const OUTWARD: Side = Side { input: 0, output: 0 };
/// To the inside.
pub(super) const INWARD: Side = Side { input: 1, output: 1 };
/// From inside, turned round.
pub(super) const HAIRPIN: Side = Side { input: 0, output: 1 };

impl Side {
    const fn packed(self) -> u8 {
        self.input | self.output << 1
    }

    #[inline]
    const fn unpacked(byte: u8) -> Side {
        Side { input: byte & 1, output: byte >> 1 & 1 }
    }
}

/// State of a session. All zeros until it is opened.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub(super) struct NatSession {
    /// Source of forward packets.
    pub from: Translation,
    /// Their destination.
    pub to: Translation,
    /// Place of an address or number of a mapping, see [`HOLDS_PORT`] and [`HOLDS_SOURCE`].
    pub source: u32,
    /// The mapping that its packets go to.
    pub target: u32,
    /// The tables that it holds something of.
    pub tables: u32,
    /// While it is embryonic: its place among those that end first when no port is free; 0: none.
    pub ticket: u32,
    /// By direction, two bits each.
    sides: u8,
    /// Which ends change: [`FROM`], [`TO`].
    ends: u8,
    kind: u8,
    /// [`Fate`] in the low four bits, above them what it holds.
    fate: u8,
}

/// The source changes.
const FROM: u8 = 1;
/// The destination changes.
const TO: u8 = 2;

/// It holds a port of its own: `source` is the address's place.
pub(super) const HOLDS_PORT: u8 = 1 << 4;
/// It uses mapping `source`.
pub(super) const HOLDS_SOURCE: u8 = 1 << 5;
/// It uses mapping `target`.
pub(super) const HOLDS_TARGET: u8 = 1 << 6;
/// It lets its destination send to mapping `source`.
pub(super) const HOLDS_PERMIT: u8 = 1 << 7;

/// Words that are published of a session.
pub(super) const WORDS: usize = 4;

/// Address and port.
pub(super) type Endpoint = (u32, u16);

impl NatSession {
    /// The state of a translated session that holds nothing yet: its first packet, the source and
    /// destination that this leaves with, and the sides of both directions.
    pub(super) fn translating(
        kind: Kind,
        tuple: &FiveTuple<u32>,
        (source, target): (Endpoint, Endpoint),
        sides: [Side; 2],
    ) -> Result<NatSession, Untranslatable> {
        let ends = [(tuple.src, tuple.src_port), (tuple.dst, tuple.dst_port)];
        let (from_changes, to_changes) = (ends[0] != source, ends[1] != target);
        Ok(NatSession {
            from: Translation::new(kind.protocol(), ends[0], source)?,
            to: Translation::new(kind.protocol(), ends[1], target)?,
            ends: if from_changes { FROM } else { 0 } | if to_changes { TO } else { 0 },
            kind: kind as u8,
            ..NatSession::of_fate(Fate::Translate, sides)
        })
    }

    /// The state of a session that is not translated.
    pub(super) fn of_fate(fate: Fate, sides: [Side; 2]) -> NatSession {
        let sides = sides[0].packed() | sides[1].packed() << 2;
        NatSession { sides, fate: fate as u8, ..NatSession::default() }
    }

    /// Whether its packets are translated.
    #[inline]
    pub(super) fn is_translated(&self) -> bool {
        self.fate & 0x0f == Fate::Translate as u8
    }

    /// The treatment of its packets.
    pub(super) fn fate(&self) -> Option<Fate> {
        Fate::of_number(self.fate & 0x0f)
    }

    /// The translation.
    pub(super) fn kind(&self) -> Option<Kind> {
        Kind::of_number(self.kind)
    }

    /// Where packets of a direction come and leave.
    #[inline]
    pub(super) fn side(&self, direction: Direction) -> Side {
        Side::unpacked(match direction {
            Direction::Forward => self.sides,
            Direction::Reply => self.sides >> 2,
        })
    }

    /// Whether it holds this.
    pub(super) fn holds(&self, what: u8) -> bool {
        self.fate & what != 0
    }

    /// It holds this from now on.
    pub(super) fn hold(&mut self, what: u8) {
        self.fate |= what;
    }

    /// The five-tuple of replies as they come: that of forward packets as they leave, reversed.
    pub(super) fn reply(&self, tuple: FiveTuple<u32>) -> FiveTuple<u32> {
        let tuple = self.to.translated(End::Destination, tuple);
        self.from.translated(End::Source, tuple).reversed()
    }

    /// Whether a packet has the addresses that packets of its direction come with. The flow manager
    /// finds the session of replies that were never translated, too.
    #[inline]
    pub(super) fn is_addressed(
        &self,
        packet: &Packet,
        direction: Direction,
        related: bool,
    ) -> bool {
        let Some(head) = packet.network_head::<20>() else { return false };
        let Ok((header, _)) = Ipv4Header::view(head) else { return false };
        let (src, dst) = match direction {
            Direction::Forward => (self.from.before().0, self.to.before().0),
            Direction::Reply => (self.to.after().0, self.from.after().0),
        };
        // An error may come from any router on the path.
        header.dst() == dst && (related || header.src() == src)
    }

    /// Translates a packet, or an ICMP error about one (`related`).
    #[inline]
    pub(super) fn apply(
        &self,
        packet: &mut Packet,
        direction: Direction,
        related: bool,
    ) -> Result<(), Untranslatable> {
        if self.ends & FROM != 0 {
            self.from.apply(packet, End::Source, direction, related)?;
        }
        if self.ends & TO != 0 {
            self.to.apply(packet, End::Destination, direction, related)?;
        }
        Ok(())
    }

    /// Its destination address as packets of a direction leave.
    #[inline]
    pub(super) fn destination(&self, direction: Direction) -> u32 {
        match direction {
            Direction::Forward => self.to.after().0,
            Direction::Reply => self.from.before().0,
        }
    }

    /// For the thread that serves the other direction.
    pub(super) fn words(&self) -> [u64; WORDS] {
        let word = |(addr, port): Endpoint, more: u16| {
            u64::from(addr) << 32 | u64::from(port) << 16 | u64::from(more)
        };
        let rest =
            u16::from(self.kind) << 8 | u16::from(self.sides) << 4 | u16::from(self.fate & 15);
        [
            word(self.from.before(), rest),
            word(self.from.after(), 0),
            word(self.to.before(), 0),
            word(self.to.after(), 0),
        ]
    }

    /// The state that such words report on; it holds nothing, that is the other thread's.
    pub(super) fn from_words(words: &[u64; WORDS]) -> Option<NatSession> {
        let rest = words[0] as u16;
        let fate = Fate::of_number((rest & 15) as u8)?;
        let sides = (rest >> 4) as u8 & 15;
        let sides = [sides, sides >> 2].map(Side::unpacked);
        if fate != Fate::Translate {
            return Some(NatSession::of_fate(fate, sides));
        }
        let kind = Kind::of_number((rest >> 8) as u8)?;
        let [source, leaves, target, goes] =
            words.map(|word| ((word >> 32) as u32, (word >> 16) as u16));
        let ((src, src_port), (dst, dst_port)) = (source, target);
        let tuple = FiveTuple { src, dst, src_port, dst_port, protocol: kind.protocol() };
        NatSession::translating(kind, &tuple, (leaves, goes), sides).ok()
    }
}
