//! What is known of the replicas of a chain's functions, and said of them.

mod look;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::Asked;
use crate::replicas::{Bound, Layout, Load, Phase, Scaler, Seen, SlotState, Window};
pub(super) use look::Looked;

/// How long no replica is added after one could not be.
pub(super) const HOLD: Duration = Duration::from_secs(30);

/// The replicas of a chain's functions, by variable.
#[derive(Default)]
pub(super) struct Replicas {
    /// Where they are to stand; kept in the record.
    pub(super) layouts: BTreeMap<String, Layout>,
    pub(super) memories: BTreeMap<String, Memory>,
    /// What the last layouts were written out to.
    pub(super) wide: Option<Wide>,
    pub(super) looked: Option<Instant>,
    /// Why the chain is not up to date, though its configuration runs.
    pub(super) pending: Option<(&'static str, String)>,
}

/// What was asked for, with which layouts, and what that is to run.
pub(super) struct Wide {
    pub(super) asked: Asked,
    pub(super) layouts: BTreeMap<String, Layout>,
    pub(super) result: Asked,
}

/// What is known of a function's replicas beside their layout; a manager that begins finds it anew.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) element: String,
    pub(super) window: Window,
    pub(super) scaler: Scaler,
    /// Until when no replica is added, and why.
    pub(super) held: Option<(Instant, &'static str, String)>,
    pub(super) seen: Vec<Seen>,
    pub(super) moved: Option<Instant>,
    pub(super) bound: Option<Bound>,
}

impl Memory {
    pub(super) fn may_add(&self) -> bool {
        self.held.as_ref().is_none_or(|(until, ..)| Instant::now() > *until)
    }

    pub(super) fn hold(&mut self, reason: &'static str, why: &str) {
        self.held = Some((Instant::now() + HOLD, reason, why.to_owned()));
    }
}

/// The load of the replicas that have sessions.
pub(super) fn load(layout: &Layout, seen: &[Seen]) -> Load {
    let mut load = Load { up: 0, waiting: 0, packets: 0, cpu_seconds: 0.0 };
    for (slot, seen) in layout.slots.iter().zip(seen) {
        if slot.state == SlotState::Up {
            load.up += 1;
            load.waiting += seen.waiting;
            load.packets += seen.counts.packets;
            load.cpu_seconds += seen.cpu_seconds;
        }
    }
    load
}

/// Cores of this host.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Why there are not as many replicas as are wanted, if so.
pub(super) fn unscaled(
    variable: &str,
    layout: &Layout,
    memory: &Memory,
) -> Option<(&'static str, String)> {
    let version = layout.version()?;
    let (up, wanted) = (layout.up(version).count(), usize::from(layout.wanted));
    if let Some((_, reason, why)) =
        memory.held.as_ref().filter(|_| up < wanted && !memory.may_add())
    {
        let message = format!("{variable}: {up} of {wanted} replicas have sessions: {why}");
        return Some((reason, message));
    }
    let draining = (0..).zip(&layout.slots).find(|(_, slot)| slot.state == SlotState::Draining);
    let message = format!("{variable}: {up} of {wanted} replicas have sessions");
    if up < wanted {
        return Some(("ScalingOut", message));
    }
    if let Some((at, _)) = draining.filter(|_| layout.rollout.is_none()) {
        let left = memory.seen.get(at).map_or(0, |seen| seen.sessions);
        let message = format!("{message}; replica {at} still has {left}, which leave or end");
        return Some(("ScalingIn", message));
    }
    let bound = match memory.bound? {
        Bound::Max => ("AtMaximum", "as many as may be"),
        Bound::Cores => ("NoCores", "the host has no more cores"),
    };
    Some((bound.0, format!("{variable}: {up} replicas are overloaded, and {}", bound.1)))
}

/// Why a version that is asked for does not have all sessions, if so.
pub(super) fn on_its_path(
    variable: &str,
    layout: &Layout,
    is_asked: bool,
) -> Option<(&'static str, String)> {
    if let Some(rollout) = &layout.rollout {
        let (reason, what) = match rollout.phase {
            Phase::Starting => ("Starting", "is started".to_owned()),
            Phase::Step(step) => ("Canary", format!("is watched, in step {}", step + 1)),
            Phase::Forward => ("Forward", "takes all sessions".to_owned()),
            Phase::Back => {
                let why = rollout.worse.as_deref().unwrap_or("it is not asked for any more");
                ("GoingBack", format!("leaves: {why}"))
            }
        };
        return Some((reason, format!("{variable}: {} {what}", rollout.to)));
    }
    match &layout.refused {
        Some(refused) if !is_asked => {
            let (used, why) = (&refused.used, &refused.why);
            let remedy = "ask for the version before, or for another one";
            Some(("WentBack", format!("{variable}: {used} went back: {why}; {remedy}")))
        }
        _ if !is_asked => Some(("Starting", format!("{variable}: another version is asked for"))),
        _ => None,
    }
}
