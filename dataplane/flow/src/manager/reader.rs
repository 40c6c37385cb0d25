//! From a packet to the key of its session, according to the plan.

use std::sync::Arc;

use thruway_wire::flow::FiveTuple;

use crate::ast::Base;
use crate::key::PacketView;
use crate::manager::headers::{Kind, ParsedHeaders};
use crate::manager::http;
use crate::plan::{Family, KeyPlan, LevelId, Orientation, SessionTable};
use crate::session::{KeyField, KeyProgram, KeyWord};

/// Key of IPv4 sessions of five-tuple fields: source, destination, ports, protocol.
pub type Narrow = [u32; 4];
/// Key of all others: source (4 words), destination (4), ports, protocol, raw words.
pub type Wide = [u32; 12];

/// A session's key, either form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Of IPv4 sessions of five-tuple fields.
    Narrow(Narrow),
    /// Of all others.
    Wide(Wide),
}

impl Key {
    /// Its words.
    pub fn words(&self) -> &[u32] {
        match self {
            Key::Narrow(words) => words,
            Key::Wide(words) => words,
        }
    }
}

const WIDE_PORTS: usize = 8;
const WIDE_PROTOCOL: usize = 9;
/// Places of raw words: those unused by addresses come last.
const RAW_SLOTS: [usize; 4] = [10, 11, 1, 2];

/// A raw word or program and its place in the key.
#[derive(Clone, Debug)]
struct Raw {
    slot: usize,
    field: KeyField,
}

/// How the packets of one leaf find their session.
#[derive(Clone, Debug)]
pub struct Reader {
    /// Level of the session.
    pub level: LevelId,
    /// Whether its keys are [`Narrow`].
    pub is_narrow: bool,
    /// Whether packets without ports have no such session.
    pub needs_ports: bool,
    orientation: Orientation,
    /// Which parts count, as they stand in the packet: source, destination, ports, protocol.
    mask: Narrow,
    raws: Arc<[Raw]>,
    /// How the coarser sessions that a new one links to are found.
    pub links: Arc<[Reader]>,
}

/// Whether all fields of a level fit into a narrow key.
pub fn is_narrow(level: &SessionTable) -> bool {
    let raw = level.session.fields.iter().any(|field| field.mirrored().is_none());
    level.family == Family::V4 && !raw
}

impl Reader {
    /// Of the packets of one family that a leaf has.
    ///
    /// # Errors
    /// A key has too many words.
    pub fn new(plan: &KeyPlan, levels: &[SessionTable]) -> Result<Reader, String> {
        let level = &levels[usize::from(plan.level)];
        let links: Result<Vec<Reader>, String> =
            plan.links.iter().map(|link| Reader::new(link, levels)).collect();
        let has = |field: KeyField| u32::from(plan.fields.contains(&field)).wrapping_neg();
        let ports = has(KeyField::SrcPort) << 16 | has(KeyField::DstPort) & 0xffff;
        let mask = [has(KeyField::Src), has(KeyField::Dst), ports, has(KeyField::Protocol)];
        let raw = plan.fields.iter().filter(|field| field.mirrored().is_none());
        let tall = level.family == Family::V6 && mask[0] | mask[1] != 0;
        let slots = &RAW_SLOTS[..if tall { 2 } else { RAW_SLOTS.len() }];
        if raw.clone().count() > slots.len() {
            return Err(format!(
                "a session may have {} raw words besides IPv6 addresses: take some out",
                slots.len()
            ));
        }
        let raws = raw.zip(slots).map(|(field, slot)| Raw { slot: *slot, field: field.clone() });
        Ok(Reader {
            level: plan.level,
            is_narrow: is_narrow(level),
            needs_ports: level.session.fields.iter().any(KeyField::needs_ports),
            orientation: plan.orientation,
            mask,
            raws: raws.collect(),
            links: links?.into(),
        })
    }

    /// Whether a packet has all that the key needs.
    #[inline]
    pub fn takes(&self, kind: Kind) -> bool {
        match kind {
            Kind::Whole => true,
            Kind::Malformed => false,
            Kind::NotIp => true,
            Kind::Fragment | Kind::Unknown | Kind::Error => !self.needs_ports,
        }
    }

