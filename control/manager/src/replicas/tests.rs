//! Layouts against a double of a data plane: whatever is asked for, and wherever the manager is
//! killed, sessions have a replica, and the version that is asked for has them all in the end.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::judge::Counts;
use super::*;
use crate::FunctionUse;

fn used(text: &str) -> FunctionUse {
    FunctionUse::parse(text).expect("a use")
}

fn replicas(json: &str) -> ReplicasSpec {
    serde_json::from_str(json).expect("of that form")
}

/// A data plane that runs slots, with sessions.
#[derive(Clone, Default)]
struct Plane {
    slots: Vec<Slot>,
    sessions: Vec<u64>,
    packets: Vec<u64>,
    lost: Vec<u64>,
}

impl Plane {
    /// A hot swap: what is not vacant and was there keeps its sessions.
    fn swap(&mut self, slots: &[Slot]) {
        for (at, slot) in slots.iter().enumerate() {
            let same = self.slots.get(at).is_some_and(|old| old.used == slot.used);
            let is_gone = slot.state == SlotState::Vacant || !same;
            let held = self.sessions.get(at).copied().unwrap_or(0);
            assert!(!is_gone || held == 0, "sessions lose their replica: {slots:?}");
        }
        let held: u64 = self.sessions.iter().skip(slots.len()).sum();
        assert_eq!(held, 0, "sessions lose their replica: {slots:?}");
        let is_up = |slot: &Slot| slot.state == SlotState::Up;
        assert!(slots.iter().any(is_up), "new sessions have no replica: {slots:?}");
        self.slots = slots.to_vec();
        self.sessions.resize(slots.len(), 0);
        self.packets.resize(slots.len(), 0);
        self.lost.resize(slots.len(), 0);
    }

    /// Some time: sessions leave what drains, and packets flow. `is_bad` versions lose all.
    fn flow(&mut self, is_bad: impl Fn(&Slot) -> bool) {
        let up = self.slots.iter().position(|slot| slot.state == SlotState::Up).expect("one");
        for at in 0..self.slots.len() {
            if self.slots[at].state == SlotState::Up {
                self.sessions[at] += 1;
                self.packets[at] += 60;
                self.lost[at] += if is_bad(&self.slots[at]) { 60 } else { 0 };
            } else {
                let moved = std::mem::take(&mut self.sessions[at]);
                self.sessions[up] += moved;
            }
        }
    }

    fn seen(&self, starts: impl Fn(&Slot) -> bool) -> Vec<Seen> {
        let one = |(at, slot): (usize, &Slot)| Seen {
            is_running: starts(slot),
            sessions: self.sessions[at],
            counts: Counts {
                packets: self.packets[at],
                lost: self.lost[at],
                failures: if starts(slot) { 0 } else { 3 },
                batches: Vec::new(),
            },
            ..Seen::default()
        };
        self.slots.iter().enumerate().map(one).collect()
    }
}

/// A manager, and what it manages.
struct Lab {
    layout: Layout,
    window: Window,
    plane: Plane,
    now: SystemTime,
    spec: ReplicasSpec,
    asked: FunctionUse,
    /// Versions that lose packets, and versions whose processes do not begin.
    bad: Vec<FunctionUse>,
    broken: Vec<FunctionUse>,
    notes: Vec<&'static str>,
}

impl Lab {
    fn new(json: &str) -> Lab {
        let (spec, asked) = (replicas(json), used("words@1"));
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let layout = Layout::new(&asked, spec.count_at_first(), now);
        let mut plane = Plane::default();
        plane.swap(&layout.slots);
        let (bad, broken, notes) = (Vec::new(), Vec::new(), Vec::new());
        let window = Window::default();
        Lab { layout, window, plane, now, spec, asked, bad, broken, notes }
    }

    /// A second passes.
    fn step(&mut self) {
        self.now += Duration::from_secs(1);
        self.plane.flow(|slot| self.bad.contains(&slot.used));
        let seen = self.plane.seen(|slot| !self.broken.contains(&slot.used));
        self.layout.wanted = self.spec.within_bounds(self.layout.wanted);
        let view = View {
            asked: &self.asked,
            spec: &self.spec,
            seen: &seen,
            is_moving: false,
            may_add: true,
            now: self.now,
        };
        let notes = self.layout.advance(&view, &mut self.window);
        self.notes.extend(notes.iter().map(|note| note.reason));
        self.plane.swap(&self.layout.slots);
    }

    fn steps(&mut self, count: usize) {
        (0..count).for_each(|_| self.step());
    }

    /// The manager is killed: the next one has what was kept.
    fn kill(&mut self) {
        let kept = serde_json::to_string(&self.layout).expect("text");
        self.layout = serde_json::from_str(&kept).expect("the same");
        self.window = Window::default();
    }

    fn up(&self, version: &str) -> usize {
        self.layout.up(&used(version)).count()
    }

