use std::collections::BTreeMap;

use proptest::prelude::*;
use thruway_wire::ip_protocol;
use thruway_wire::tcp::flags;

use super::*;
use crate::segment::{self, Parts};
use crate::testing::segment as tcp_segment;

/// Stands for the place of a FIN.
const FIN: u16 = 256;

const PLENTY: Bounds = Bounds { waiting_bytes: u32::MAX, total_bytes: u64::MAX };

/// One direction of a connection, in places counted from its first byte.
struct Stream {
    store: Reorder,
    waiting: Waiting,
    begin: Seq,
    /// Place of the next byte.
    next: u32,
    window: u32,
    overlap: Overlap,
    /// Packets that came and did not leave.
    inside: usize,
}

impl Stream {
    fn new(begin: u32, overlap: Overlap) -> Stream {
        let (store, waiting) = (Reorder::new(PLENTY), Waiting::default());
        let begin = Seq::new(begin);
        Stream { store, waiting, begin, next: 0, window: 1 << 20, overlap, inside: 0 }
    }

    fn insert(&mut self, at: u32, bytes: &[u8], fin: bool) -> Outcome {
        let seq = self.begin + at;
        let flags = flags::ACK | if fin { flags::FIN } else { 0 };
        let packet = tcp_segment(seq.get(), 1, flags, bytes);
        let parts = Parts::of_tcp(&packet).unwrap();
        let next = self.begin + self.next;
        let expected = Expected { next, window: self.window, overlap: self.overlap };
        let outcome = self.store.insert(&mut self.waiting, (packet, &parts), (seq, fin), &expected);
        self.inside += usize::from(matches!(outcome, Outcome::Stored));
        self.inside -= self.store.spent().count();
        self.check();
        outcome
    }

    /// What begins at the expected place, which moves on behind it.
    fn take(&mut self) -> Option<(u32, Vec<u16>)> {
        let taken = self.store.take(&mut self.waiting, self.begin + self.next);
        self.inside -= self.store.spent().count();
        self.check_except(usize::from(taken.is_some()));
        let Taken { packet, parts, seq, fin } = taken?;
        self.inside -= 1;
        assert_eq!(Parts::of_tcp(&packet), Ok(parts));
        assert_eq!(parts.verify(&packet, ip_protocol::TCP), Ok(()));
        let header = segment::tcp(&packet, &parts).unwrap();
        assert_eq!((header.seq(), header.has_flags(flags::FIN)), (seq.get(), fin));
        let bytes = &packet.data()[parts.payload..parts.end];
        let place = self.begin.until(seq);
        let symbols: Vec<u16> =
            bytes.iter().copied().map(u16::from).chain(fin.then_some(FIN)).collect();
        self.next = place + symbols.len() as u32;
        Some((place, symbols))
    }

    /// All that waits, whatever is missing before it.
    fn drain(&mut self) -> BTreeMap<u32, u16> {
        let mut all = BTreeMap::new();
        while let Some(first) = self.store.first(&self.waiting) {
            self.next = self.next.max(self.begin.until(first));
            let Some((place, symbols)) = self.take() else { continue };
            all.extend((place..).zip(symbols));
        }
        all
    }

    fn check(&self) {
        self.check_except(0);
    }

    /// The list is sorted, nothing overlaps, and the counts are right.
    fn check_except(&self, in_flight: usize) {
        let (mut at, mut last, mut count, mut cost) = (self.waiting.head, 0, 0, 0);
        let mut end = self.begin;
        while let Some(slot) = self.store.slot(at) {
            let node = slot.node.as_ref().unwrap();
            assert!(!end.after(node.seq) && !node.is_empty());
            (end, last, at) = (node.span().end, at, slot.next);
            (count, cost) = (count + 1, cost + node.cost());
        }
        assert_eq!((self.waiting.packets, self.waiting.cost), (count, cost));
        assert_eq!((self.waiting.tail, self.store.total_cost), (last, u64::from(cost)));
        assert_eq!(count as usize + in_flight, self.inside);
        let ranges: Vec<_> = self.store.ranges(&self.waiting).collect();
        assert!(ranges.windows(2).all(|two| two[0].end.before(two[1].start)));
    }
}

