//! Where the replicas of a function stand, and how they come to stand as they are wanted.
//!
//! Each replica has a slot: an output of the `Balance`. Slots keep their numbers, because sessions
//! know their replica by its number; one that is given up is vacant, and taken again by the next.

use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::FunctionUse;

/// The weight of replicas that new sessions are shared among evenly.
pub const EVEN: u32 = 1;
/// The sum of all weights while a version has a share: percents, in hundredths.
const WHOLE: u32 = 10_000;

/// What becomes of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlotState {
    /// Its process has not begun to work yet, and gets no sessions.
    Starting,
    /// It gets sessions.
    Up,
    /// It gets no new sessions, and its sessions leave it.
    Draining,
    /// No process is there.
    Vacant,
}

impl fmt::Display for SlotState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SlotState::Starting => "starting",
            SlotState::Up => "up",
            SlotState::Draining => "draining",
            SlotState::Vacant => "vacant",
        })
    }
}

/// One replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// The version that it runs.
    pub used: FunctionUse,
    /// Where it stands.
    pub state: SlotState,
    /// Its part of new sessions.
    pub weight: u32,
    /// Since when its state is as it is.
    #[serde(with = "crate::timestamp")]
    pub since: SystemTime,
}

/// A version that was tried, and found worse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// The version.
    pub used: FunctionUse,
    /// Why it went back.
    pub why: String,
}

/// How far a roll-out has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// The first replica of the new version is started.
    Starting,
    /// The new version has a share of the new sessions: the step of this number, from 0 on.
    Step(usize),
    /// The new version takes all.
    Forward,
    /// The old version takes all.
    Back,
}

/// A new version on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollout {
    /// The version before.
    pub from: FunctionUse,
    /// The new version.
    pub to: FunctionUse,
    /// How far it has come.
    pub phase: Phase,
    /// Since when.
    #[serde(with = "crate::timestamp")]
    pub since: SystemTime,
    /// Why it goes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worse: Option<String>,
    /// What was counted of both versions when the step began; `None` before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<[super::judge::Counts; 2]>,
}

/// All replicas of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// By the number of the `Balance`'s output.
    pub slots: Vec<Slot>,
    /// How many are wanted.
    pub wanted: u16,
    /// A new version on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// The version that went back last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusal>,
    /// The slots before the last change, until that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Vec<Slot>>,
}

impl Slot {
    fn new(used: &FunctionUse, state: SlotState, now: SystemTime) -> Slot {
        Slot { used: used.clone(), state, weight: EVEN, since: now }
    }

    /// Goes over to another state.
    pub fn turn(&mut self, state: SlotState, now: SystemTime) {
        if self.state != state {
            (self.state, self.since) = (state, now);
        }
    }

    /// Whether it has sessions, or will.
    pub fn is_live(&self) -> bool {
        matches!(self.state, SlotState::Starting | SlotState::Up)
    }
}

impl Layout {
    /// So many replicas of a version, in a chain that begins.
    pub fn new(used: &FunctionUse, wanted: u16, now: SystemTime) -> Layout {
        let slots = (0..wanted).map(|_| Slot::new(used, SlotState::Up, now)).collect();
        Layout { slots, wanted, rollout: None, refused: None, undo: None }
    }

    /// The version that all replicas are to run: that of a roll-out, or what runs.
    pub fn version(&self) -> Option<&FunctionUse> {
        match &self.rollout {
            Some(Rollout { to, phase: Phase::Forward, .. }) => Some(to),
            Some(Rollout { from, .. }) => Some(from),
            None => {
                let up = self.slots.iter().find(|slot| slot.is_live());
                let there = self.slots.iter().find(|slot| slot.state == SlotState::Draining);
                up.or(there).map(|slot| &slot.used)
            }
        }
    }

    /// Whether new sessions are shared out by weights.
    pub fn is_weighted(&self) -> bool {
        self.slots.iter().any(|slot| slot.weight != EVEN)
    }

