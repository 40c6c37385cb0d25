use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// Numbers that belong together: one of each side where nothing changed, else a whole piece.
/// Positions are plain, without modulus.
#[derive(Debug, Clone, Copy)]
struct Atom {
    at: (u64, u64),
    took: u64,
    length: u64,
}

impl Atom {
    fn end(&self) -> (u64, u64) {
        (self.at.0 + self.took, self.at.1 + self.length)
    }
}

/// All atoms that ever were, and linear scans.
struct Plain {
    atoms: Vec<Atom>,
    start: (u64, u64),
}

impl Plain {
    fn end(&self) -> (u64, u64) {
        self.atoms.last().map_or(self.start, Atom::end)
    }

    fn push(&mut self, took: u16, length: u16) {
        let (count, took, length) = match (u64::from(took), u64::from(length)) {
            (took, length) if took == length => (took, 1, 1),
            (took, length) => (1, took, length),
        };
        for _ in 0..count {
            self.atoms.push(Atom { at: self.end(), took, length });
        }
    }

    fn to_in(&self, out: u64) -> u64 {
        let whole = self.atoms.iter().take_while(|atom| atom.end().1 <= out);
        whole.last().map_or(self.start.0, |atom| atom.end().0)
    }

    fn to_out(&self, at_in: u64) -> u64 {
        let end = self.end();
        let holds = |atom: &&Atom| match atom.took {
            0 => atom.at.0 == at_in,
            took => (atom.at.0..atom.at.0 + took).contains(&at_in),
        };
        match self.atoms.iter().find(holds) {
            Some(atom) if at_in < end.0 => atom.at.1,
            _ => end.1 + (at_in - end.0),
        }
    }

    fn to_in_range(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let mut covered = self.atoms.iter().filter(|atom| atom.at.1 >= from && atom.end().1 <= to);
        let first = covered.next()?;
        let range = (first.at.0, covered.next_back().unwrap_or(first).end().0);
        (from < to && range.0 < range.1).then_some(range)
    }
}

fn seq(plain: u64) -> Seq {
    Seq::new(plain as u32)
}

/// The number next to `near` that is `seq` modulo 2^32.
fn plain(seq: Seq, near: u64) -> u64 {
    near.wrapping_add(i64::from(seq.distance(self::seq(near)) as i32) as u64)
}

#[derive(Debug, Clone)]
enum Step {
    Push(u16, u16),
    /// So many 256ths of what is outstanding.
    Acknowledge(u8),
    /// Of what never left, or has been acknowledged.
    Nonsense(i16),
    Forget,
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        4 => (1..40u16).prop_map(|n| Step::Push(n, n)),
        3 => (0..40u16, 0..40u16).prop_map(|(took, length)| Step::Push(took, length)),
        2 => (0..40u16).prop_map(|took| Step::Push(took, 0)),
        1 => (0..40u16).prop_map(|length| Step::Push(0, length)),
        2 => any::<u8>().prop_map(Step::Acknowledge),
        1 => any::<i16>().prop_map(Step::Nonsense),
        1 => Just(Step::Forget),
    ];
    prop::collection::vec((0..2usize, step), 0..120)
}

/// Often shortly before numbers begin again.
fn start() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), u32::MAX - 300..=u32::MAX]
}

struct Pair {
    seq_map: SeqMap,
    plain: Plain,
    acked: u64,
}

impl Pair {
    fn new(start: (u64, u64)) -> Pair {
        let seq_map = SeqMap::new(seq(start.0), seq(start.1));
        Pair { seq_map, plain: Plain { atoms: Vec::new(), start }, acked: start.1 }
    }

    fn carry_out(&mut self, slab: &mut SeqMapSlab, step: &Step) {
        let end = self.plain.end().1;
        match *step {
            Step::Push(took, length) => {
                self.plain.push(took, length);
                self.seq_map.push(slab, took, length).unwrap();
            }
            Step::Acknowledge(part) => {
                self.acked += ((end - self.acked) * u64::from(part)).div_ceil(256);
                let at_in = self.seq_map.acknowledge(slab, seq(self.acked));
                assert_eq!(at_in, seq(self.plain.to_in(self.acked)));
            }
            Step::Nonsense(by) => {
                let out = if by > 0 { end } else { self.acked }.wrapping_add_signed(by.into());
                let _ = self.seq_map.acknowledge(slab, seq(out));
            }
            Step::Forget => self.seq_map.forget(slab),
        }
    }

    /// Where what is remembered begins.
    fn base(&self) -> (u64, u64) {
        let SeqPair { at_in, at_out } = self.seq_map.base;
        let at_in = plain(at_in, self.plain.end().0);
        (at_in, plain(at_out, self.acked))
    }