/// The segments with which the rules were found (see [`crate::tcp::overlap`]), as `BYTES@PLACE`.
const SETS: [&str; 4] = [
    "AAA@2 BB@6 CCC@8 D@12 EE@15 FFF@17 GG@20 HH@22 I@24 JJJJ@3 KKK@8 LLL@11 MMM@14 N@18 O@21 \
     P@22 QQ@24 0@1",
    "B@3 D@9 EE@12 AA@2 JJJJ@1 LLL@8 MMM@11",
    "CCC@1 HH@15 II@17 KKK@1 LLLL@1 P@15 QQ@15",
    "AA@1 FFF@16 GG@19 JJ@2 O@20 N@17",
];

/// Systems that do the same, and what they make of each set; a dot is a hole.
const RESULTS: [(&[Overlap], [&str; 4]); 6] = [
    (
        &[Overlap::First, Overlap::Vista],
        [
            "0AAAJBBCCCLDLMEEFFFGGHHIQ",
            "JABJ...LDLMEE",
            "CCCL..........HHII",
            "AAJ............FFFGG",
        ],
    ),
    (
        &[Overlap::Bsd, Overlap::Macos, Overlap::Windows, Overlap::Windows2003],
        [
            "0AAAJJBCCCLLLMMMFFFGGHHIQ",
            "JJJJ...LLLMMM",
            "CCCL..........HHII",
            "AAJ............FFFGG",
        ],
    ),
    (
        &[Overlap::Linux, Overlap::Hpux10, Overlap::Irix],
        [
            "0AAAJJBCCCLLLMMMFFFGGHHQQ",
            "JJJJ...LLLMMM",
            "LLLL..........HHII",
            "AAJ............FFFGG",
        ],
    ),
    (
        &[Overlap::OldLinux],
        [
            "0AAAJJBKKKLLLMMMFFFGGHHQQ",
            "JJJJ...LLLMMM",
            "LLLL..........QQII",
            "AAJ............FFFGG",
        ],
    ),
    (
        &[Overlap::Solaris, Overlap::Hpux11],
        [
            "0AJJJBBKKKLLLMMMFFFGGHHQQ",
            "JJJJ...LLLMMM",
            "LLLL..........QQII",
            "AJJ............FFFGG",
        ],
    ),
    (
        &[Overlap::Last],
        [
            "0AJJJJBKKKLLLMMMFNFGOPHQQ",
            "JJJJ...LLLMMM",
            "LLLL..........QQII",
            "AJJ............FNFGO",
        ],
    ),
];

#[test]
fn systems_resolve_overlaps_as_they_were_seen_to() {
    let tested: usize = RESULTS.iter().map(|(systems, _)| systems.len()).sum();
    assert_eq!(tested, Overlap::ALL.len());
    for (systems, results) in RESULTS {
        let cases = systems
            .iter()
            .flat_map(|system| SETS.iter().zip(results).map(move |case| (system, case)));
        for (system, (set, result)) in cases {
            // Also where sequence numbers begin anew.
            for begin in [0, 1, u32::MAX, u32::MAX - 10] {
                let mut stream = Stream::new(begin, *system);
                for step in set.split_whitespace() {
                    let (bytes, at) = step.split_once('@').unwrap();
                    stream.insert(at.parse().unwrap(), bytes.as_bytes(), false);
                }
                let all = stream.drain();
                let end = all.last_key_value().map_or(0, |(place, _)| place + 1);
                let text: String = (1..end)
                    .map(|place| all.get(&place).map_or('.', |symbol| *symbol as u8 as char))
                    .collect();
                assert_eq!(text, result, "{system}: {set}");
            }
        }
    }
}

/// The same place by place: what is there, and which segment it is of.
struct Plain {
    cells: BTreeMap<u32, (u16, usize)>,
    overlap: Overlap,
    window: u32,
    segments: usize,
}

impl Plain {
    fn extent(&self, segment: usize) -> Option<(u32, u32)> {
        let mut places = self.cells.iter().filter(|(_, cell)| cell.1 == segment).map(|(at, _)| *at);
        let first = places.next()?;
        Some((first, places.next_back().unwrap_or(first) + 1))
    }

    /// The segments that have bytes from `from` to `to`, in order.
    fn touched(&self, from: u32, to: u32) -> Vec<usize> {
        let mut touched: Vec<usize> = self.cells.range(from..to).map(|(_, cell)| cell.1).collect();
        touched.dedup();
        touched
    }

