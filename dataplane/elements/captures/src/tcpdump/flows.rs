//! Sequence numbers: tcpdump prints those of a connection's first acknowledgement as they are,
//! later ones relative to those; what acknowledges nothing (a SYN, a reset) is not relative.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use super::super::summary::{Field, Record};
use super::tcp::{Opt, Segment};

/// Connections that are known at most; then all are forgotten.
const FLOWS_MAX: usize = 1 << 16;
/// Flags (RFC 9293 section 3.1); those that count in the sequence space are FIN and SYN.
const SYN: u16 = 2;
const ACK: u16 = 16;
const COUNTED: u16 = 1 | SYN;

/// A number so far from the last one is none of the connection: windows are smaller, mostly.
const FAR: u32 = 1 << 24;

/// An address of the form that tcpdump gives ends.
pub(super) type End = (Ipv4Addr, u16);

/// Both endpoints of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    pub from: End,
    pub to: End,
}

/// The state of a connection, for each direction: that of the lower end first.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    /// Whether an acknowledgement was seen.
    is_known: bool,
    /// The base of relative numbers.
    base: [u32; 2],
    /// The next sequence number.
    next: [u32; 2],
}

/// All connections.
#[derive(Default)]
pub(super) struct Flows {
    flows: HashMap<(End, End), Flow>,
}

impl Flows {
    /// Puts a segment of a connection into `record`, with its numbers as they were on the wire.
    pub(super) fn fill(&mut self, ends: &Ends, segment: &Segment, record: &mut Record) {
        let own = usize::from(ends.from > ends.to);
        let key = if own == 0 { (ends.from, ends.to) } else { (ends.to, ends.from) };
        let other = 1 - own;
        if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(&key) {
            self.flows.clear();
        }
        let mut flow = self.flows.get(&key).copied().unwrap_or_default();
        let acknowledges = segment.flags & ACK != 0;
        let is_new = !flow.is_known || segment.flags & SYN != 0;
        if acknowledges && is_new {
            // As tcpdump does it: an acknowledgement of the first byte is 1.
            flow.is_known = true;
            flow.base[own] = segment.seq.unwrap_or(flow.next[own]);
            flow.next[own] = flow.base[own];
            flow.next[other] = segment.ack.unwrap_or(0);
            flow.base[other] = flow.next[other].wrapping_sub(1);
        }
        let number = |printed: u32, side: usize| match acknowledges && !is_new {
            false => printed,
            true => nearest(printed, flow.base[side], flow.next[side]),
        };
        let seq = segment.seq.map_or(flow.next[own], |seq| number(seq, own));
        let ack = segment.ack.map_or(0, |ack| number(ack, other));
        record.options_of(segment, |printed| number(printed, other));
        if acknowledges && ack.wrapping_sub(flow.next[other]) < 1 << 31 {
            flow.next[other] = ack;
        }
        let counted = (segment.flags & COUNTED).count_ones();
        flow.next[own] = seq.wrapping_add(segment.payload_len).wrapping_add(counted);
        (record.seq, record.ack) = (seq, ack);
        (record.flags, record.window) = (segment.flags, segment.window);
        record.urgent = segment.urgent;
        self.flows.insert(key, flow);
    }
}

/// A printed number of a known connection is relative, unless that is far from where the connection
/// is and the number itself is near (`tcpdump -S` prints all as they are).
fn nearest(printed: u32, base: u32, next: u32) -> u32 {
    let relative = base.wrapping_add(printed);
    let distance = |number: u32| number.wrapping_sub(next).min(next.wrapping_sub(number));
    let is_absolute = distance(printed) < FAR && distance(relative) >= FAR;
    if is_absolute { printed } else { relative }
}