    /// The key, and whether source and destination are exchanged in it.
    #[inline]
    pub fn narrow(&self, ends: &Ends<u32>, protocol: u8) -> (Narrow, bool) {
        let [src, dst, ports, proto] = self.mask;
        let (src, dst, ports) = (ends.src & src, ends.dst & dst, ends.ports & ports);
        let protocol = u32::from(protocol) & proto;
        let exchanged = self.is_exchanged((src, ports >> 16), (dst, ports & 0xffff));
        let turned = [dst, src, ports.rotate_left(16), protocol];
        (if exchanged { turned } else { [src, dst, ports, protocol] }, exchanged)
    }

    #[inline]
    fn is_exchanged<T: PartialOrd>(&self, src: T, dst: T) -> bool {
        match self.orientation {
            Orientation::Compared => src > dst,
            Orientation::Exchanged => true,
            Orientation::Unidirectional | Orientation::AsIs => false,
        }
    }

    /// The same of keys that are not narrow.
    pub fn wide(&self, ends: &Ends<[u32; 4]>, protocol: u8, view: &PacketView<'_>) -> (Wide, bool) {
        let [src_mask, dst_mask, ports, proto] = self.mask;
        let (src, dst) =
            (ends.src.map(|word| word & src_mask), ends.dst.map(|word| word & dst_mask));
        let ports = ends.ports & ports;
        let exchanged = self.is_exchanged((src, ports >> 16), (dst, ports & 0xffff));
        let (src, dst, ports) =
            if exchanged { (dst, src, ports.rotate_left(16)) } else { (src, dst, ports) };
        let mut key = [0; 12];
        key[..4].copy_from_slice(&src);
        key[4..WIDE_PORTS].copy_from_slice(&dst);
        (key[WIDE_PORTS], key[WIDE_PROTOCOL]) = (ports, u32::from(protocol) & proto);
        for raw in &*self.raws {
            key[raw.slot] = value(&raw.field, view);
        }
        (key, exchanged)
    }

    /// Whether its keys have the same form as another's: the same parts at the same places.
    pub fn is_like(&self, other: &Reader) -> bool {
        let compared = |reader: &Reader| reader.orientation == Orientation::Compared;
        let fields = |reader: &Reader| -> Vec<(usize, KeyField)> {
            reader.raws.iter().map(|raw| (raw.slot, raw.field.clone())).collect()
        };
        self.is_narrow == other.is_narrow
            && compared(self) == compared(other)
            && self.key_mask() == other.key_mask()
            && fields(self) == fields(other)
    }

    /// The mask as it stands in keys.
    fn key_mask(&self) -> Narrow {
        let [src, dst, ports, proto] = self.mask;
        match self.orientation {
            Orientation::Exchanged => [dst, src, ports.rotate_left(16), proto],
            _ => self.mask,
        }
    }

    /// Key of a five-tuple that a function reported.
    pub fn narrow_of(&self, tuple: &FiveTuple<u32>) -> (Narrow, bool) {
        let ports = u32::from(tuple.src_port) << 16 | u32::from(tuple.dst_port);
        self.narrow(&Ends { src: tuple.src, dst: tuple.dst, ports }, tuple.protocol)
    }

    /// The same for IPv6; `None` where the key has fields that no five-tuple has.
    pub fn wide_of(&self, tuple: &FiveTuple<[u8; 16]>) -> Option<(Wide, bool)> {
        let ports = u32::from(tuple.src_port) << 16 | u32::from(tuple.dst_port);
        let ends = Ends { src: words(&tuple.src), dst: words(&tuple.dst), ports };
        let none = PacketView::default();
        self.raws.is_empty().then(|| self.wide(&ends, tuple.protocol, &none))
    }

    /// The key of a packet, either form.
    pub fn key(&self, headers: &ParsedHeaders, view: &PacketView<'_>) -> (Key, bool) {
        if self.is_narrow {
            let (key, exchanged) =
                self.narrow(&narrow_ends(headers, view.network), headers.protocol);
            (Key::Narrow(key), exchanged)
        } else {
            let ends = wide_ends(headers, view.network);
            let (key, exchanged) = self.wide(&ends, headers.protocol, view);
            (Key::Wide(key), exchanged)
        }
    }