    fn insert(&mut self, next: u32, at: u32, symbols: &[u16]) {
        let end = next + self.window;
        let fits = |place: u32, symbol: u16| {
            place >= next && (place < end || symbol == FIN && place == end)
        };
        let new: BTreeMap<u32, u16> =
            (at..).zip(symbols.iter().copied()).filter(|(at, symbol)| fits(*at, *symbol)).collect();
        let id = self.segments;
        self.segments += 1;
        let Some((mut from, mut to)) = new
            .first_key_value()
            .zip(new.last_key_value())
            .map(|(first, last)| (*first.0, last.0 + 1))
        else {
            return;
        };
        for old in self.touched(from, to) {
            let (begin, end) = self.extent(old).unwrap();
            if begin >= to {
                break;
            }
            let spans = (Seq::new(begin)..Seq::new(end), Seq::new(from)..Seq::new(to));
            let is_new_kept = self.overlap.is_new_kept(&spans.0, &spans.1);
            let is_old_within = from < begin && end < to;
            let is_new_within = begin < from && to < end;
            let owner = match is_new_kept {
                _ if is_old_within => id,
                _ if is_new_within => old,
                true => id,
                false => old,
            };
            for place in from.max(begin)..to.min(end) {
                let cell = self.cells.get_mut(&place).unwrap();
                *cell = (if is_new_kept { new[&place] } else { cell.0 }, owner);
            }
            if owner == old && begin <= from {
                from = end.min(to);
            } else if owner == old {
                to = begin;
            }
            // What loses the place of a FIN ends there.
            let lost = |cell: &(u16, usize)| cell.0 == FIN && cell.1 == owner;
            let fin =
                self.cells.range(begin..end).find(|(_, cell)| lost(cell)).map(|(at, _)| at + 1);
            if let Some(fin) = fin {
                self.cells.retain(|place, cell| cell.1 != owner || *place < fin);
                to = if owner == id { to.min(fin) } else { to };
            }
            if from >= to {
                return;
            }
        }
        for place in from..to {
            self.cells.entry(place).or_insert((new[&place], id));
        }
    }

