//! One step of a function's replicas towards what is asked for.
//!
//! The steps are pure: what was seen comes in, slots that stand otherwise come out. Whoever runs
//! the chain writes these into the configuration and lets the data plane take it over. So a manager
//! that is killed at any moment leaves slots that another one goes on with.

use std::time::{Duration, SystemTime};

use super::judge::{Counts, Pair, worse};
use super::layout::{Layout, Phase, Refusal, Rollout, SlotState};
use super::spec::{Canary, ReplicasSpec};
use crate::FunctionUse;

/// How long a process may take to begin to work: a virtual machine that is emulated takes a minute.
const START_MAX: Duration = Duration::from_secs(120);
/// Failures of a process that does not begin to work, after which it is given up.
const STARTS_MAX: u64 = 3;

/// What was seen of the replica of a slot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// Whether its process works.
    pub is_running: bool,
    /// Its sessions.
    pub sessions: u64,
    /// Packets that wait for it or are with it.
    pub waiting: u64,
    /// What was counted.
    pub counts: Counts,
    /// Processor time of its process, seconds.
    pub cpu_seconds: f64,
    /// Why its process was last ended or could not be started.
    pub last_error: String,
}

/// What is asked for, and what was seen.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The version that is asked for.
    pub asked: &'a FunctionUse,
    /// What is asked for besides.
    pub spec: &'a ReplicasSpec,
    /// What was seen of each slot.
    pub seen: &'a [Seen],
    /// Whether sessions are moving.
    pub is_moving: bool,
    /// Whether replicas may be added; not for a while after one could not.
    pub may_add: bool,
    /// When.
    pub now: SystemTime,
}

/// Something that happened, for an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// One word in `CamelCase`.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
}

/// Packets that waited since a step began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Window {
    looks: u64,
    waited: [u64; 2],
}

impl Window {
    fn add(&mut self, waiting: [u64; 2]) {
        self.looks += 1;
        (0..2).for_each(|side| self.waited[side] += waiting[side]);
    }

    fn mean(&self) -> [f64; 2] {
        self.waited.map(|sum| sum as f64 / self.looks.max(1) as f64)
    }
}

fn note(notes: &mut Vec<Note>, reason: &'static str, message: String) {
    notes.push(Note { reason, message });
}

impl Layout {
    /// Goes one step on. What it brings about is in the slots.
    pub fn advance(&mut self, view: &View<'_>, window: &mut Window) -> Vec<Note> {
        let mut notes = Vec::new();
        self.follow_processes(view, &mut notes);
        if !view.is_moving {
            let is_empty = |at: usize| {
                view.seen.get(at).is_none_or(|seen| seen.sessions == 0 && seen.waiting == 0)
            };
            self.vacate(is_empty, view.now);
        }
        self.follow_version(view, &mut notes);
        match self.rollout.take() {
            Some(rollout) => self.roll_out(rollout, view, window, &mut notes),
            None => {
                let version = self.version().unwrap_or(view.asked).clone();
                let wanted = (&version, usize::from(self.wanted));
                self.converge(wanted, (view.may_add, false), view.now);
            }
        }
        notes
    }

    /// Replicas that work get sessions; those that do not begin to are given up.
    fn follow_processes(&mut self, view: &View<'_>, notes: &mut Vec<Note>) {
        let mut failed = None;
        for (at, slot) in self.slots.iter_mut().enumerate() {
            let (SlotState::Starting, Some(seen)) = (slot.state, view.seen.get(at)) else {
                continue;
            };
            let waited = view.now.duration_since(slot.since).unwrap_or_default();
            if seen.is_running {
                slot.turn(SlotState::Up, view.now);
                note(notes, "ReplicaUp", format!("replica {at} of {} works", slot.used));
            } else if waited > START_MAX || seen.counts.failures >= STARTS_MAX {
                slot.turn(SlotState::Draining, view.now);
                let message = format!(
                    "replica {at} of {} does not begin to work, so it is given up: {}",
                    slot.used,
                    if seen.last_error.is_empty() {
                        "no reason is known"
                    } else {
                        &seen.last_error
                    }
                );
                failed = Some((slot.used.clone(), message.clone()));
                note(notes, "ReplicaNotStarted", message);
            }
        }
        if let (Some((used, why)), Some(rollout)) = (failed, &mut self.rollout)
            && used == rollout.to
            && rollout.phase != Phase::Back
        {
            rollout.go_back(Some(why), view.now);
        }
    }

    /// Begins a roll-out where another version is asked for, and turns one that is not asked for
    /// any more.
    fn follow_version(&mut self, view: &View<'_>, notes: &mut Vec<Note>) {
        let asked = view.asked;
        if let Some(rollout) = &mut self.rollout {
            return rollout.follow(asked, view.now);
        }
        let Some(runs) = self.version().cloned() else { return };
        if runs == *asked {
            self.refused = None;
            return;
        }
        if self.refused.as_ref().is_some_and(|refused| refused.used == *asked) {
            return;
        }
        let phase = if view.spec.canary.is_some() { Phase::Starting } else { Phase::Forward };
        note(notes, "RolloutBegan", format!("from {runs} to {asked}"));
        let (from, to) = (runs, asked.clone());
        self.rollout = Some(Rollout { from, to, phase, since: view.now, worse: None, base: None });
    }