    fn compare(&self, slab: &SeqMapSlab, at: &[u16]) {
        let (seq_map, end, base) = (&self.seq_map, self.plain.end(), self.base());
        assert_eq!((seq_map.end_in(), seq_map.end_out()), (seq(end.0), seq(end.1)));
        assert_eq!(seq_map.acked_out(), seq(self.acked));
        assert_eq!(seq_map.acked_in(), seq(self.plain.to_in(self.acked)));
        assert!(base.1 <= self.acked && base.1 >= self.plain.start.1);
        let pick = |at: u16, from: u64, to: u64| from + u64::from(at) % (to - from + 1);
        for pair in at.windows(3) {
            let out = pick(pair[0], base.1, end.1);
            assert_eq!(seq_map.to_in(slab, seq(out)), seq(self.plain.to_in(out)), "in of {out}");
            let at_in = pick(pair[0], base.0, end.0 + 9);
            // What was inserted there may be forgotten.
            let out = self.plain.to_out(at_in).max(base.1);
            assert_eq!(seq_map.to_out(slab, seq(at_in)), seq(out), "out of {at_in}");
            let from = pick(pair[0], self.plain.start.1, end.1);
            let to = pick(pair[1], from, end.1 + 3);
            let ack = pick(pair[2], base.1, self.acked);
            self.compare_range(slab, from, to, ack);
        }
    }

    fn compare_range(&self, slab: &SeqMapSlab, from: u64, to: u64, ack: u64) {
        let base = self.base();
        let is_remembered = |atom: &&Atom| atom.at.0 >= base.0 && atom.at.1 >= base.1;
        let atoms = self.plain.atoms.iter().filter(is_remembered).copied().collect();
        let want =
            Plain { atoms, start: base }.to_in_range(from.max(base.1), to.min(self.plain.end().1));
        let ack_in = self.plain.to_in(ack);
        let want = want.filter(|want| from <= ack || want.0 > ack_in);
        let got = self.seq_map.to_in_range(slab, (seq(from), seq(to)), seq(ack));
        assert_eq!(got, want.map(|(from, to)| (seq(from), seq(to))), "{from}..{to}, {ack}");
        if let Some((_, right)) = got
            && to <= ack
        {
            assert!(!right.after(seq(ack_in)), "a duplicate reports unacknowledged data");
        }
    }
}

proptest! {
    #[test]
    fn numbers_are_those_of_a_scan_over_all_bytes(
        starts in [(start(), start()), (start(), start())],
        steps in steps(),
        at in prop::collection::vec(any::<u16>(), 3..9),
    ) {
        let mut slab = SeqMapSlab::new(10_000);
        let lift = |start: u32| u64::from(start) + (5 << 32);
        let mut pairs = starts.map(|(a, b)| Pair::new((lift(a), lift(b))));
        for (which, step) in &steps {
            pairs[*which].carry_out(&mut slab, step);
            pairs[*which].compare(&slab, &at);
        }
        for pair in &mut pairs {
            pair.compare(&slab, &at);
            pair.seq_map.release(&mut slab);
        }
        prop_assert_eq!(slab.bytes_in_use(), 0);
    }
}

#[test]
fn a_changed_piece_is_received_as_a_whole() {
    let mut slab = SeqMapSlab::new(100);
    let (isn_in, isn_out) = (Seq::new(u32::MAX - 2), Seq::new(1000));
    let mut seq_map = SeqMap::new(isn_in, isn_out);
    // SYN, 10 as they are, 10 that become 4, 5 that vanish, 10 as they are.
    for (took, length) in [(1, 1), (10, 10), (10, 4), (5, 0), (10, 10)] {
        seq_map.push(&mut slab, took, length).unwrap();
    }
    let to_in = |out: u32| seq_map.to_in(&slab, isn_out + out).distance(isn_in);
    let acks = [0, 1, 5, 11, 12, 14, 15, 16, 25, 26].map(to_in);
    assert_eq!(acks, [0, 1, 5, 11, 11, 11, 26, 27, 36, 36]);
    let to_out = |at: u32| seq_map.to_out(&slab, isn_in + at).distance(isn_out);
    assert_eq!([0, 5, 11, 20, 21, 25, 26, 36, 40].map(to_out), [0, 5, 11, 11, 15, 15, 15, 25, 29]);
    let block = |from: u32, to: u32| {
        let range = seq_map.to_in_range(&slab, (isn_out + from, isn_out + to), isn_out + 1);
        range.map(|(from, to)| (from.distance(isn_in), to.distance(isn_in)))
    };
    assert_eq!(block(5, 12), Some((5, 11)));
    assert_eq!(block(11, 15), Some((11, 26)));
    assert_eq!(block(12, 14), None);
    assert_eq!(block(12, 20), Some((21, 31)));
    assert_eq!(block(20, 12), None);
}

#[test]
fn a_hole_in_what_was_inserted_is_not_shown() {
    let mut slab = SeqMapSlab::new(100);
    let mut seq_map = SeqMap::new(Seq::new(0), Seq::new(0));
    for (took, length) in [(10, 10), (0, 7), (10, 10)] {
        seq_map.push(&mut slab, took, length).unwrap();
    }
    let block = (Seq::new(17), Seq::new(27));
    assert_eq!(seq_map.to_in_range(&slab, block, Seq::new(10)), None);
    let earlier = seq_map.to_in_range(&slab, block, Seq::new(9));
    assert_eq!(earlier, Some((Seq::new(10), Seq::new(20))));
}