    fn take(&mut self, next: u32) -> Option<(u32, Vec<u16>)> {
        self.cells.retain(|place, _| *place >= next);
        let (_, segment) = *self.cells.get(&next)?;
        let taken: Vec<u16> =
            self.cells.values().filter(|cell| cell.1 == segment).map(|cell| cell.0).collect();
        self.cells.retain(|_, cell| cell.1 != segment);
        Some((next, taken))
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u32, Vec<u8>, bool),
    Take,
    Skip(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop::collection::vec(b'a'..=b'z', 0..12);
    prop_oneof![
        12 => (0u32..48, bytes, prop::bool::weighted(0.1))
            .prop_map(|(at, bytes, fin)| Step::Insert(at, bytes, fin)),
        2 => Just(Step::Take),
        1 => (1u32..4).prop_map(Step::Skip),
    ]
}

fn overlap() -> impl Strategy<Value = Overlap> {
    (0..Overlap::ALL.len()).prop_map(|at| Overlap::ALL[at].1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn as_place_by_place(
        begin in prop_oneof![Just(0), Just(u32::MAX - 20), any::<u32>()],
        overlap in overlap(),
        window in 8u32..60,
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut stream = Stream { window, ..Stream::new(begin, overlap) };
        let mut plain = Plain { cells: BTreeMap::new(), overlap, window, segments: 0 };
        for step in steps {
            match step {
                Step::Insert(at, bytes, fin) => {
                    let symbols: Vec<u16> =
                        bytes.iter().copied().map(u16::from).chain(fin.then_some(FIN)).collect();
                    plain.insert(stream.next, at, &symbols);
                    stream.insert(at, &bytes, fin);
                }
                Step::Take => prop_assert_eq!(plain.take(stream.next), stream.take()),
                Step::Skip(n) => stream.next += n,
            }
        }
        let rest: BTreeMap<u32, u16> = plain
            .cells
            .range(stream.next..)
            .map(|(place, cell)| (*place, cell.0))
            .collect();
        prop_assert_eq!(stream.drain(), rest);
        prop_assert_eq!(stream.inside, 0);
    }

    /// Of the bytes of each place, the first or the last that came counts, however they came.
    #[test]
    fn first_and_last_are_what_they_say(
        is_last in any::<bool>(),
        segments in prop::collection::vec((0u32..40, prop::collection::vec(any::<u8>(), 1..20)), 1..30),
    ) {
        let mut stream = Stream::new(77, if is_last { Overlap::Last } else { Overlap::First });
        let mut plain = BTreeMap::new();
        for (at, bytes) in segments {
            stream.insert(at, &bytes, false);
            for (place, byte) in (at..).zip(bytes) {
                let byte = u16::from(byte);
                let old = plain.insert(place, byte);
                if let Some(old) = old.filter(|_| !is_last) {
                    plain.insert(place, old);
                }
            }
        }
        prop_assert_eq!(stream.drain(), plain);
    }
}

#[test]
fn a_segment_that_is_not_touched_leaves_as_it_came() {
    let mut stream = Stream::new(5, Overlap::First);
    assert!(matches!(stream.insert(10, b"later", false), Outcome::Stored));
    assert!(stream.take().is_none());
    assert!(matches!(stream.insert(10, b"later", false), Outcome::Duplicate(_)));
    assert_eq!(
        stream.store.ranges(&stream.waiting).collect::<Vec<_>>(),
        [Seq::new(15)..Seq::new(20)]
    );
    stream.next = 10;
    assert_eq!(stream.take().unwrap().1, b"later".map(u16::from));
    assert_eq!(stream.store.stats(), Stats { overlaps: 1, conflicts: 0 });
}

#[test]
fn old_bytes_are_duplicates_and_the_window_is_kept_to() {
    let mut stream = Stream { next: 20, window: 10, ..Stream::new(0, Overlap::Last) };
    assert!(matches!(stream.insert(10, b"0123456789", false), Outcome::Duplicate(_)));
    assert!(matches!(stream.insert(30, b"x", false), Outcome::OutOfWindow(_)));
    assert!(matches!(stream.insert(0x8000_0000, b"x", false), Outcome::OutOfWindow(_)));
    assert!(matches!(stream.insert(30, b"", true), Outcome::Stored));
    assert!(matches!(stream.insert(10, b"0123456789abcdefghijklmnopqrst", false), Outcome::Stored));
    assert_eq!(stream.take().unwrap(), (20, b"abcdefghij".map(u16::from).to_vec()));
    assert_eq!(stream.take().unwrap(), (30, vec![FIN]));
}

#[test]
fn bounds_hold_and_what_is_expected_passes() {
    let one = Node::new(
        tcp_segment(0, 0, 0, b"x"),
        &Parts::of_tcp(&tcp_segment(0, 0, 0, b"x")).unwrap(),
        Seq::new(0),
        false,
    )
    .cost();
    let mut stream = Stream::new(0, Overlap::First);
    stream.store.bounds = Bounds { waiting_bytes: 2 * one, total_bytes: u64::from(3 * one) };
    assert!(matches!(stream.insert(10, b"a", false), Outcome::Stored));
    assert!(matches!(stream.insert(20, b"b", false), Outcome::Stored));
    assert!(matches!(stream.insert(30, b"c", false), Outcome::Full(_)));
    assert!(matches!(stream.insert(0, b"d", false), Outcome::Stored));
    assert_eq!(stream.store.memory_bytes(), u64::from(3 * one));

    let mut other = Waiting::default();
    let (packet, expected) = (
        tcp_segment(10, 0, 0, b"e"),
        Expected { next: Seq::new(0), window: 99, overlap: Overlap::First },
    );
    let parts = Parts::of_tcp(&packet).unwrap();
    let outcome =
        stream.store.insert(&mut other, (packet, &parts), (Seq::new(10), false), &expected);
    assert!(matches!(outcome, Outcome::Full(_)) && other.is_empty());

    stream.store.clear(&mut stream.waiting);
    assert_eq!(stream.store.spent().count(), 3);
    assert_eq!((stream.store.memory_bytes(), stream.waiting), (0, Waiting::default()));
    let slots = stream.store.slots.len();
    stream.inside = 0;
    assert!(matches!(stream.insert(10, b"a", false), Outcome::Stored));
    assert_eq!(stream.store.slots.len(), slots, "slots are used again");
}