    /// The replicas of a version that are up.
    pub fn up<'a>(&'a self, used: &'a FunctionUse) -> impl Iterator<Item = usize> + 'a {
        let is_it = move |slot: &Slot| slot.used == *used && slot.state == SlotState::Up;
        (0..).zip(&self.slots).filter(move |(_, slot)| is_it(slot)).map(|(at, _)| at)
    }

    /// Gives a version so many percent of the new sessions; the others get the rest.
    pub fn share(&mut self, used: &FunctionUse, percent: u8) {
        let part = u32::from(percent) * (WHOLE / 100);
        let count = |of_it: bool| {
            let live = self.slots.iter().filter(|slot| slot.is_live());
            live.filter(|slot| (slot.used == *used) == of_it).count().max(1) as u32
        };
        let weights =
            [(WHOLE - part) / count(false), part / count(true)].map(|weight| weight.max(1));
        for slot in &mut self.slots {
            slot.weight = weights[usize::from(slot.used == *used)];
        }
    }

    /// Has all replicas that are up get equal parts.
    pub fn share_evenly(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.weight = EVEN);
    }

    /// Has one more replica of a version started: in a slot that is vacant, or a new one.
    pub fn add(&mut self, used: &FunctionUse, now: SystemTime) {
        let draining = |slot: &&mut Slot| slot.state == SlotState::Draining && slot.used == *used;
        if let Some(slot) = self.slots.iter_mut().find(draining) {
            // It has not gone yet. It is up as soon as it is seen to run.
            return slot.turn(SlotState::Starting, now);
        }
        let fresh = Slot::new(used, SlotState::Starting, now);
        match self.slots.iter_mut().find(|slot| slot.state == SlotState::Vacant) {
            Some(slot) => *slot = fresh,
            None => self.slots.push(fresh),
        }
    }

    /// Brings the replicas closer to so many of one version: first these are started, and when they
    /// are up, the others are drained. With `at_once` the others are drained if any is up. Whether
    /// there is nothing left to do.
    pub fn converge(
        &mut self,
        (used, wanted): (&FunctionUse, usize),
        (may_add, at_once): (bool, bool),
        now: SystemTime,
    ) -> bool {
        let is_live = |slot: &Slot| slot.is_live() && slot.used == *used;
        let live = self.slots.iter().filter(|slot| is_live(slot)).count();
        if may_add {
            (live..wanted).for_each(|_| self.add(used, now));
        }
        for _ in wanted..live {
            let starting = |slot: &Slot| is_live(slot) && slot.state == SlotState::Starting;
            let last = self.slots.iter().rposition(starting);
            if let Some(last) = last.or_else(|| self.slots.iter().rposition(is_live)) {
                self.slots[last].turn(SlotState::Draining, now);
            }
        }
        let up = self.up(used).count();
        if up >= wanted || at_once && up > 0 {
            for slot in self.slots.iter_mut().filter(|slot| slot.used != *used && slot.is_live()) {
                slot.turn(SlotState::Draining, now);
            }
        }
        let settled = |slot: &Slot| match slot.state {
            SlotState::Up => slot.used == *used,
            SlotState::Vacant => true,
            SlotState::Starting | SlotState::Draining => false,
        };
        up == wanted && self.slots.iter().all(settled)
    }

    /// Gives up slots that nothing is in; those at the end are no more.
    pub fn vacate(&mut self, is_empty: impl Fn(usize) -> bool, now: SystemTime) {
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if slot.state == SlotState::Draining && is_empty(at) {
                slot.turn(SlotState::Vacant, now);
                slot.weight = EVEN;
            }
        }
        while self.slots.len() > 1
            && self.slots.last().is_some_and(|slot| slot.state == SlotState::Vacant)
        {
            self.slots.pop();
        }
    }

    /// Takes the last change back, if it does not run yet.
    pub fn take_back(&mut self) -> bool {
        let undo = self.undo.take();
        let is_other = undo.is_some();
        self.slots = undo.unwrap_or_else(|| std::mem::take(&mut self.slots));
        is_other
    }

    /// Whether something is under way that goes on within moments.
    pub fn is_busy(&self) -> bool {
        self.rollout.is_some()
            || self
                .slots
                .iter()
                .any(|slot| matches!(slot.state, SlotState::Starting | SlotState::Draining))
    }
}
