//! The flow manager on packets: against a map of five-tuples, and what floods, translations, ICMP
//! errors, coarser sessions and another configuration do to it.

mod endings;
mod forged;
mod images;
mod takeover;
mod threads;

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use thruway_flow::chain::{Chain, Changes, Demand, Node, Role};
use thruway_flow::manager::{At, Bounds, Input, Manager, Refusal, Settings, shared_flows_of};
use thruway_flow::{Direction, Ended, Fcb, Phase, SessionDef, Timeouts, consolidate};
use thruway_packet::{Batch, Packet};
use thruway_wire::checksum::Sum;
use thruway_wire::flow::FiveTuple;

const ENTRY: u32 = 0;
const SECOND: i64 = 1_000_000_000;

fn demand(session: &str, size: usize) -> Demand {
    Demand::of(SessionDef::parse(session).unwrap(), size, 4)
}

/// An entry and functions in a row.
fn chain(demands: &[Demand]) -> Chain {
    let node = |role, demand, next: Option<usize>| Node {
        name: "x".into(),
        role,
        outputs: vec![next.map(|node| (node, 0))],
        passes: vec![vec![0]],
        changes: Changes::Nothing,
        demand,
        counts: true,
    };
    let mut nodes = vec![node(Role::Entry, None, Some(1))];
    for (at, demand) in demands.iter().enumerate() {
        let next = (at + 1 < demands.len()).then_some(at + 2);
        nodes.push(node(Role::Function, Some(demand.clone()), next));
    }
    Chain { nodes, early_drop: false }
}

fn manager(demands: &[Demand], settings: &Settings) -> Manager {
    let plan = consolidate(&chain(demands)).unwrap();
    Manager::new(Arc::new(plan), settings).unwrap()
}

fn bounded(sessions_max: u32, embryonic_max: u32) -> Settings {
    Settings { bounds: Bounds { sessions_max, embryonic_max }, ..Settings::default() }
}

/// An Ethernet frame with an IPv4 packet of this five-tuple; of TCP with the numbers of ends that
/// begin with 0 and send nothing.
fn frame(tuple: &FiveTuple<u32>, tcp_flags: u8) -> Packet {
    let mut transport = [tuple.src_port.to_be_bytes(), tuple.dst_port.to_be_bytes()].concat();
    if tuple.protocol == 6 {
        let (seq, ack) = (u8::from(tcp_flags & 0x02 == 0), tcp_flags >> 4 & 1);
        transport.extend_from_slice(&[0, 0, 0, seq, 0, 0, 0, ack, 0x50, tcp_flags, 0, 9, 0, 0]);
        transport.extend_from_slice(&[0, 0]);
        let sum = Sum::pseudo_v4(tuple.src, tuple.dst, 6, transport.len()).with(&transport);
        transport[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
    } else {
        transport.extend_from_slice(&[0, 8, 0, 0]);
    }
    ip(tuple, &transport)
}

fn ip(tuple: &FiveTuple<u32>, payload: &[u8]) -> Packet {
    let mut bytes = vec![2; 12];
    bytes.extend_from_slice(&[8, 0, 0x45, 0]);
    bytes.extend_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0, 0, 64, tuple.protocol, 0, 0]);
    bytes.extend_from_slice(&tuple.src.to_be_bytes());
    bytes.extend_from_slice(&tuple.dst.to_be_bytes());
    bytes.extend_from_slice(payload);
    Packet::new(&bytes).unwrap()
}

/// What a router says of a packet that it cannot deliver.
fn unreachable(tuple: &FiveTuple<u32>) -> Packet {
    let mut error = vec![3, 1, 0, 0, 0, 0, 0, 0];
    error.extend_from_slice(&frame(tuple, 0).data()[14..]);
    ip(&FiveTuple { protocol: 1, ..udp(0x0505_0505, tuple.src, 0, 0) }, &error)
}

