//! The streams of a capture, put together in the plainest way: of each byte the first that came
//! counts, and a stream goes to its first hole.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// Bytes beyond which a place is no part of a stream.
const FAR: u32 = 64 << 20;

pub type End = (IpAddr, u16);

/// A TCP segment in an Ethernet frame.
pub struct Segment<'a> {
    pub from: End,
    pub to: End,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub scale: Option<u8>,
    /// The header says where it goes, not only the address: so its checksum is of another one.
    pub is_routed: bool,
    pub payload: &'a [u8],
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The window scale option's value.
fn scale(options: &[u8]) -> Option<u8> {
    let mut rest = options;
    loop {
        rest = match *rest {
            [3, 3, scale, ..] => return Some(scale.min(14)),
            [1, ..] => &rest[1..],
            [0, ..] | [] | [_] => return None,
            [_, len, ..] => rest.get(usize::from(len).max(2)..)?,
        };
    }
}

/// The segment of a frame; `None` for what is none, and for fragments.
pub fn segment(frame: &[u8]) -> Option<Segment<'_>> {
    let (mut at, mut kind) = (14, word(frame, 12)?);
    while [0x8100, 0x88a8, 0x9100].contains(&kind) {
        (kind, at) = (word(frame, at + 2)?, at + 4);
    }
    let ip = frame.get(at..)?;
    let (from, to, transport, end, is_routed);
    match (kind, ip.first()? >> 4) {
        (0x800, 4) if ip.get(9) == Some(&6) && word(ip, 6)? & 0x3fff == 0 => {
            let address = |at| Some(IpAddr::from(long(ip, at)?.to_be_bytes()));
            (from, to) = (address(12)?, address(16)?);
            transport = usize::from(ip[0] & 15) * 4;
            (end, is_routed) = (usize::from(word(ip, 2)?), transport > 20);
        }
        (0x86dd, 6) => {
            let address = |at: usize| {
                let bytes: [u8; 16] = ip.get(at..at + 16)?.try_into().ok()?;
                Some(IpAddr::from(Ipv6Addr::from(bytes)))
            };
            (from, to) = (address(8)?, address(24)?);
            let (mut next, mut offset) = (ip[6], 40);
            while [0, 43, 60].contains(&next) {
                let header = ip.get(offset..offset + 2)?;
                (next, offset) = (header[0], offset + (usize::from(header[1]) + 1) * 8);
            }
            if next != 6 {
                return None;
            }
            (transport, is_routed) = (offset, offset > 40);
            end = 40 + usize::from(word(ip, 4)?);
        }
        _ => return None,
    }
    let tcp = ip.get(transport..end.min(ip.len()))?;
    let header = usize::from(tcp.get(12)? >> 4) * 4;
    let options = tcp.get(20..header)?;
    Some(Segment {
        from: (from, word(tcp, 0)?),
        to: (to, word(tcp, 2)?),
        seq: long(tcp, 4)?,
        ack: long(tcp, 8)?,
        flags: tcp[13],
        window: word(tcp, 14)?,
        scale: scale(options),
        is_routed,
        payload: &tcp[header..],
    })
}

/// What one side sent.
#[derive(Default)]
struct Sender {
    isn: Option<u32>,
    segments: Vec<(u32, Vec<u8>)>,
    is_finished: bool,
    /// Its SYN has data, which comes again, or not.
    is_early: bool,
}

impl Sender {
    fn stream(&self) -> Vec<u8> {
        let Some((first, _)) = self.segments.first() else { return Vec::new() };
        let early = self.segments.iter().take(8).map(|(seq, _)| *seq);
        let lowest = early
            .fold(*first, |low, seq| if (seq.wrapping_sub(low) as i32) < 0 { seq } else { low });
        let begin = self.isn.map_or(lowest, |isn| isn.wrapping_add(1));
        let mut bytes = BTreeMap::new();
        let mut stream = Vec::new();
        for (seq, payload) in &self.segments {
            for (at, byte) in (0..).zip(payload) {
                let place = seq.wrapping_add(at).wrapping_sub(begin);
                if place as usize == stream.len() {
                    stream.push(bytes.remove(&place).unwrap_or(*byte));
                } else if (stream.len() as u32..FAR).contains(&place) {
                    bytes.entry(place).or_insert(*byte);
                }
            }
            while let Some(byte) = bytes.remove(&(stream.len() as u32)) {
                stream.push(byte);
            }
        }
        stream
    }
}