#[test]
fn duplicates_of_the_last_ten_changes_are_reported() {
    let mut slab = SeqMapSlab::new(1000);
    let mut seq_map = SeqMap::new(Seq::new(0), Seq::new(0));
    for _ in 0..100 {
        seq_map.push(&mut slab, 10, 3).unwrap();
    }
    for piece in 1..=100 {
        let ack = Seq::new(piece * 3);
        let _ = seq_map.acknowledge(&mut slab, ack);
        for last in piece.saturating_sub(10)..piece {
            let block = (Seq::new(last * 3), Seq::new(last * 3 + 3));
            let acked_to = (Seq::new(last * 10), Seq::new(last * 10 + 10));
            assert_eq!(seq_map.to_in_range(&slab, block, ack), Some(acked_to));
        }
    }
    assert!(slab.bytes_in_use() <= 256);
    seq_map.forget(&mut slab);
    assert_eq!(slab.bytes_in_use(), 0);
    assert_eq!(seq_map.to_in_range(&slab, (Seq::new(297), Seq::new(300)), Seq::new(300)), None);
}

/// Connections of many times 2^32 bytes, against the last pieces in plain numbers.
fn long_run(took: impl Fn(u64) -> u16, length: impl Fn(u64) -> u16) {
    let mut slab = SeqMapSlab::new(100_000);
    let mut seq_map = SeqMap::new(Seq::new(7), Seq::new(u32::MAX));
    let mut end = (7, u64::from(u32::MAX));
    let mut recent = VecDeque::from([end]);
    for step in 0..200_000 {
        let (took, length) = (took(step), length(step));
        seq_map.push(&mut slab, took, length).unwrap();
        end = (end.0 + u64::from(took), end.1 + u64::from(length));
        recent.push_back(end);
        if recent.len() > 1000 {
            recent.pop_front();
            let at = recent[0].1;
            // All that ends here is acknowledged.
            let all = recent.iter().take_while(|pair| pair.1 <= at).last().unwrap();
            assert_eq!(seq_map.acknowledge(&mut slab, seq(at)), seq(all.0));
        }
        if step % 8 != 0 {
            continue;
        }
        let pair = recent[recent.len() / 2];
        let last = recent.iter().take_while(|other| other.1 <= pair.1).last().unwrap();
        assert_eq!(seq_map.to_in(&slab, seq(pair.1)), seq(last.0));
        if pair.0 < end.0 {
            let first = recent.iter().find(|other| other.0 >= pair.0).unwrap();
            assert_eq!(seq_map.to_out(&slab, seq(pair.0)), seq(first.1));
        }
        assert!(slab.bytes_in_use() < 2200 * 13, "{}", slab.bytes_in_use());
    }
    assert!(end.0.max(end.1) > 2 << 32);
}

#[test]
fn long_connections_with_rare_edits() {
    long_run(|_| 65_535, |step| if step % 5_000 == 0 { 65_000 } else { 65_535 });
    long_run(|_| 65_535, |step| if step % 90_000 == 0 { 1 } else { 65_535 });
}

#[test]
fn long_connections_that_shrink_or_grow() {
    long_run(|_| 65_535, |_| 100);
    long_run(|_| 100, |_| 65_535);
    long_run(|_| 65_535, |step| u16::from(step % 999 == 0));
    long_run(|_| 0, |_| 65_535);
}

#[test]
fn a_stream_of_which_nothing_is_left_needs_no_memory() {
    let mut slab = SeqMapSlab::new(20);
    let mut seq_map = SeqMap::new(Seq::new(0), Seq::new(0));
    for _ in 0..1_000_000 {
        seq_map.push(&mut slab, 65_535, 0).unwrap();
        assert_eq!(seq_map.acked_in(), seq_map.end_in());
    }
    assert!(slab.bytes_in_use() <= 256);
}

#[test]
fn the_limits_are_kept() {
    let mut slab = SeqMapSlab::new(30);
    let (mut a, mut b) =
        (SeqMap::new(Seq::new(0), Seq::new(0)), SeqMap::new(Seq::new(0), Seq::new(0)));
    for _ in 0..20 {
        a.push(&mut slab, 10, 1).unwrap();
        let _ = a.acknowledge(&mut slab, a.end_out());
    }
    for _ in 0..10 {
        b.push(&mut slab, 10, 1).unwrap();
    }
    let before = b;
    assert_eq!(b.push(&mut slab, 10, 1), Err(Full));
    assert_eq!(b.end_in(), before.end_in());
    b.push(&mut slab, 10, 10).unwrap();
    // Of the other all is acknowledged.
    a.push(&mut slab, 10, 1).unwrap();
    b.push(&mut slab, 10, 1).unwrap();
    assert_eq!(b.push(&mut slab, 0, 0), Ok(()));
    a.release(&mut slab);
    b.release(&mut slab);
    assert_eq!(slab.bytes_in_use(), 0);

    let mut far = SeqMap::new(Seq::new(0), Seq::new(0));
    let pushed = (0..20_000).take_while(|_| far.push(&mut slab, 65_535, 65_535).is_ok()).count();
    assert_eq!(pushed, (OUTSTANDING_MAX / 65_535) as usize);
}
