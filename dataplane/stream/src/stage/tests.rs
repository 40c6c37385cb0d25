use proptest::prelude::*;
use thruway_payload::{Content, Layer};

use super::*;
use crate::testing::segment;

/// A packet as TCPIn hands it on.
fn packet(bytes: &[u8], flags: u8) -> Packet {
    let mut packet = segment(1, 1, 0x10, bytes);
    packet.set_fcb(1);
    let mut mark = Content::new(Layer::Tcp, 40, bytes.len() as u16);
    mark.flags = flags;
    packet.set_content_mark(mark);
    packet
}

/// Replaces every `ab` by `with`, holding back an `a` at the end.
fn replace(with: &'static [u8]) -> impl FnMut(&mut StreamCursor<'_>) -> Next {
    move |data| {
        let mut last = 0;
        while let Some(byte) = data.next() {
            if last == b'a' && byte == b'b' {
                data.replace_back(2, with);
                last = 0;
            } else {
                last = byte;
            }
        }
        if last == b'a' && !data.is_last() {
            data.back(1);
            return Next::NeedMore;
        }
        Next::Continue
    }
}

/// A stage with a limit of time.
fn timed() -> Stage {
    Stage::new(Hold { time: 100_000_000, ..Hold::default() })
}

fn plain(bytes: &[u8], with: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"ab") {
            out.extend(with);
            at += 2;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

proptest! {
    #[test]
    fn whatever_the_packets(
        pieces in prop::collection::vec(prop::collection::vec(b'a'..=b'c', 0..12), 1..9),
        runs in prop::collection::vec(1..4usize, 9),
        with in prop::sample::select(vec![&b""[..], b"X", b"XY", b"XYZXYZ"]),
    ) {
        let all = pieces.concat();
        let count = pieces.len();
        let mut packets: Vec<Packet> = pieces.iter().enumerate()
            .map(|(i, bytes)| packet(bytes, if i + 1 == count { flag::LAST } else { 0 }))
            .collect();
        let (mut stage, mut memory) = (Stage::default(), Memory::default());
        let mut show = replace(with);
        let mut rest = &mut packets[..];
        for run in runs {
            let n = run.min(rest.len());
            let (now, behind) = rest.split_at_mut(n);
            stage.run(&mut memory, now, (0, 0, 0), &mut show);
            rest = behind;
        }
        let got: Vec<u8> = packets.iter().flat_map(|packet| packet.content().to_vec()).collect();
        prop_assert_eq!(got, plain(&all, with));
        prop_assert_eq!(stage.holding(), 0);
        let took: usize = packets.iter().map(|p| usize::from(p.content_mark().took)).sum();
        prop_assert_eq!(took, all.len());
    }
}

#[test]
fn what_is_held_goes_on_at_another_host() {
    let (mut stage, mut memory) = (Stage::default(), Memory::default());
    stage.run(&mut memory, &mut [packet(b"xxa", 0)], (1, 1, 0), &mut replace(b"-"));
    let kept = [0, 1].map(|direction| stage.replicable(&memory, direction).map(<[u8]>::to_vec));
    assert_eq!(kept, [Some(vec![]), Some(b"a".to_vec())]);

    // What is held back there is of another time.
    let (mut there, mut held) = (Stage::default(), Memory::default());
    there.run(&mut held, &mut [packet(b"a", 0)], (0, 0, 0), &mut replace(b"-"));
    for (direction, kept) in kept.iter().flatten().enumerate() {
        assert_eq!(there.restore(&mut held, direction, kept), Ok(()));
    }
    assert_eq!(there.holding(), 1);
    let mut next = [packet(b"bc", 0)];
    there.run(&mut held, &mut next, (1, 1, 0), &mut replace(b"-"));
    assert_eq!(next[0].content(), b"-c");

    assert!(there.restore(&mut held, 0, &[b'a'; FEW + 1]).is_err());
    assert!(timed().restore(&mut held, 0, b"a").is_err());
    assert_eq!(timed().replicable(&Memory::default(), 0), None);
    memory.closed = 1;
    assert_eq!(stage.replicable(&memory, 1), None);
}

#[test]
fn what_is_held_too_long_goes_on_alone() {
    let (mut stage, mut memory) = (timed(), Memory::default());
    let mut first = [packet(b"xxa", 0)];
    stage.run(&mut memory, &mut first, (3, 1, 1_000), &mut replace(b"-"));
    assert_eq!((first[0].content(), first[0].content_mark().took), (&b"xx"[..], 3));
    let due = stage.due().unwrap();
    assert!(stage.late(due - 1).is_none());
    let (port, late) = stage.late(due).unwrap();
    assert_eq!((port, late.content(), late.content_mark().took), (3, &b"a"[..], 0));
    Stage::let_go(&mut memory, 1);
    let mut late = [late];
    stage.run(&mut memory, &mut late, (3, 1, due), &mut replace(b"-"));
    assert_eq!((late[0].content(), stage.holding()), (&b"a"[..], 0));
    // It is not there twice.
    let mut second = [packet(b"bb", 0)];
    stage.run(&mut memory, &mut second, (3, 1, due), &mut replace(b"-"));
    assert_eq!(second[0].content(), b"bb");
}

#[test]
fn a_reminder_has_nothing_and_lets_everything_go() {
    let (mut stage, mut memory) = (timed(), Memory::default());
    let mut first = [packet(b"xxa", 0)];
    stage.run(&mut memory, &mut first, (3, 1, 1_000), &mut replace(b"-"));
    let due = stage.due().unwrap();
    assert!(stage.remind(due - 1).is_none());
    let (port, late) = stage.remind(due).unwrap();
    let mark = late.content_mark();
    assert_eq!((port, late.content(), mark.took, late.fcb()), (3, &b""[..], 0, 1));
    assert!(mark.has(flag::LATE) && stage.due().is_none());
    assert_eq!(stage.kept(&memory, 1), b"a");
    let mut late = [late];
    stage.run(&mut memory, &mut late, (3, 1, due), &mut replace(b"-"));
    assert_eq!((late[0].content(), stage.holding()), (&b"a"[..], 0));
    // The packet in between took it along.
    stage.run(&mut memory, &mut [packet(b"xxa", 0)], (3, 1, due), &mut replace(b"-"));
    stage.run(&mut memory, &mut [packet(b"b", 0)], (3, 1, due), &mut replace(b"-"));
    assert!(stage.remind(i64::MAX).is_none());
    assert_eq!(stage.kept(&memory, 1), b"");
}

#[test]
fn too_much_is_not_held_back() {
    let mut stage = Stage::new(Hold { max: 4, time: 1, ..Hold::default() });
    let mut memory = Memory::default();
    let mut show = |data: &mut StreamCursor<'_>| {
        data.advance(1);
        Next::NeedMore
    };
    let mut run = [packet(b"12345", 0)];
    stage.run(&mut memory, &mut run, (0, 0, 0), &mut show);
    assert_eq!((run[0].content(), stage.holding()), (&b"1"[..], 1));
    let mut run = [packet(b"6", 0)];
    stage.run(&mut memory, &mut run, (0, 0, 0), &mut show);
    assert_eq!((run[0].content(), stage.holding()), (&b"2"[..], 1));
    let mut run = [packet(b"78", 0)];
    stage.run(&mut memory, &mut run, (0, 0, 0), &mut show);
    assert_eq!((run[0].content(), stage.holding()), (&b"345678"[..], 0));
    assert_eq!(stage.counts.overheld, 1);
}