    /// The same reader for packets in the other direction.
    pub fn turned(&self) -> Reader {
        let [src, dst, ports, proto] = self.mask;
        let orientation = match self.orientation {
            Orientation::AsIs => Orientation::Exchanged,
            Orientation::Exchanged => Orientation::AsIs,
            same => same,
        };
        let mask = [dst, src, ports.rotate_left(16), proto];
        Reader { orientation, mask, ..self.clone() }
    }
}

/// The parts of a key, as a packet has them: source and destination (4 words each), ports,
/// protocol.
pub(super) struct TupleWords {
    pub src: [u32; 4],
    pub dst: [u32; 4],
    pub ports: u32,
    pub protocol: u32,
}

/// The parts of a key; `exchanged`: as in a packet with source and destination exchanged.
pub(super) fn tuple_words(is_narrow: bool, key: &[u32], exchanged: bool) -> TupleWords {
    let word = |at: usize| key.get(at).copied().unwrap_or(0);
    let four = |at: usize| std::array::from_fn(|n| word(at + n));
    let (a, b, ports, protocol) = if is_narrow {
        ([word(0), 0, 0, 0], [word(1), 0, 0, 0], word(2), word(3))
    } else {
        (four(0), four(4), word(WIDE_PORTS), word(WIDE_PROTOCOL))
    };
    if exchanged {
        TupleWords { src: b, dst: a, ports: ports.rotate_left(16), protocol }
    } else {
        TupleWords { src: a, dst: b, ports, protocol }
    }
}

/// The two ends of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends<A> {
    /// Source address.
    pub src: A,
    /// Destination address.
    pub dst: A,
    /// Source port in the high half, destination port in the low one.
    pub ports: u32,
}

fn words(bytes: &[u8; 16]) -> [u32; 4] {
    let mut words = [0; 4];
    for (word, four) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
    }
    words
}

/// Of an IPv4 packet, from its header; zeros when it is not one.
#[inline]
pub fn narrow_ends(headers: &ParsedHeaders, network: &[u8]) -> Ends<u32> {
    let ports = u32::from(headers.ports[0]) << 16 | u32::from(headers.ports[1]);
    match network.first_chunk::<20>() {
        Some(head) => {
            let word = |at: usize| {
                u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
            };
            Ends { src: word(12), dst: word(16), ports }
        }
        None => Ends { src: 0, dst: 0, ports },
    }
}

/// Of any packet.
pub fn wide_ends(headers: &ParsedHeaders, network: &[u8]) -> Ends<[u32; 4]> {
    match (headers.family, network.first_chunk::<40>()) {
        (Family::V6, Some(head)) => {
            let (mut src, mut dst) = ([0; 16], [0; 16]);
            src.copy_from_slice(&head[8..24]);
            dst.copy_from_slice(&head[24..40]);
            let ports = u32::from(headers.ports[0]) << 16 | u32::from(headers.ports[1]);
            Ends { src: words(&src), dst: words(&dst), ports }
        }
        _ => {
            let Ends { src, dst, ports } = narrow_ends(headers, network);
            Ends { src: [src, 0, 0, 0], dst: [dst, 0, 0, 0], ports }
        }
    }
}

/// The value of a raw field; 0 where the packet does not have it.
fn value(field: &KeyField, view: &PacketView<'_>) -> u32 {
    match field {
        KeyField::Word(word) => raw_word(word, view),
        KeyField::Program(KeyProgram::HttpHeader(name)) => http::header_hash(name, view.transport),
        _ => 0,
    }
}

fn raw_word(word: &KeyWord, view: &PacketView<'_>) -> u32 {
    let bytes = match word.base {
        Base::Frame => view.frame,
        Base::Network => view.network,
        Base::Transport => view.transport,
    };
    let mut four = [0; 4];
    let there = bytes.get(usize::from(word.at)..).unwrap_or(&[]);
    four.iter_mut().zip(there).for_each(|(to, from)| *to = *from);
    u32::from_be_bytes(four) & word.mask
}