fn udp(src: u32, dst: u32, src_port: u16, dst_port: u16) -> FiveTuple<u32> {
    FiveTuple { src, dst, src_port, dst_port, protocol: 17 }
}

/// An Ethernet frame with an IPv6 packet of UDP between the hosts of these numbers.
fn udp6(src: u8, dst: u8, src_port: u16, dst_port: u16) -> Packet {
    let mut bytes = vec![0; 12];
    bytes.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
    for host in [src, dst] {
        bytes.extend_from_slice(&[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    bytes.extend_from_slice(&src_port.to_be_bytes());
    bytes.extend_from_slice(&dst_port.to_be_bytes());
    bytes.extend_from_slice(&[0, 8, 0, 0]);
    Packet::new(&bytes).unwrap()
}

fn tcp(src: u32, src_port: u16) -> FiveTuple<u32> {
    FiveTuple { src, dst: 0x0a00_0001, src_port, dst_port: 80, protocol: 6 }
}

/// Classifies packets at a time; the FCB word of each, `None` of those that were refused.
fn classify(manager: &mut Manager, packets: Vec<Packet>, now: i64) -> Vec<Option<Fcb>> {
    let count = packets.len();
    let mut batch = Batch::with_room();
    for (at, mut packet) in packets.into_iter().enumerate() {
        packet.set_timestamp(at as i64 + 1);
        batch.push(packet);
    }
    let why = if manager.is_draining() { Refusal::Draining } else { Refusal::NoRoom };
    manager.classify((ENTRY, Input::Ethernet), &mut batch, now, |_, refusal| {
        assert_eq!(refusal, why);
    });
    release(manager);
    let mut words = vec![None; count];
    for packet in batch.iter() {
        words[packet.timestamp() as usize - 1] = Some(Fcb(packet.fcb()));
    }
    words
}

/// The nodes that are reported, and the states of theirs.
type States = Vec<(u32, Vec<u8>)>;

/// Frees what has ended, and says why and with which states.
fn release(manager: &mut Manager) -> Vec<(Ended, States)> {
    let mut reports = Vec::new();
    while let Some(ended) = manager.next_ended() {
        let mut states = Vec::new();
        let mut state = Vec::new();
        while let Some(node) = manager.end_report(&ended, states.len(), &mut state) {
            states.push((node, state.clone()));
        }
        manager.release(&ended);
        reports.push((ended.why, states));
    }
    reports
}

fn one(manager: &mut Manager, packet: Packet, now: i64) -> Fcb {
    classify(manager, vec![packet], now)[0].expect("not refused")
}

fn at(manager: &Manager, node: u32, fcb: Fcb) -> At {
    manager.locate(&manager.access(node).clone(), fcb).expect("a session")
}

#[test]
fn both_directions_are_one_session() {
    let mut manager = manager(&[demand("connection", 8)], &Settings::default());
    let forward = one(&mut manager, frame(&tcp(7, 1000), 0x02), 0);
    let reply = one(&mut manager, frame(&tcp(7, 1000).reversed(), 0x12), 0);
    let other = one(&mut manager, frame(&tcp(7, 1001), 0x02), 0);
    assert_eq!((forward.direction(), reply.direction()), (Direction::Forward, Direction::Reply));
    assert_eq!(forward.session(), reply.session());
    assert_ne!(forward.session(), other.session());
    let acked = one(&mut manager, frame(&tcp(7, 1000), 0x10), 0);
    assert_eq!(manager.life(&at(&manager, 1, acked)).phase(), Phase::Open);
    manager.scratch_mut(&at(&manager, 1, forward)).fill(5);
    assert_eq!(manager.scratch_mut(&at(&manager, 1, reply)), [5; 8]);
    assert_eq!(manager.counts(0).0, 2);
}

#[test]
fn what_has_no_ports_has_no_connection_but_a_pair() {
    let mut both = manager(&[demand("connection", 8), demand("pair", 4)], &Settings::default());
    let mut pair = manager(&[demand("pair", 4)], &Settings::default());
    let mut fragment = frame(&udp(1, 2, 3, 4), 0);
    fragment.data_mut()[14 + 6] = 0x20;
    let gre = FiveTuple { protocol: 47, ..udp(1, 2, 0, 0) };
    for packet in [fragment.duplicate().unwrap(), ip(&gre, &[0; 8])] {
        let fcb = one(&mut both, packet.duplicate().unwrap(), 0);
        assert!(fcb.session().is_none() && fcb.leaf().is_some(), "{fcb:?}");
        assert!(one(&mut pair, packet, 0).session().is_some());
    }
    assert!(one(&mut pair, Packet::new(&[0; 60]).unwrap(), 0).session().is_none());
}

#[test]
fn coarser_sessions_are_shared_by_finer_ones() {
    let demands = [demand("connection", 8), demand("pair", 4)];
    let mut manager = manager(&demands, &Settings::default());
    let unidirectional = one(&mut manager, frame(&udp(9, 2, 3, 4), 0), 0);
    let other = one(&mut manager, frame(&udp(2, 9, 70, 8), 0), 0);
    assert_ne!(unidirectional.session(), other.session());
    let (first, second) = (at(&manager, 2, unidirectional), at(&manager, 2, other));
    assert_eq!((first.level, first.index), (second.level, second.index));
    // The second connection was opened in the opposite direction.
    assert_eq!((first.direction, second.direction), (Direction::Forward, Direction::Reply));
    manager.scratch_mut(&first).fill(1);
    assert_eq!(manager.scratch_mut(&second), [1; 4]);
    // The pair goes when its last connection is gone, and not before its own time.
    let (pair_level, fine) = (first.level, unidirectional.session().unwrap().0);
    for second in 1..2000 {
        manager.sweep(second * SECOND);
        release(&mut manager);
        if second == 200 {
            assert_eq!((manager.counts(fine).0, manager.counts(pair_level).0), (0, 1));
        }
    }
    assert_eq!(manager.counts(pair_level).0, 0);
}

#[test]
fn a_flood_leaves_open_sessions_alone() {
    let mut manager = manager(&[demand("connection", 8)], &bounded(1000, 100));
    let open: Vec<FiveTuple<u32>> = (0..500).map(|n| tcp(n, 5)).collect();
    let mut words = Vec::new();
    for tuple in &open {
        one(&mut manager, frame(tuple, 0x02), 0);
        one(&mut manager, frame(&tuple.reversed(), 0x12), 0);
        words.push(one(&mut manager, frame(tuple, 0x10), 0));
    }
    for round in 0..40 {
        let syns = (0..250).map(|n| frame(&tcp(0x0100_0000 + round * 250 + n, 6), 0x02)).collect();
        assert!(classify(&mut manager, syns, SECOND).iter().all(Option::is_some));
        assert!(manager.counts(0).0 <= 1000 && manager.counts(0).1 <= 100);
    }
    for (tuple, word) in open.iter().zip(words) {
        assert_eq!(one(&mut manager, frame(tuple, 0x10), SECOND), word);
    }
    let (now, embryonic, counts) = manager.counts(0);
    assert_eq!((now, embryonic, counts.evicted), (600, 100, 40 * 250 - 100));
}

#[test]
fn a_full_table_of_open_sessions_refuses_new_ones() {
    let mut manager = manager(&[demand("connection", 8)], &bounded(50, 50));
    for n in 0..50 {
        one(&mut manager, frame(&udp(n, 1000, 1, 2), 0), 0);
        one(&mut manager, frame(&udp(n, 1000, 1, 2).reversed(), 0), 0);
    }
    let refused = classify(&mut manager, vec![frame(&udp(77, 1000, 1, 2), 0)], 0);
    assert_eq!((refused, manager.counts(0).2.refused), (vec![None], 1));
    // Once their time is up there is room again.
    let later = 301 * SECOND;
    let mut waited = 0;
    while manager.counts(0).0 > 0 && waited < 100 {
        manager.sweep(later + waited * SECOND);
        release(&mut manager);
        waited += 1;
    }
    assert!(classify(&mut manager, vec![frame(&udp(77, 1000, 1, 2), 0)], later)[0].is_some());
}

#[test]
fn replies_of_a_translated_session_find_it() {
    let translating = Demand { translates: true, ..demand("connection", 8) };
    let mut manager = manager(&[translating], &Settings::default());
    for flip in [false, true] {
        let host = if flip { 0xc000_0000 } else { 5 };
        let tuple = udp(host, 0x0808_0808, 4000, 53);
        let fcb = one(&mut manager, frame(&tuple, 0), 0);
        let state_at = at(&manager, 1, fcb);
        let outside = udp(0x0101_0101, 0x0808_0808, 61_000 + u16::from(flip), 53).reversed();
        manager.answer(&state_at, &outside).unwrap();
        let reply = one(&mut manager, frame(&outside, 0), 0);
        assert_eq!((reply.session(), reply.direction()), (fcb.session(), Direction::Reply));
        assert!(one(&mut manager, frame(&tuple, 0), 0).direction() == Direction::Forward);
        // A host that answers to the translated address is not the session's peer.
        let stranger = one(&mut manager, frame(&tuple.reversed(), 0), 0);
        assert_eq!((stranger.session(), stranger.leaf().is_some()), (None, true));
        let other = one(&mut manager, frame(&udp(host, 0x0808_0808, 4001, 53), 0), 0);
        let state_at = at(&manager, 1, other);
        assert!(manager.answer(&state_at, &outside).is_err(), "the reply's key is taken");
        // An error about the translated packet, from a router outside.
        let related = one(&mut manager, unreachable(&outside.reversed()), 0);
        assert_eq!((related.session(), related.is_related()), (fcb.session(), true));
        assert_eq!(related.direction(), Direction::Reply);
    }
}

#[test]
fn a_closed_connection_is_replaced_by_a_new_one() {
    let mut manager = manager(&[demand("connection", 8)], &Settings::default());
    let tuple = tcp(7, 1000);
    let first = one(&mut manager, frame(&tuple, 0x02), 0);
    let state_at = at(&manager, 1, first);
    manager.set_opened(&state_at);
    manager.scratch_mut(&state_at).fill(9);
    one(&mut manager, frame(&tuple.reversed(), 0x14), 0);
    let mut batch = Batch::with_room();
    batch.push(frame(&tuple, 0x02));
    manager.classify((ENTRY, Input::Ethernet), &mut batch, 0, |_, _| unreachable!());
    assert_eq!(release(&mut manager), [(Ended::Closed, vec![(1, vec![9; 8])])]);
    let second = Fcb(batch.iter().next().unwrap().fcb());
    assert!(!manager.is_opened(&at(&manager, 1, second)));
    assert_eq!(manager.scratch_mut(&at(&manager, 1, second)), [0; 8]);
}

/// The managers of two threads.
fn two(demands: &[Demand], settings: &Settings) -> [Manager; 2] {
    let plan = Arc::new(consolidate(&chain(demands)).unwrap());
    let shared_flows_of = shared_flows_of(&plan, settings, 2).unwrap();
    std::array::from_fn(|_| {
        Manager::with_shared_flows(plan.clone(), settings, &shared_flows_of).unwrap()
    })
}

#[test]
fn two_threads_serve_the_two_directions() {
    let speaking = Demand { translates: true, shared_words: 2, ..demand("connection", 8) };
    let silent = Demand { shared_words: 1, ..demand("connection", 8) };
    for translated in [false, true] {
        let [mut inside, mut outside] =
            two(&[silent.clone(), speaking.clone()], &bounded(100, 100));
        let tuple = tcp(7, 1000);
        let opened = one(&mut inside, frame(&tuple, 0x02), 0);
        let state_at = at(&inside, 2, opened);
        assert_eq!(inside.published(&state_at), None);
        inside.publish(&state_at, &[11, 12]);
        let mut reply = tuple.reversed();
        if translated {
            // One that is taken, and would have source and destination exchanged in its key.
            let taken = udp(0xff00_0000, 1, 2, 3);
            one(&mut outside, frame(&taken, 0), 0);
            assert!(inside.answer(&state_at, &taken).is_err());
            (reply.dst, reply.dst_port) = (0xc102_0304, 61_234);
            inside.answer(&state_at, &reply).unwrap();
        }
        let other = one(&mut outside, frame(&reply, 0x12), 0);
        assert_eq!((opened.direction(), other.direction()), (Direction::Forward, Direction::Reply));
        assert_eq!(outside.published(&at(&outside, 2, other)), Some([11, 12, 0, 0]));
        assert_eq!(outside.published(&at(&outside, 1, other)), None);
        // Each half knows what the other has seen.
        let opened = one(&mut inside, frame(&tuple, 0x10), 0);
        assert_eq!(inside.life(&at(&inside, 2, opened)).phase(), Phase::Open);
        assert_eq!(outside.life(&at(&outside, 2, other)).phase(), Phase::Open);
        // One direction alone keeps both halves.
        for minute in 1..240 {
            let now = minute * 60 * SECOND;
            one(&mut outside, frame(&reply, 0x10), now);
            inside.sweep(now);
            release(&mut inside);
        }
        let others = u32::from(translated);
        assert_eq!((inside.counts(0).0, outside.counts(0).0 - others), (1, 1));
        let after = 240 * 60 * SECOND + 7441 * SECOND;
        for manager in [&mut inside, &mut outside] {
            for second in 0..5 {
                manager.sweep(after + second * SECOND);
                release(manager);
            }
            assert_eq!(manager.counts(0).0, 0);
        }
        // The record is free, and the connection begins anew in the thread that it comes to first.
        let anew = one(&mut outside, frame(&tuple, 0x02), after + 9 * SECOND);
        assert_eq!(anew.direction(), Direction::Forward);
    }
}

#[test]
fn an_error_finds_the_session_of_the_other_thread() {
    let translating = Demand { translates: true, shared_words: 1, ..demand("connection", 8) };
    let [mut inside, mut outside] = two(&[translating], &bounded(100, 100));
    for tuple in [udp(7, 8, 2000, 53), tcp(7, 1000)] {
        // No thread has such a session yet.
        let early = one(&mut outside, unreachable(&tuple), 0);
        assert_eq!((early.session(), outside.counts(0).0), (None, 0));
        let opened = one(&mut inside, frame(&tuple, 0x02), 0);
        inside.publish(&at(&inside, 1, opened), &[11]);
        let state_at = at(&inside, 1, opened);
        let mut answer = tuple.reversed();
        (answer.dst, answer.dst_port) = (0xc102_0304, 61_234);
        inside.answer(&state_at, &answer).unwrap();
        // It quotes the packet as it left, and is the first that this thread sees.
        let error = one(&mut outside, unreachable(&answer.reversed()), 0);
        assert!(error.session().is_some() && error.is_related());
        assert_eq!(error.direction(), Direction::Reply);
        let other = at(&outside, 1, error);
        assert_eq!(outside.published(&other), Some([11, 0, 0, 0]));
        // It is no reply; one that comes later is of the same session.
        assert_eq!(inside.life(&state_at).phase(), Phase::New);
        let reply = one(&mut outside, frame(&answer, 0x12), 0);
        assert_eq!((reply.session(), reply.is_related()), (error.session(), false));
        assert_eq!(reply.direction(), Direction::Reply);
        one(&mut inside, frame(&tuple, 0x10), 0);
        assert_eq!(inside.life(&state_at).phase(), Phase::Open);
        for manager in [&mut inside, &mut outside] {
            manager.end_some(Ended::Removed);
            release(manager);
        }
    }
}

/// A client uses its port again while the thread of the replies still holds the old connection.
#[test]
fn a_new_connection_in_an_old_ones_place_is_met_by_both_threads() {
    let translating = Demand { translates: true, shared_words: 1, ..demand("connection", 8) };
    for translated in [false, true] {
        let [mut inside, mut outside] = two(std::slice::from_ref(&translating), &bounded(100, 100));
        let tuple = tcp(7, 1000);
        for (round, port) in (1..6).zip(61_000..) {
            let opened = one(&mut inside, frame(&tuple, 0x02), SECOND);
            let state_at = at(&inside, 1, opened);
            assert!(!inside.is_opened(&state_at), "round {round} is a session of its own");
            inside.set_opened(&state_at);
            inside.publish(&state_at, &[round]);
            let mut reply = tuple.reversed();
            if translated {
                (reply.dst, reply.dst_port) = (0x0102_0304, port);
                inside.answer(&state_at, &reply).unwrap();
            }
            let other = one(&mut outside, frame(&reply, 0x12), SECOND);
            let there = at(&outside, 1, other);
            assert_eq!(outside.published(&there), Some([round, 0, 0, 0]));
            assert!(!outside.is_opened(&there));
            outside.set_opened(&there);
            one(&mut inside, frame(&tuple, 0x11), SECOND);
            one(&mut outside, frame(&reply, 0x11), SECOND);
            let last = one(&mut inside, frame(&tuple, 0x10), SECOND);
            assert_eq!(inside.life(&at(&inside, 1, last)).phase(), Phase::Closed);
        }
    }
}

/// A few hosts and ports, so that tuples meet.
fn tuples() -> impl Strategy<Value = FiveTuple<u32>> {
    (0u32..5, 0u32..5, 0u16..4, 0u16..4, prop_oneof![Just(6u8), Just(17)]).prop_map(
        |(src, dst, src_port, dst_port, protocol)| FiveTuple {
            src,
            dst,
            src_port,
            dst_port,
            protocol,
        },
    )
}

proptest! {
    /// Packets of one batch and of several, with time going by: two packets have one session if
    /// and only if a map of five-tuples with the same timeouts says so.
    #[test]
    fn sessions_are_those_of_a_map(
        batches in prop::collection::vec(
            (prop::collection::vec(tuples(), 1..40), 0i64..40), 1..20),
        narrow in any::<bool>(),
    ) {
        let timeouts = Timeouts { seconds: [[20; 4]; 4] };
        let settings = Settings { timeouts, ..Settings::default() };
        // With a raw word that is the same for all, keys are wide.
        let session =
            if narrow { "connection" } else { "src, dst, src port, dst port, proto, frame[0]/ff" };
        let bidirectional = narrow;
        let mut manager = manager(&[demand(session, 8)], &settings);
        let mut map: HashMap<FiveTuple<u32>, (Fcb, i64)> = HashMap::new();
        let mut now = 0;
        for (tuples, seconds) in batches {
            now += seconds * SECOND;
            manager.sweep(now);
            release(&mut manager);
            let packets = tuples.iter().map(|tuple| frame(tuple, 0x10)).collect();
            let words = classify(&mut manager, packets, now);
            for (tuple, word) in tuples.iter().zip(words) {
                let word = word.unwrap();
                let key = if bidirectional { *tuple.min(&tuple.reversed()) } else { *tuple };
                let known = map.get(&key).filter(|(_, seen)| now - seen < 20 * SECOND);
                match known {
                    Some((first, _)) => {
                        prop_assert_eq!(word.session(), first.session());
                        map.insert(key, (*first, now));
                    }
                    None => {
                        let other = map.values().find(|(other, seen)| {
                            other.session() == word.session() && now - seen < 20 * SECOND
                        });
                        prop_assert!(other.is_none(), "{tuple:?} has the session of another");
                        map.insert(key, (word, now));
                    }
                }
            }
            let live = map.values().filter(|(_, seen)| now - seen < 20 * SECOND).count();
            prop_assert!(manager.counts(0).0 as usize >= live);
        }
    }
}
