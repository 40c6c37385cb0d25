//! Lets requests for TCP connections through from sources that prove that they exist: the function
//! to be deployed while a destination is flooded with SYNs of invented sources.
//!
//! `Nf(EXEC "scrubber", OUTPUTS 2)`: what may go on leaves by output 0. Output 1 leads back to
//! where packets came from.
//!
//! A SYN of an unknown source does not go on. In its place a challenge goes back: a SYN-ACK that
//! acknowledges a number which the source never sent. A real host answers that by a RST with this
//! very number (RFC 9293 section 3.10.7.3), and sends its SYN again; an invented one does nothing.
//! From the right answer on, SYNs of the source pass for [`KNOWN_NS`].
//!
//! IPv4 and Ethernet. All but SYNs and right answers passes: connections that are open go on.
#![forbid(unsafe_code)]

use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;

use thruway_nf::{Batch, Config, Packet, Verdict};

/// Output back to where packets came from.
const BACK: u8 = 1;
/// How long a source is known.
const KNOWN_NS: u64 = 600_000_000_000;
/// Sources that are known at most: a power of two. Two of the same slot take turns.
const KNOWN: usize = 1 << 16;
/// How long a challenge can be answered, at least; at most twice as long.
const CHALLENGE_NS: u64 = 8_000_000_000;

/// Lengths of headers.
const ETHERNET: usize = 14;
const IP: usize = 20;
const TCP: usize = 20;
/// Flags of a TCP header.
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// A TCP segment in an Ethernet frame.
#[derive(Clone, Copy)]
struct Segment {
    /// Source and destination address, source and destination port: as they stand in the headers.
    addresses: [u8; 8],
    ports: [u8; 4],
    sequence: u32,
    flags: u8,
}

impl Segment {
    /// Reads a frame; `None` if it is no beginning of a TCP segment in IPv4.
    fn parse(frame: &[u8]) -> Option<Segment> {
        let ip = frame.strip_prefix(frame.get(..12)?)?.strip_prefix(&[0x08, 0x00])?;
        let header_len = usize::from(ip.first()? & 15) * 4;
        let is_version_4 = ip.first()? >> 4 == 4 && header_len >= IP;
        let is_first = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x1fff == 0;
        if !(is_version_4 && is_first && *ip.get(9)? == 6) {
            return None;
        }
        let tcp = ip.get(header_len..)?;
        Some(Segment {
            addresses: ip.get(12..20)?.try_into().ok()?,
            ports: tcp.get(..4)?.try_into().ok()?,
            sequence: u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?),
            flags: *tcp.get(13)?,
        })
    }

    fn source(&self) -> u32 {
        let [a, b, c, d, ..] = self.addresses;
        u32::from_be_bytes([a, b, c, d])
    }
}

/// A sum of 16-bit words (RFC 1071), to be folded; of an even number of bytes.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum()
}

fn folded(sum: u32) -> [u8; 2] {
    let once = (sum & 0xffff) + (sum >> 16);
    (!(((once & 0xffff) + (once >> 16)) as u16)).to_be_bytes()
}

/// Makes of a frame with a SYN the challenge to its source. False, and nothing done that is of use,
/// if the frame is too short.
fn challenge(packet: &mut Packet<'_>, segment: &Segment, number: u32) -> bool {
    let len = ETHERNET + IP + TCP;
    if packet.len() > len && !packet.truncate(len) {
        return false;
    }
    let frame = packet.bytes_mut();
    if frame.len() != len {
        return false;
    }
    let (ethernet, rest) = frame.split_at_mut(ETHERNET);
    let (to, from) = ethernet[..12].split_at_mut(6);
    to.swap_with_slice(from);
    let (ip, tcp) = rest.split_at_mut(IP);
    // Length 40, not to be fragmented, a hop limit of 64, TCP.
    ip.copy_from_slice(&[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let [from, to] = [0, 4].map(|at| &segment.addresses[at..at + 4]);
    ip[12..16].copy_from_slice(to);
    ip[16..20].copy_from_slice(from);
    let checksum = folded(sum(ip));
    ip[10..12].copy_from_slice(&checksum);
    tcp.fill(0);
    tcp[..2].copy_from_slice(&segment.ports[2..]);
    tcp[2..4].copy_from_slice(&segment.ports[..2]);
    tcp[4..8].copy_from_slice(&number.to_be_bytes());
    tcp[8..12].copy_from_slice(&number.to_be_bytes());
    (tcp[12], tcp[13]) = (5 << 4, SYN | ACK);
    // The pseudo header: addresses, protocol, length.
    let checksum = folded(sum(&ip[12..20]) + 6 + TCP as u32 + sum(tcp));
    tcp[16..18].copy_from_slice(&checksum);
    true
}

/// What is known of sources.
struct Sources {
    key: RandomState,
    /// A source and until when it is known, by a hash of the source.
    known: Vec<(u32, u64)>,
}

impl Sources {
    fn new() -> Sources {
        Sources { key: RandomState::new(), known: vec![(0, 0); KNOWN] }
    }

    fn slot(&mut self, source: u32) -> &mut (u32, u64) {
        let at = self.key.hash_one(source) as usize % KNOWN;
        &mut self.known[at]
    }

    fn is_known(&mut self, source: u32, now: u64) -> bool {
        let (known, until) = *self.slot(source);
        known == source && now < until
    }

    fn learn(&mut self, source: u32, now: u64) {
        *self.slot(source) = (source, now + KNOWN_NS);
    }

    /// The number that a source proves itself by, in the `period` of a challenge.
    fn number(&self, segment: &Segment, period: u64) -> u32 {
        self.key.hash_one((segment.addresses, segment.ports, period)) as u32
    }

    /// Whether a RST answers a challenge.
    fn is_answer(&self, segment: &Segment, now: u64) -> bool {
        let period = now / CHALLENGE_NS;
        let given = [period, period.wrapping_sub(1)];
        given.iter().any(|period| self.number(segment, *period) == segment.sequence)
    }
}

fn main() -> ExitCode {
    let config = Config { name: "scrubber", outputs: 2, ..Config::DEFAULT };
    thruway_nf::run(&config, |start| {
        if std::env::args().len() > 1 {
            return Err("it takes no arguments".into());
        }
        let names = ["challenged", "learned", "admitted"];
        let [challenged, learned, admitted] = names.map(|name| start.counter(name));
        let mut sources = Sources::new();
        Ok(move |batch: &mut Batch<'_>| {
            let now = batch.now_ns();
            batch.each(|packet| {
                let Some(segment) = Segment::parse(packet.bytes()) else { return Verdict::Next(0) };
                let source = segment.source();
                match segment.flags & (SYN | RST | ACK) {
                    SYN if sources.is_known(source, now) => {
                        admitted.add(1);
                        Verdict::Next(0)
                    }
                    SYN => {
                        let number = sources.number(&segment, now / CHALLENGE_NS);
                        challenged.add(1);
                        match challenge(packet, &segment, number) {
                            true => Verdict::Next(BACK),
                            false => Verdict::Drop,
                        }
                    }
                    RST if sources.is_answer(&segment, now) => {
                        learned.add(1);
                        sources.learn(source, now);
                        Verdict::Drop
                    }
                    _ => Verdict::Next(0),
                }
            });
        })
    })
}
