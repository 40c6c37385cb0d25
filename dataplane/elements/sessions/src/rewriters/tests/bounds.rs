//! Eviction order, against a list that is searched.

use proptest::prelude::*;
use thruway_wire::checksum::Delta;
use thruway_wire::flow::FiveTuple;
use thruway_wire::ip_protocol::{TCP, UDP};

use crate::rewriters::context::Outputs;
use crate::rewriters::state::{others_by_state, others_yield, tcp_by_state, tcp_yields};
use crate::rewriters::store::{Limits, New, Owner, Store, key_of};

const TCP_LIMITS: (u32, [u32; 3]) = (5, [30, 200, 12]);
const UDP_LIMITS: (u32, [u32; 2]) = (0, [20, 60]);

fn store(capacity: u32) -> Store {
    let [nodata, data, done] = TCP_LIMITS.1;
    let [few, streaming] = UDP_LIMITS.1;
    let limits = [
        promised(TCP_LIMITS.0, tcp_by_state(nodata, data, done), tcp_yields()),
        promised(UDP_LIMITS.0, others_by_state(few, streaming), others_yield()),
    ];
    Store::new(capacity, Owner { limits, counts: vec![0] }, [1, 2])
}

fn promised(guarantee: u32, by_state: [u32; 16], yields: u64) -> Limits {
    Limits { guarantee, is_promised: true, yields, by_state }
}

fn flow(number: u16) -> FiveTuple<u32> {
    let protocol = if number.is_multiple_of(2) { TCP } else { UDP };
    FiveTuple { src: 1, dst: 2, src_port: number, dst_port: 9, protocol }
}

/// A mapping, plainly.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Plain {
    number: u16,
    seen: u32,
    state: u8,
}

impl Plain {
    fn guarantee(&self) -> u32 {
        self.seen + if self.number.is_multiple_of(2) { TCP_LIMITS.0 } else { UDP_LIMITS.0 }
    }

    fn over(&self) -> u32 {
        let limits = if self.number.is_multiple_of(2) {
            tcp_by_state(TCP_LIMITS.1[0], TCP_LIMITS.1[1], TCP_LIMITS.1[2])
        } else {
            others_by_state(UDP_LIMITS.1[0], UDP_LIMITS.1[1])
        };
        self.seen + limits[usize::from(self.state)]
    }
}

fn begin(store: &mut Store, number: u16, now: u32) -> bool {
    let flow = flow(number);
    let rewritten = FiveTuple { src: 7, ..flow };
    let outputs = Outputs { forward: 0, reply: 0 };
    let (ip, transport) = (Delta::NONE, Delta::NONE);
    let new = New { owner: 0, input: 0, flow, rewritten, outputs, ip, transport, anno: 0 };
    store.begin(&new, None, now).is_ok()
}

proptest! {
    /// A new mapping evicts the unguaranteed one that expires first, or is refused if there is none
    /// or it would itself expire first; a sweep removes expired ones. Around the end of time too.
    #[test]
    fn the_first_that_may_go_goes(
        begins in prop_oneof![Just(0u32), Just(u32::MAX - 40)],
        steps in prop::collection::vec((0u8..8, 0u16..30, 0u8..16, 0u32..6), 1..150),
    ) {
        const CAPACITY: usize = 6;
        let mut store = store(CAPACITY as u32);
        let mut plain: Vec<Plain> = Vec::new();
        let mut now = 100_u32;
        let real = |now: u32| begins.wrapping_add(now);
        for (what, number, state, wait) in steps {
            now += wait;
            let known = plain.iter().position(|one| one.number == number);
            match (what, known) {
                (0, _) => {
                    while store.reap(real(now)) {}
                    plain.retain(|one| one.over() > now || one.guarantee() > now);
                }
                (_, Some(at)) => {
                    plain[at].seen = now;
                    plain[at].state = state;
                    let direction = store.find(&key_of(&flow(number), 0)).unwrap();
                    store.meet(direction, real(now), (None, false), |_, _, _| state).unwrap();
                }
                (_, None) => {
                    let new = Plain { number, seen: now, state: 0 };
                    let may_go = plain.iter().filter(|one| one.guarantee() <= now);
                    let first = may_go.map(Plain::over).min();
                    let fits = plain.len() < CAPACITY
                        || first.is_some_and(|first| new.guarantee() > now || first <= new.over());
                    prop_assert_eq!(begin(&mut store, number, real(now)), fits);
                    if fits && plain.len() == CAPACITY {
                        // Of several that are over at the same time any may have gone.
                        let gone = |one: &Plain| store.find(&key_of(&flow(one.number), 0)).is_none();
                        let went: Vec<Plain> = plain.iter().copied().filter(gone).collect();
                        prop_assert_eq!(went.len(), 1);
                        prop_assert!(went[0].guarantee() <= now && Some(went[0].over()) == first);
                        plain.retain(|one| *one != went[0]);
                    }
                    plain.extend(fits.then_some(new));
                }
            }
            prop_assert_eq!(store.len(), plain.len());
            for one in &plain {
                prop_assert!(store.find(&key_of(&flow(one.number), 0)).is_some());
            }
        }
    }

    /// A smaller capacity leaves those that are over last.
    #[test]
    fn a_smaller_capacity_is_kept(capacity in 0u32..9, numbers in prop::collection::vec(0u16..9, 0..20)) {
        let mut store = store(9);
        for (now, number) in numbers.into_iter().enumerate() {
            begin_or_meet(&mut store, number, now as u32);
        }
        let before = store.len();
        store.set_capacity(capacity, 20);
        prop_assert_eq!(store.len(), before.min(capacity as usize));
        store.clear(None);
        prop_assert_eq!((store.len(), store.owners[0].counts[0]), (0, 0));
    }
}

fn begin_or_meet(store: &mut Store, number: u16, now: u32) {
    match store.find(&key_of(&flow(number), 0)) {
        Some(direction) => {
            store.meet(direction, now, (None, false), |state, _, _| state);
        }
        None => {
            begin(store, number, now);
        }
    }
}
