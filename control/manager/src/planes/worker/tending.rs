//! Replicas of a chain's functions are brought from one layout to the next, while packets flow.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use super::Worker;
use super::update::same_text;
use crate::expansion::{at_first, expand, find};
use crate::kind::CheckError;
use crate::planes::replicas::{HOLD, Looked, Wide, cores, load, on_its_path, unscaled};
use crate::replicas::{Layout, ReplicasSpec, ReplicasStatus, View};
use crate::{Asked, ConditionKind};

/// Between two looks while something is under way.
const BUSY_LOOK: Duration = Duration::from_millis(100);
/// Between two looks where the number of replicas follows the load.
const LOAD_LOOK: Duration = Duration::from_secs(1);
/// Between two looks where nothing is to be done.
const CALM_LOOK: Duration = Duration::from_secs(5);

impl Worker {
    /// What the data plane is to run: with the replicas written out, where there are some.
    ///
    /// # Errors
    /// They cannot be written.
    pub(super) fn lay_out(&mut self, asked: &Asked) -> Result<Option<Asked>, CheckError> {
        let replicas = &mut self.replicas;
        let spec = &asked.run.spec;
        replicas.layouts.retain(|variable, _| spec.replicas.contains_key(variable));
        replicas.memories.retain(|variable, _| spec.replicas.contains_key(variable));
        if spec.replicas.is_empty() {
            return Ok(None);
        }
        for (variable, layout) in at_first(spec, SystemTime::now()) {
            replicas.layouts.entry(variable).or_insert(layout);
        }
        if let Some(wide) = &replicas.wide
            && wide.asked == *asked
            && wide.layouts == replicas.layouts
        {
            return Ok(Some(wide.result.clone()));
        }
        for variable in spec.replicas.keys() {
            let memory = replicas.memories.entry(variable.clone()).or_default();
            let found = find(&spec.configuration, variable);
            let wrong = |message| CheckError::new(format!("replicas.{variable}"), message);
            memory.element = found.map_err(wrong)?.name;
        }
        let others = self.record.as_ref().map(|record| record.functions.clone());
        let run = expand(&asked.run, &replicas.layouts, &others.unwrap_or_default())?;
        let result = Asked { run, ..asked.clone() };
        let (asked, layouts) = (asked.clone(), replicas.layouts.clone());
        replicas.wide = Some(Wide { asked, layouts, result: result.clone() });
        Ok(Some(result))
    }

    /// Looks after the replicas of a chain that runs `wide`, or is to. How long until the next
    /// look.
    pub(super) fn tend(&mut self, asked: &Asked, wide: &Asked) -> Duration {
        if self.plane.is_none() {
            return CALM_LOOK;
        }
        if !self.runs(wide) {
            return self.take_back(wide);
        }
        self.replicas.layouts.values_mut().for_each(|layout| layout.undo = None);
        if let Some(left) = self.until_look(asked) {
            return left;
        }
        self.replicas.looked = Some(Instant::now());
        let before = self.replicas.layouts.clone();
        for (variable, spec) in &asked.run.spec.replicas {
            if let Err(why) = self.tend_one(asked, (variable, spec)) {
                self.board.state(ConditionKind::Scaled, false, "NoAnswer", &why);
                return LOAD_LOOK;
            }
        }
        let slots = |layouts: &BTreeMap<String, Layout>| -> Vec<_> {
            layouts.values().map(|layout| layout.slots.clone()).collect()
        };
        let is_same = slots(&before) == slots(&self.replicas.layouts);
        if is_same {
            // What does not run yet is not shown.
            self.show(asked);
        } else {
            // As soon as it runs it is looked at.
            self.replicas.looked = None;
        }
        if self.replicas.layouts != before {
            // Before a hot swap: if this manager ends, the next one goes on from here.
            self.write_record();
        }
        if is_same { BUSY_LOOK } else { Duration::ZERO }
    }

    /// Whether the data plane runs this, and answers.
    pub(super) fn runs(&self, wide: &Asked) -> bool {
        let answers = self.plane.as_ref().is_some_and(|plane| plane.has_answered());
        let record = self.record.as_ref().filter(|record| answers && !record.swapping);
        record.is_some_and(|record| same_text(&record.run(), &wide.run))
    }

    /// Takes layouts back that the data plane refused.
    fn take_back(&mut self, wide: &Asked) -> Duration {
        let refused = self.refused.take_if(|(run, _)| *run == wide.run);
        let Some((run, why)) = refused else { return BUSY_LOOK };
        let mut any = false;
        for (variable, layout) in &mut self.replicas.layouts {
            if !layout.take_back() {
                continue;
            }
            any = true;
            if let Some(rollout) = layout.rollout.as_mut() {
                rollout.fail(&why, SystemTime::now());
            }
            let memory = self.replicas.memories.entry(variable.clone()).or_default();
            memory.hold("ScaleOutRefused", &why);
        }
        if any {
            self.write_record();
            self.board.report("ReplicasRefused", &why);
            return Duration::ZERO;
        }
        self.refused = Some((run, why));
        BUSY_LOOK
    }