/// A connection.
pub struct Flow {
    /// The client's end and the server's.
    pub ends: [End; 2],
    /// How the manyth of these ends.
    pub instance: usize,
    /// The client's stream and the server's.
    pub streams: [Vec<u8>; 2],
    /// Whether each was seen to begin, and not with data.
    pub began: [bool; 2],
    /// Numbers of its frames, by who sent them.
    pub frames: [Vec<usize>; 2],
}

struct Open {
    /// Who sent first, and the other.
    ends: [End; 2],
    instance: usize,
    client: Option<usize>,
    halves: [Sender; 2],
    is_closed: bool,
    frames: [Vec<usize>; 2],
}

impl Open {
    fn take(&mut self, number: usize, side: usize, segment: &Segment<'_>) {
        match segment.flags & (SYN | ACK) {
            SYN => _ = self.client.get_or_insert(side),
            both if both == SYN | ACK => _ = self.client.get_or_insert(1 - side),
            _ => {}
        }
        self.frames[side].push(number);
        let half = &mut self.halves[side];
        let mut seq = segment.seq;
        if segment.flags & SYN != 0 {
            half.isn.get_or_insert(seq);
            half.is_early |= !segment.payload.is_empty();
            seq = seq.wrapping_add(1);
        }
        if !segment.payload.is_empty() {
            half.segments.push((seq, segment.payload.to_vec()));
        }
        half.is_finished |= segment.flags & FIN != 0;
        self.is_closed |= segment.flags & RST != 0;
        self.is_closed |= self.halves.iter().all(|half| half.is_finished);
    }

    fn finish(self) -> Flow {
        let [one, other] = self.ends;
        let by_port = match (one.1 < 1024, other.1 < 1024) {
            (true, false) => 1,
            _ => 0,
        };
        let client = self.client.unwrap_or(by_port);
        let halves = [&self.halves[client], &self.halves[1 - client]];
        let (streams, began) =
            (halves.map(Sender::stream), halves.map(|half| half.isn.is_some() && !half.is_early));
        let ends = [self.ends[client], self.ends[1 - client]];
        let mut frames = self.frames;
        if client == 1 {
            frames.reverse();
        }
        Flow { ends, instance: self.instance, streams, began, frames }
    }
}

/// The connections of a capture.
pub fn flows(frames: &[Vec<u8>]) -> Vec<Flow> {
    let mut all: Vec<Open> = Vec::new();
    let mut latest: HashMap<[End; 2], usize> = HashMap::new();
    for (number, frame) in frames.iter().enumerate() {
        let Some(segment) = segment(frame) else { continue };
        let mut key = [segment.from, segment.to];
        key.sort();
        let known = latest.get(&key).copied();
        let side = |open: &Open| usize::from(open.ends[0] != segment.from);
        let is_new = known.is_none_or(|at| {
            let open = &all[at];
            let half = &open.halves[side(open)];
            let spoke = open.halves.iter().any(|half| !half.segments.is_empty());
            segment.flags & (SYN | ACK) == SYN
                && half.isn.is_some_and(|isn| isn != segment.seq)
                && (open.is_closed || spoke)
        });
        if is_new {
            latest.insert(key, all.len());
            all.push(Open {
                ends: [segment.from, segment.to],
                instance: known.map_or(1, |at| all[at].instance + 1),
                client: None,
                halves: <[Sender; 2]>::default(),
                is_closed: false,
                frames: <[Vec<usize>; 2]>::default(),
            });
        }
        let open = &mut all[latest[&key]];
        open.take(number, side(open), &segment);
    }
    all.into_iter().map(Open::finish).collect()
}
