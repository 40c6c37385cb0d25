//! Lets a conversation pass the middle, and compares what stacks behind it make of it with what was
//! inspected.

use thruway_packet::Packet;
use thruway_stream::segment::{Parts, tcp};
use thruway_stream::tcp::Seq;
use thruway_stream::tcp::overlap::Overlap;
use thruway_wire::tcp::flags::SYN;

use crate::forge::{Client, Server, Side, Talk};
use crate::receiver::{QUIRKS, Quirk, Receiver};

/// What inspects.
pub trait Middle {
    /// A packet comes from a side; what leaves in consequence, and to which side.
    fn pass(&mut self, from: Side, packet: Packet, out: &mut Vec<(Side, Packet)>);

    /// What was inspected so far.
    fn shown(&self) -> &Shown;
}

/// Bytes that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    pub from: Side,
    pub begin: Seq,
    pub bytes: Vec<u8>,
}

/// What was inspected.
#[derive(Debug, Default)]
pub struct Shown(pub Vec<Stretch>);

impl Shown {
    /// Bytes of a packet were inspected.
    pub fn add(&mut self, from: Side, seq: Seq, bytes: &[u8]) {
        let end = |stretch: &Stretch| stretch.begin + stretch.bytes.len() as u32;
        let last = self.0.iter_mut().rev().find(|stretch| stretch.from == from);
        match last {
            Some(last) if end(last) == seq => last.bytes.extend(bytes),
            _ => self.0.push(Stretch { from, begin: seq, bytes: bytes.to_vec() }),
        }
    }

    /// What was inspected of one direction.
    pub fn of(&self, from: Side) -> impl Iterator<Item = &Stretch> {
        self.0.iter().filter(move |stretch| stretch.from == from)
    }

    /// Whether these bytes, at this place, are such as were inspected.
    fn has(&self, from: Side, seq: Seq, bytes: &[u8]) -> bool {
        self.of(from).any(|stretch| {
            let at = seq.distance(stretch.begin) as usize;
            let end = at.saturating_add(bytes.len());
            stretch.bytes.get(at..end).is_some_and(|shown| shown == bytes)
        })
    }
}

/// What became of a conversation.
#[derive(Debug, Default)]
pub struct Seen {
    /// What a strict receiver has read of each connection: the server's, the client's.
    pub read: [Vec<String>; 2],
    /// How receivers got what was not inspected.
    pub wrong: Vec<String>,
    pub came: usize,
    pub left: usize,
}

/// One of each sort of systems.
pub const SYSTEMS: [Overlap; 6] = [
    Overlap::First,
    Overlap::Last,
    Overlap::Bsd,
    Overlap::Linux,
    Overlap::OldLinux,
    Overlap::Solaris,
];

/// The receivers at one side.
fn receivers(systems: &[Overlap]) -> Vec<Receiver> {
    let all = systems.iter().flat_map(|overlap| QUIRKS.map(|quirk| (*overlap, quirk)));
    all.map(|(overlap, quirk)| Receiver::new(overlap, quirk)).collect()
}

/// Lets a conversation pass, to receivers of these sorts with all quirks each.
pub fn watch(talk: &Talk, middle: &mut impl Middle, systems: &[Overlap]) -> Seen {
    let mut seen = Seen::default();
    // Behind the middle: at the server, at the client.
    let mut ends = [receivers(systems), receivers(systems)];
    let mut out = Vec::new();
    for (number, segment) in talk.segments.iter().enumerate() {
        seen.came += 1;
        let packet = segment.packet();
        ends[segment.from.other() as usize].iter_mut().for_each(|end| end.sends(&packet));
        middle.pass(segment.from, packet, &mut out);
        for (to, packet) in out.drain(..) {
            seen.left += 1;
            if let Some(wrong) = not_inspected(middle.shown(), to.other(), &packet) {
                seen.wrong.push(format!("segment {number}: {wrong}"));
            }
            ends[to.other() as usize].iter_mut().for_each(|end| end.comes(&packet));
        }
    }
    for (from, end) in [Client, Server].into_iter().zip(&ends) {
        let stray = end.iter().filter_map(|receiver| stray(middle.shown(), from, receiver));
        seen.wrong.extend(stray);
        let strict = end.iter().find(|receiver| receiver.quirk == Quirk::None);
        let text = |stream: &Vec<u8>| String::from_utf8_lossy(stream).into_owned();
        seen.read[from as usize] =
            strict.map_or(Vec::new(), |strict| strict.streams.iter().map(text).collect());
    }
    seen
}

/// The part of a packet bound for a receiver that was not inspected.
fn not_inspected(shown: &Shown, from: Side, packet: &Packet) -> Option<String> {
    let parts = Parts::of_tcp(packet).ok()?;
    let header = tcp(packet, &parts)?;
    let payload = &packet.data()[parts.payload..parts.end];
    let seq = Seq::new(header.seq()) + u32::from(header.has_flags(SYN));
    let is_right = payload.is_empty() || shown.has(from, seq, payload);
    (!is_right).then(|| {
        format!("{:?} at {} leaves uninspected", String::from_utf8_lossy(payload), seq.get())
    })
}

/// Bytes that an application has read and no function has inspected.
fn stray(shown: &Shown, from: Side, receiver: &Receiver) -> Option<String> {
    let is_shown = |stream: &Vec<u8>| {
        let mut stretches = shown.of(from);
        stream.is_empty() || stretches.any(|stretch| stretch.bytes.starts_with(stream))
    };
    let stream = receiver.streams.iter().find(|stream| !is_shown(stream))?;
    let text = String::from_utf8_lossy(stream);
    Some(format!("{} {:?} reads {text:?}", receiver.overlap, receiver.quirk))
}