    /// How long until it is time to look; `None` if it is.
    fn until_look(&self, asked: &Asked) -> Option<Duration> {
        let asked = &asked.run.spec;
        let is_busy = |(variable, layout): (&String, &Layout)| {
            let used = asked.functions.get(variable);
            let other = layout.version() != used && layout.refused.is_none();
            let wanted = asked.replicas.get(variable).map(|spec| spec.within_bounds(layout.wanted));
            layout.is_busy() || other || wanted != Some(layout.wanted)
        };
        let wait = if self.replicas.layouts.iter().any(is_busy) {
            BUSY_LOOK
        } else if asked.replicas.values().any(|spec| spec.scaling.is_some()) {
            LOAD_LOOK
        } else {
            CALM_LOOK
        };
        let left = wait.saturating_sub(self.replicas.looked?.elapsed());
        (!left.is_zero()).then_some(left)
    }

    /// Looks after the replicas of one function.
    ///
    /// # Errors
    /// The data plane does not answer.
    fn tend_one(
        &mut self,
        asked: &Asked,
        (variable, spec): (&String, &ReplicasSpec),
    ) -> Result<(), String> {
        let socket = self.dir.socket();
        let Some(plane) = &self.plane else { return Ok(()) };
        let remote = plane.remote(&socket);
        let Some(used) = asked.run.spec.functions.get(variable) else { return Ok(()) };
        let Some(layout) = self.replicas.layouts.get_mut(variable) else { return Ok(()) };
        let memory = self.replicas.memories.entry(variable.clone()).or_default();
        let looked = Looked::read(remote, &memory.element, layout)?;
        looked.apply(remote, (&mut memory.moved, layout))?;
        let is_moving = looked.is_moving();
        memory.seen = looked.seen;
        let load = load(layout, &memory.seen);
        layout.wanted = spec.within_bounds(layout.wanted);
        if layout.rollout.is_none()
            && let Some(scaling) = spec.scaling()
        {
            let now = Instant::now();
            let wanted = (layout.wanted, cores());
            let decision = memory.scaler.decide(&scaling, wanted, &load, now);
            (layout.wanted, memory.bound) = (decision.wanted, decision.bound);
            let (before, after) = (wanted.0, layout.wanted);
            if before != after {
                let reason = if before < after { "ScaledOut" } else { "ScaledIn" };
                let why = match decision.forecast {
                    Some(busy) => format!("{busy:.1} processors would be busy soon"),
                    None => format!("{} packets wait", load.waiting),
                };
                let message = format!("{variable}: from {before} to {after} replicas, as {why}");
                self.board.report(reason, &message);
            }
        }
        let before = layout.slots.clone();
        let (seen, may_add, now) = (&memory.seen, memory.may_add(), SystemTime::now());
        let view = View { asked: used, spec, seen, is_moving, may_add, now };
        let notes = layout.advance(&view, &mut memory.window);
        if layout.slots != before {
            layout.undo = Some(before);
        }
        for note in notes {
            if note.reason == "ReplicaNotStarted" {
                memory.held = Some((Instant::now() + HOLD, note.reason, note.message.clone()));
            }
            self.board.report(note.reason, &format!("{variable}: {}", note.message));
        }
        Ok(())
    }

    /// Shows what was seen: status and conditions.
    fn show(&mut self, asked: &Asked) {
        let spec = &asked.run.spec;
        let (mut all, mut scaled, mut rolled_out) = (Vec::new(), None, None);
        for (variable, layout) in &self.replicas.layouts {
            let (Some(replicas), Some(memory)) =
                (spec.replicas.get(variable), self.replicas.memories.get(variable))
            else {
                continue;
            };
            let of = (variable.as_str(), memory.element.as_str());
            all.push(ReplicasStatus::of(of, layout, (replicas, &memory.seen)));
            scaled = scaled.or_else(|| unscaled(variable, layout, memory));
            let is_asked = spec.functions.get(variable) == layout.version();
            rolled_out = rolled_out.or_else(|| on_its_path(variable, layout, is_asked));
        }
        self.board.change(|status| status.replicas = all);
        let yes = |message: &str| (true, "AsAskedFor", message.to_owned());
        let no = |(reason, message)| (false, reason, message);
        self.replicas.pending.clone_from(&rolled_out);
        let (holds, reason, message) =
            rolled_out.map_or_else(|| yes("all replicas run the versions asked for"), no);
        self.board.turn(ConditionKind::RolledOut, holds, reason, &message);
        let (holds, reason, message) =
            scaled.map_or_else(|| yes("as many replicas as are wanted have sessions"), no);
        self.board.turn(ConditionKind::Scaled, holds, reason, &message);
    }

    /// Shows nothing of replicas any more.
    pub(super) fn show_no_replicas(&mut self) {
        self.replicas.pending = None;
        let is_other = |kind| !matches!(kind, ConditionKind::Scaled | ConditionKind::RolledOut);
        self.board.change(|status| {
            status.replicas.clear();
            status.conditions.retain(|one| is_other(one.kind));
        });
    }
}