#[test]
fn closed_is_closed() {
    let (mut stage, mut memory) = (Stage::default(), Memory::default());
    stage.run(&mut memory, &mut [packet(b"x", 0)], (0, 0, 0), &mut |_| Next::NeedMore);
    let mut run = [packet(b"y", 0), packet(b"z", 0)];
    stage.run(&mut memory, &mut run, (0, 0, 0), &mut |_| Next::Close);
    assert!(run.iter().all(|packet| packet.content_mark().has(flag::CLOSE)));
    let mut run = [packet(b"y", 0)];
    stage.run(&mut memory, &mut run, (0, 1, 0), &mut |_| panic!("shown after its end"));
    assert!(run[0].content_mark().has(flag::CLOSE) && memory.is_closed());
    assert_eq!((stage.holding(), stage.counts.closed), (0, 1));
}

/// Without a time limit nothing goes on before its rest has come: a session that holds back more
/// than permitted is closed.
#[test]
fn too_much_closes_where_nothing_may_pass() {
    let mut stage = Stage::new(Hold { max: 4, ..Hold::default() });
    let mut memory = Memory::default();
    let mut run = [packet(b"12345", 0)];
    stage.run(&mut memory, &mut run, (0, 0, 0), &mut |_| Next::NeedMore);
    assert!(memory.is_closed() && run[0].content_mark().has(flag::CLOSE));
    assert_eq!((stage.counts.overheld, stage.holding(), stage.memory_bytes()), (1, 0, 0));
}