    fn roll_out(
        &mut self,
        mut rollout: Rollout,
        view: &View<'_>,
        window: &mut Window,
        notes: &mut Vec<Note>,
    ) {
        let Rollout { from, to, .. } = rollout.clone();
        let wanted = usize::from(self.wanted);
        let is_done = match (rollout.phase, view.spec.canary()) {
            (Phase::Starting | Phase::Step(_), None) => {
                rollout.turn(Phase::Forward, view.now);
                false
            }
            (Phase::Starting, Some(canary)) => {
                self.begin_canary(&mut rollout, &canary, view, notes);
                false
            }
            (Phase::Step(step), Some(canary)) => {
                self.watch_canary((&mut rollout, step), &canary, (view, window), notes);
                false
            }
            (Phase::Forward, _) => {
                self.share_evenly();
                self.converge((&to, wanted), (view.may_add, false), view.now)
            }
            (Phase::Back, _) => {
                self.share_evenly();
                self.converge((&from, wanted), (view.may_add, true), view.now)
            }
        };
        if !is_done {
            self.rollout = Some(rollout);
        } else if rollout.phase == Phase::Forward {
            note(notes, "RolledOut", format!("{to} has replaced {from}"));
        } else {
            let message = format!("{from} has all sessions again");
            note(notes, "WentBack", message);
            self.refused = rollout.worse.map(|why| Refusal { used: to, why });
        }
    }

    /// Starts a replica of the new version, and gives it its first share.
    fn begin_canary(
        &mut self,
        rollout: &mut Rollout,
        canary: &Canary,
        view: &View<'_>,
        notes: &mut Vec<Note>,
    ) {
        let has_any = self.slots.iter().any(|slot| slot.used == rollout.to && slot.is_live());
        if self.up(&rollout.to).next().is_some() {
            self.enter_step(rollout, (canary, 0), view.now, notes);
        } else if !has_any && view.may_add {
            self.add(&rollout.to, view.now);
        }
    }

    fn enter_step(
        &mut self,
        rollout: &mut Rollout,
        (canary, step): (&Canary, usize),
        now: SystemTime,
        notes: &mut Vec<Note>,
    ) {
        let Some(percent) = canary.steps.get(step) else {
            note(notes, "CanaryPassed", format!("{} takes all sessions", rollout.to));
            return rollout.turn(Phase::Forward, now);
        };
        self.share(&rollout.to, *percent);
        rollout.turn(Phase::Step(step), now);
        note(notes, "CanaryStep", format!("{percent} % of new sessions go to {}", rollout.to));
    }

    /// Compares both versions, and goes on or back.
    fn watch_canary(
        &mut self,
        (rollout, step): (&mut Rollout, usize),
        canary: &Canary,
        (view, window): (&View<'_>, &mut Window),
        notes: &mut Vec<Note>,
    ) {
        let sides =
            [rollout.from.clone(), rollout.to.clone()].map(|used| self.counted(&used, view));
        let [(old, waited), (new, waits)] = sides;
        let base = rollout.base.as_ref();
        let counts = base.and_then(|[was, began]| Some([old.since(was)?, new.since(began)?]));
        let Some(counts) = counts else {
            // The step begins now: with its share in force, or with counters that began anew.
            *window = Window::default();
            rollout.base = Some([old, new]);
            rollout.since = view.now;
            return;
        };
        window.add([waited, waits]);
        let pair = Pair { counts, waiting: window.mean() };
        if let Some(why) = worse(&pair, canary) {
            note(notes, "CanaryWorse", format!("{} goes back: {why}", rollout.to));
            return rollout.go_back(Some(why), view.now);
        }
        let lasted = view.now.duration_since(rollout.since).unwrap_or_default();
        if lasted >= canary.window && pair.counts[1].packets >= canary.packets {
            self.enter_step(rollout, (canary, step + 1), view.now, notes);
        }
    }

    /// What was counted of a version, and the packets that wait for each of its replicas.
    fn counted(&self, used: &FunctionUse, view: &View<'_>) -> (Counts, u64) {
        let (mut counts, mut waiting, mut replicas) = (Counts::default(), 0, 0);
        for (slot, seen) in self.slots.iter().zip(view.seen) {
            if slot.used == *used && slot.state != SlotState::Vacant {
                counts.add(&seen.counts);
                waiting += seen.waiting;
                replicas += 1;
            }
        }
        (counts, waiting / u64::max(replicas, 1))
    }
}

impl Rollout {
    fn turn(&mut self, phase: Phase, now: SystemTime) {
        (self.phase, self.since, self.base) = (phase, now, None);
    }

    /// The data plane refused a step.
    pub(crate) fn fail(&mut self, why: &str, now: SystemTime) {
        if self.phase != Phase::Back {
            self.go_back(Some(format!("it cannot be run: {why}")), now);
        }
    }

    fn go_back(&mut self, worse: Option<String>, now: SystemTime) {
        self.worse = worse;
        self.turn(Phase::Back, now);
    }

    /// Another version may be asked for meanwhile.
    fn follow(&mut self, asked: &FunctionUse, now: SystemTime) {
        if *asked == self.to {
            if self.phase == Phase::Back && self.worse.is_none() {
                // It was taken back, and is asked for again.
                self.turn(Phase::Starting, now);
            }
        } else if self.phase != Phase::Forward {
            if self.phase != Phase::Back {
                self.go_back(None, now);
            }
            // What was found of a version that is not asked for any more does not matter.
            self.worse = None;
        } else if *asked == self.from {
            std::mem::swap(&mut self.from, &mut self.to);
            self.turn(Phase::Forward, now);
        }
    }
}
