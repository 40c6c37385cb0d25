//! Balance against a plain map from sessions to replicas.

use std::collections::HashMap;

use proptest::prelude::*;
use thruway_element::Verdict;

use super::*;
use crate::alone::{Table, Tuple};
use crate::plain::Plain;

const REPLICAS: u32 = 3;

fn tuple(port: u16) -> Tuple {
    Tuple { src: 1, dst: 2, src_port: port, dst_port: 80, protocol: 6 }
}

fn table(method: Method, weights: &[u32]) -> Table<Spread> {
    let mut pool = Pool::new(method);
    for (at, weight) in weights.iter().enumerate() {
        pool.add(Replica(at as u32), *weight).unwrap();
    }
    Table::new(Spread::new(pool, weights.len(), 0))
}

/// The replica that a verdict means, of a batch that came by `input`.
fn replica(verdict: Verdict, input: u32, replicas: u32) -> Option<u32> {
    let port = match verdict {
        Verdict::Pass => 0,
        Verdict::To(port) => port as u32,
        Verdict::Drop(_) | Verdict::Reject(..) => return None,
    };
    assert_eq!(port / replicas, input);
    Some(port % replicas)
}

#[derive(Clone, Debug)]
enum Event {
    /// A packet of this session, in either direction, by the input of that number.
    Packet(u16, bool),
    Ends(u16),
    Drain(u32),
    Resume(u32),
    Weight(u32, u32),
    Move(u32),
    /// So many packets wait for it, and whether it works.
    Load(u32, u64, bool),
}

fn event() -> impl Strategy<Value = Event> {
    let (session, of) = (0..12u16, 0..REPLICAS);
    prop_oneof![
        12 => (session.clone(), any::<bool>()).prop_map(|(n, back)| Event::Packet(n, back)),
        3 => session.prop_map(Event::Ends),
        1 => of.clone().prop_map(Event::Drain),
        2 => of.clone().prop_map(Event::Resume),
        1 => (of.clone(), 1..4u32).prop_map(|(of, weight)| Event::Weight(of, weight)),
        1 => of.clone().prop_map(Event::Move),
        2 => (of, 0..9u64, prop::bool::weighted(0.8))
            .prop_map(|(of, queue, works)| Event::Load(of, queue, works)),
    ]
}

/// The oracle's state of a replica.
#[derive(Clone, Copy)]
struct Known {
    is_up: bool,
    works: bool,
    weight: u32,
    queue: u64,
}

/// The oracle's state.
struct Oracle {
    sessions: HashMap<u16, u32>,
    replicas: [Known; REPLICAS as usize],
}

impl Oracle {
    fn held(&self, of: u32) -> u64 {
        self.sessions.values().filter(|other| **other == of).count() as u64
    }

    /// The replicas that a new session may get, by this method.
    fn choices(&self, method: Method) -> Vec<u32> {
        let all = 0..REPLICAS;
        let known = |of: &u32| self.replicas[*of as usize];
        let mut takers: Vec<u32> =
            all.clone().filter(|of| known(of).is_up && known(of).works).collect();
        if takers.is_empty() {
            takers = all.filter(|of| known(of).is_up).collect();
        }
        // For its weight: times 6, which 1, 2 and 3 divide.
        let queue = |of: &u32| known(of).queue * 6 / u64::from(known(of).weight);
        let held = |of: &u32| self.held(*of) * 6 / u64::from(known(of).weight);
        let key = |of: &u32| match method {
            Method::LeastQueue => (queue(of), held(of)),
            Method::LeastSessions => (held(of), 0),
            _ => (0, 0),
        };
        let least = takers.iter().map(key).min();
        takers.retain(|of| Some(key(of)) == least);
        takers
    }
}

fn packet(table: &mut Table<Spread>, oracle: &mut Oracle, method: Method, (n, back): (u16, bool)) {
    table.function.input = usize::from(back);
    let of = if back { tuple(n).reversed() } else { tuple(n) };
    let flags = if oracle.sessions.contains_key(&n) { 0x10 } else { 0x02 };
    let (verdict, _) = table.push(&Plain::of(of, flags).written());
    let to = replica(verdict, back.into(), REPLICAS);
    match oracle.sessions.get(&n) {
        Some(of) => assert_eq!(to, Some(*of), "it stays"),
        None => {
            let choices = oracle.choices(method);
            let Some(to) = to else {
                assert!(choices.is_empty());
                return;
            };
            assert!(choices.contains(&to), "{to} is none of {choices:?}");
            oracle.sessions.insert(n, to);
        }
    }
    let of = to.expect("one") as usize;
    oracle.replicas[of].queue += 1;
}