#[test]
fn nothing_goes_on_by_time_at_the_default() {
    let (mut stage, mut memory) = (Stage::default(), Memory::default());
    stage.run(&mut memory, &mut [packet(b"xxa", 0)], (0, 0, 1), &mut replace(b"-"));
    assert!(stage.due().is_none() && stage.late(i64::MAX).is_none());
    let mut rest = [packet(b"b", 0)];
    stage.run(&mut memory, &mut rest, (0, 0, i64::MAX), &mut replace(b"-"));
    assert_eq!(rest[0].content(), b"-");
}

/// What the bytes of a session are in the plain oracle of [`memory_has_a_bound`].
#[derive(Clone, PartialEq, Debug)]
enum Plain {
    Nothing,
    Held(Vec<u8>),
    Gone,
}

proptest! {
    /// Sessions hold back, take up and end in any order: as in a list of ages, no more memory is
    /// used than permitted, and a session that was given up is closed with its next packet.
    #[test]
    fn memory_has_a_bound(
        steps in prop::collection::vec((0..12usize, 0..90usize, 0..8u8), 1..200),
        total in 0..12_000u64,
        time in prop::sample::select(vec![0, 1]),
    ) {
        let mut stage = Stage::new(Hold { total, time, ..Hold::default() });
        let mut memories = [Memory::default(); 12];
        let mut oracle = vec![Plain::Nothing; 12];
        let mut ages: Vec<(usize, u64)> = Vec::new();
        for (session, len, what) in steps {
            let memory = &mut memories[session];
            ages.retain(|(other, _)| *other != session);
            let before = std::mem::replace(&mut oracle[session], Plain::Nothing);
            if what == 0 {
                stage.forget(memory);
                *memory = Memory::default();
                continue;
            }
            let mut seen = None;
            let mut run = [packet(&vec![session as u8; len], 0)];
            stage.run(memory, &mut run, (0, 0, 0), &mut |data| {
                seen = Some(data.chunk().to_vec());
                if what > 3 { Next::NeedMore } else { data.skip_all(); Next::Continue }
            });
            if before == Plain::Gone {
                prop_assert!(seen.is_none() && memory.is_closed());
                *memory = Memory::default();
                continue;
            }
            let mut all = if let Plain::Held(bytes) = before { bytes } else { Vec::new() };
            all.extend(vec![session as u8; len]);
            prop_assert_eq!(seen.as_ref().map(Vec::len).unwrap_or(0) <= all.len(), true);
            if what > 3 && !all.is_empty() {
                let frame = if time == 0 && all.len() <= 55 { 0 } else { 31 * 64 + 64 };
                let slot = store::SLOT_BYTES as u64;
                ages.push((session, frame + slot));
                oracle[session] = Plain::Held(all);
                while ages.iter().map(|(_, cost)| cost).sum::<u64>() > total {
                    oracle[ages.remove(0).0] = Plain::Gone;
                }
            }
            let cost: u64 = ages.iter().map(|(_, cost)| cost).sum();
            prop_assert_eq!(stage.memory_bytes(), cost);
            prop_assert!(cost <= total);
            for (memory, plain) in memories.iter().zip(&oracle) {
                let bytes = if let Plain::Held(bytes) = plain { &bytes[..] } else { &[] };
                prop_assert_eq!(stage.kept(memory, 0), bytes);
            }
        }
    }
}