impl Record {
    fn options_of(&mut self, segment: &Segment, number: impl Fn(u32) -> u32) {
        let text = |option: &Opt| match option {
            Opt::Plain(text) => text.clone(),
            Opt::Sack(from, to) => format!("sack{}-{}", number(*from), number(*to)),
        };
        let options: Vec<String> = segment.options.iter().map(text).collect();
        if !options.is_empty() {
            // Options that do not fit a header are left out.
            let _ = self.set(Field::TcpOpt, &options.join(";"), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tcp::parse;
    use super::*;
    use proptest::prelude::*;

    const A: End = (Ipv4Addr::new(10, 0, 0, 1), 1000);
    const B: End = (Ipv4Addr::new(10, 0, 0, 2), 80);

    #[test]
    fn a_connection_from_its_handshake() {
        let mut flows = Flows::default();
        let mut numbers = |from, to, text| {
            let mut record = Record::default();
            flows.fill(&Ends { from, to }, &parse(text), &mut record);
            (record.seq, record.ack)
        };
        assert_eq!(numbers(A, B, "S 5000:5000(0) win 1"), (5000, 0));
        assert_eq!(numbers(B, A, "S 90:90(0) ack 5001 win 1"), (90, 5001));
        assert_eq!(numbers(A, B, ". ack 1 win 1"), (5001, 91));
        assert_eq!(numbers(A, B, "P 1:101(100) ack 1 win 1"), (5001, 91));
        assert_eq!(numbers(B, A, ". ack 101 win 1"), (91, 5101));
        assert_eq!(numbers(B, A, "F 1:1(0) ack 101 win 1"), (91, 5101));
        assert_eq!(numbers(A, B, ". ack 2 win 1"), (5101, 92));
    }

    #[test]
    fn one_direction_alone() {
        let mut flows = Flows::default();
        let mut numbers = |text| {
            let mut record = Record::default();
            flows.fill(&Ends { from: A, to: B }, &parse(text), &mut record);
            (record.seq, record.ack)
        };
        assert_eq!(numbers("Flags [S], seq 5000, win 1, length 0"), (5000, 0));
        assert_eq!(numbers("Flags [.], ack 91, win 1, length 0"), (5001, 91));
        assert_eq!(numbers("Flags [P.], seq 0:252, ack 1, win 1, length 252"), (5001, 91));
        assert_eq!(numbers("Flags [.], ack 2921, win 1, length 0"), (5253, 3011));
        assert_eq!(numbers("Flags [R], seq 5253, win 0, length 0"), (5253, 0));
    }

    proptest! {
        /// Numbers printed as tcpdump prints them, relative or all as they are, come out as they
        /// were sent, from wherever in a connection the dump begins.
        #[test]
        fn numbers_come_back(
            start in any::<[u32; 2]>(),
            steps in proptest::collection::vec((any::<bool>(), 0u32..3000), 1..40),
            absolute: bool,
        ) {
            // Where relative and absolute numbers are alike, no reader can distinguish them.
            prop_assume!(start.iter().all(|n| (2 * FAR..u32::MAX - 2 * FAR).contains(n)));
            let mut flows = Flows::default();
            let (mut next, mut base) = (start, None);
            for (back, len) in steps {
                let own = usize::from(back);
                let (from, to) = if back { (B, A) } else { (A, B) };
                let (seq, ack) = (next[own], next[1 - own]);
                let [s, a] = match base {
                    Some(base) if !absolute => {
                        let base: [u32; 2] = base;
                        [seq.wrapping_sub(base[own]), ack.wrapping_sub(base[1 - own])]
                    }
                    _ => [seq, ack],
                };
                base.get_or_insert_with(|| {
                    let mut base = [0; 2];
                    (base[own], base[1 - own]) = (seq, ack.wrapping_sub(1));
                    base
                });
                let end = s.wrapping_add(len);
                let mut record = Record::default();
                let text = format!("P {s}:{end}({len}) ack {a} win 1");
                flows.fill(&Ends { from, to }, &parse(&text), &mut record);
                prop_assert_eq!((record.seq, record.ack), (seq, ack));
                next[own] = seq.wrapping_add(len);
            }
        }
    }
}