fn apply(table: &mut Table<Spread>, oracle: &mut Oracle, method: Method, event: &Event) {
    let pool = &mut table.function.pool;
    match *event {
        Event::Packet(n, back) => packet(table, oracle, method, (n, back)),
        Event::Ends(n) => {
            table.end_of(tuple(n));
            oracle.sessions.remove(&n);
        }
        Event::Drain(of) | Event::Resume(of) => {
            let is_up = matches!(event, Event::Resume(_));
            let standing = if is_up { Standing::Up } else { Standing::Drained };
            pool.named(Replica(of)).unwrap().standing = standing;
            oracle.replicas[of as usize].is_up = is_up;
        }
        Event::Weight(of, weight) => {
            pool.set_weight(Replica(of), weight).unwrap();
            oracle.replicas[of as usize].weight = weight;
        }
        Event::Move(of) => {
            pool.let_go(Replica(of)).unwrap();
            oracle.sessions.retain(|_, at| *at != of);
        }
        Event::Load(of, queue, works) => {
            let member = pool.named(Replica(of)).unwrap();
            (member.queue, member.is_passed_over) = (queue, !works);
            let known = &mut oracle.replicas[of as usize];
            (known.queue, known.works) = (queue, works);
        }
    }
    for replica in table.function.pool.iter() {
        assert_eq!(replica.held, oracle.held(replica.id.0), "sessions of {}", replica.id);
        assert_eq!(replica.queue, oracle.replicas[replica.id.0 as usize].queue);
    }
}

proptest! {
    #[test]
    fn sessions_stay_and_new_ones_go_where_the_method_says(
        method in prop_oneof![
            Just(Method::LeastQueue), Just(Method::LeastSessions), Just(Method::Weighted),
            Just(Method::ConsistentHash),
        ],
        events in prop::collection::vec(event(), 1..120),
    ) {
        let mut table = table(method, &[1; REPLICAS as usize]);
        let known = Known { is_up: true, works: true, weight: 1, queue: 0 };
        let replicas = [known; REPLICAS as usize];
        let mut oracle = Oracle { sessions: HashMap::new(), replicas };
        for event in &events {
            apply(&mut table, &mut oracle, method, event);
        }
    }
}

#[test]
fn a_burst_of_new_sessions_does_not_go_to_one_replica() {
    // No queue is inspected meanwhile: sent packets count.
    let mut table = table(Method::LeastQueue, &[1, 1, 2]);
    let mut got = [0; 3];
    for n in 0..400 {
        let (verdict, _) = table.push(&Plain::first(tuple(n)).written());
        got[replica(verdict, 0, 3).unwrap() as usize] += 1;
    }
    assert_eq!(got, [100, 100, 200]);
}

#[test]
fn fewer_replicas_take_over_the_sessions_of_those_that_are_gone() {
    let mut table = table(Method::LeastSessions, &[1, 1, 1]);
    let before: Vec<_> = (0..9)
        .map(|n| replica(table.push(&Plain::first(tuple(n)).written()).0, 0, 3).unwrap())
        .collect();
    let mut pool = Pool::new(Method::LeastSessions);
    (0..2).for_each(|at| pool.add(Replica(at), 1).unwrap());
    let members = table.function.pool.hand_over();
    table.function = Spread::new(pool, 2, 0);
    table.function.take_over(members);
    for (n, before) in (0..9).zip(before) {
        let (verdict, _) = table.push(&Plain::of(tuple(n), 0x10).written());
        let now = replica(verdict, 0, 2).unwrap();
        assert!(if before < 2 { now == before } else { now < 2 }, "{n}: {before} to {now}");
    }
    assert_eq!(table.function.moved, 3);
    table.end_all();
    assert!(table.function.pool.iter().all(|replica| replica.held == 0));
}

/// The successor could not begin.
#[test]
fn replicas_that_come_back_are_those_that_were_there() {
    let mut table = table(Method::LeastSessions, &[1, 1, 1]);
    for n in 0..9 {
        table.push(&Plain::first(tuple(n)).written());
    }
    table.function.pool.named(Replica(1)).unwrap().standing = Standing::Drained;
    let mut pool = Pool::new(Method::LeastSessions);
    (0..4).for_each(|at| pool.add(Replica(at), 2).unwrap());
    let mut next = Spread::new(pool, 4, 0);
    next.take_over(table.function.pool.hand_over());
    table.function.take_over(next.pool.hand_over());
    let line = |of: &Member<Replica>| (of.id.0, of.weight, of.held, of.standing);
    let replicas: Vec<_> = table.function.pool.iter().map(line).collect();
    let [up, drained] = [Standing::Up, Standing::Drained];
    assert_eq!(replicas, [(0, 1, 3, up), (1, 1, 3, drained), (2, 1, 3, up)]);
    let got = (20..24).map(|n| replica(table.push(&Plain::first(tuple(n)).written()).0, 0, 3));
    assert!(got.collect::<Vec<_>>().iter().all(|of| matches!(of, Some(0 | 2))));
    table.end_all();
    assert!(table.function.pool.iter().all(|replica| replica.held == 0));
}