    /// Part of new sessions that goes to a version, in percent.
    fn percent(&self, version: &str) -> u32 {
        let up = || self.layout.slots.iter().filter(|slot| slot.state == SlotState::Up);
        let of = up().filter(|slot| slot.used == used(version)).map(|slot| slot.weight);
        100 * of.sum::<u32>() / up().map(|slot| slot.weight).sum::<u32>()
    }
}

const CANARY: &str = r#"{"count": 2, "canary": {"steps": [10, 50], "window": "5s"}}"#;

#[test]
fn a_good_version_goes_step_by_step_to_all() {
    let mut lab = Lab::new(CANARY);
    lab.asked = used("words@2");
    lab.steps(4);
    assert_eq!((lab.percent("words@2"), lab.up("words@1"), lab.up("words@2")), (10, 2, 1));
    lab.kill();
    lab.steps(5);
    assert_eq!(lab.percent("words@2"), 50);
    lab.steps(12);
    assert_eq!((lab.up("words@1"), lab.up("words@2")), (0, 2));
    assert_eq!((lab.layout.rollout.as_ref(), lab.layout.is_weighted()), (None, false));
    let steps = ["RolloutBegan", "ReplicaUp", "CanaryStep", "CanaryStep", "CanaryPassed"];
    assert_eq!((&lab.notes[..5], lab.notes.last()), (&steps[..], Some(&"RolledOut")));
    // The way back is one, too.
    lab.asked = used("words@1");
    lab.steps(25);
    assert_eq!((lab.up("words@1"), lab.up("words@2")), (2, 0));
}

#[test]
fn a_version_that_loses_packets_goes_back_at_once_and_is_not_tried_again() {
    let mut lab = Lab::new(CANARY);
    lab.bad.push(used("words@2"));
    lab.asked = used("words@2");
    lab.steps(5);
    assert!(lab.notes.contains(&"CanaryStep"));
    lab.steps(5);
    assert_eq!((lab.up("words@1"), lab.up("words@2"), lab.percent("words@1")), (2, 0, 100));
    let refused = lab.layout.refused.clone().expect("the version");
    assert!(refused.used == lab.asked && refused.why.contains("100.00 %"), "{refused:?}");
    let notes = lab.notes.len();
    lab.kill();
    lab.steps(20);
    assert_eq!(lab.notes.len(), notes, "{:?}", lab.notes);
    // Another one is tried, and that one again when it was not asked for meanwhile.
    lab.asked = used("words@3");
    lab.steps(25);
    assert_eq!(lab.up("words@3"), 2);
    lab.bad.clear();
    lab.asked = used("words@2");
    lab.steps(25);
    assert_eq!(lab.up("words@2"), 2);
}

#[test]
fn a_version_that_does_not_begin_gets_no_session() {
    for json in [CANARY, r#"{"count": 2}"#] {
        let mut lab = Lab::new(json);
        lab.broken.push(used("words@2"));
        lab.asked = used("words@2");
        lab.steps(8);
        assert_eq!((lab.up("words@1"), lab.up("words@2"), lab.percent("words@1")), (2, 0, 100));
        assert!(lab.notes.contains(&"ReplicaNotStarted") && lab.layout.refused.is_some());
    }
}

#[test]
fn the_number_of_replicas_follows_what_is_asked_for() {
    let mut lab = Lab::new(r#"{"count": 1}"#);
    for count in [4, 2, 1, 3] {
        lab.spec.count = Some(count);
        lab.steps(4);
        assert_eq!((lab.up("words@1"), lab.layout.slots.len()), (count.into(), count.into()));
    }
}

#[derive(Debug, Clone)]
enum Happens {
    Steps(usize),
    Asked(u8),
    Count(u16),
    Bad(u8),
    Kill,
    Canary(bool),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (1..8usize).prop_map(Happens::Steps),
        2 => (1..5u8).prop_map(Happens::Asked),
        1 => (1..5u16).prop_map(Happens::Count),
        1 => (1..5u8).prop_map(Happens::Bad),
        1 => Just(Happens::Kill),
        1 => any::<bool>().prop_map(Happens::Canary),
    ]
}

proptest! {
    /// [`Plane::swap`] sees that no session loses its replica.
    #[test]
    fn sessions_always_have_a_replica(all in prop::collection::vec(happens(), 0..40)) {
        let mut lab = Lab::new(CANARY);
        for one in all {
            match one {
                Happens::Steps(count) => lab.steps(count),
                Happens::Asked(version) => lab.asked = used(&format!("words@{version}")),
                Happens::Count(count) => lab.spec.count = Some(count),
                Happens::Bad(version) => lab.bad = vec![used(&format!("words@{version}"))],
                Happens::Kill => lab.kill(),
                Happens::Canary(is_one) => {
                    lab.spec.canary = is_one.then(|| replicas(CANARY).canary).flatten();
                }
            }
        }
        lab.bad.clear();
        lab.asked = used("words@9");
        lab.steps(80);
        let count = usize::from(lab.spec.count.expect("a number"));
        prop_assert_eq!(lab.up("words@9"), count, "{:?}", lab.layout);
        prop_assert_eq!(lab.layout.slots.iter().filter(|slot| slot.is_live()).count(), count);
    }
}
