//! Functions on demand are deployed and taken away, while packets flow.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{CALM, Worker};
use crate::expansion::on_demand::with_deployed;
use crate::kind::CheckError;
use crate::on_demand::OnDemandSpec;
use crate::planes::on_demand::{LOOK, OnDemand};
use crate::{Asked, ConditionKind};

impl Worker {
    /// Keeps a data plane that runs what is asked for.
    pub(super) fn keep(&mut self, asked: &Asked) -> Duration {
        if asked.run.spec.on_demand.is_empty() {
            self.forget_on_demand();
            return self.keep_laid_out(asked);
        }
        if self.plane.is_none() {
            self.begin_without();
        }
        match self.as_needed(asked) {
            Ok(now) => {
                let wait = self.keep_laid_out(&now);
                wait.min(self.watch_needs(asked, &now))
            }
            Err(why) => self.cannot_write(&why),
        }
    }

    /// The same of what is asked for of functions on demand, too.
    fn keep_laid_out(&mut self, asked: &Asked) -> Duration {
        match self.lay_out(asked) {
            Ok(Some(wide)) => {
                let wait = self.keep_running(&wide);
                wait.min(self.tend(asked, &wide))
            }
            Ok(None) => {
                self.show_no_replicas();
                self.keep_running(asked)
            }
            Err(why) => self.cannot_write(&why),
        }
    }

    /// What is asked for cannot be written out: what runs, runs on.
    fn cannot_write(&mut self, why: &CheckError) -> Duration {
        self.out_of_date("ConfigurationRefused", &why.to_string());
        self.watch()
    }

    /// What is asked for, with those functions on demand that are needed now.
    ///
    /// # Errors
    /// It cannot be written.
    fn as_needed(&mut self, asked: &Asked) -> Result<Asked, CheckError> {
        let known = &mut self.on_demand;
        known.retain(|variable| asked.run.spec.on_demand.contains_key(variable));
        if let Some((before, deployed, now)) = &known.written
            && before == asked
            && *deployed == known.deployed
        {
            return Ok(now.clone());
        }
        let run = with_deployed(&asked.run, &known.deployed)?;
        let now = Asked { run, ..asked.clone() };
        known.written = Some((asked.clone(), known.deployed.clone(), now.clone()));
        Ok(now)
    }

    /// Looks whether functions on demand are needed, where the chain runs what was decided before.
    /// How long until the next look.
    fn watch_needs(&mut self, asked: &Asked, now: &Asked) -> Duration {
        if self.plane.is_none() {
            return CALM;
        }
        let Ok(wide) = self.lay_out(now) else { return CALM };
        let wide = wide.as_ref().unwrap_or(now);
        if self.is_refused(&wide.run) && self.on_demand.is_changing() {
            return self.take_deployment_back();
        }
        if !self.runs(wide) {
            return LOOK;
        }
        self.report_deployed();
        if let Some(left) = self.on_demand.until_look() {
            return left;
        }
        self.on_demand.looked = Some(Instant::now());
        match self.look_at_needs(&asked.run.spec.on_demand) {
            Ok(true) => {
                // Before a hot swap: if this manager ends, the next one goes on from here.
                self.write_record();
                return Duration::ZERO;
            }
            Ok(false) => self.show_deployed(),
            Err(why) => self.board.turn(ConditionKind::OnDemand, false, "NoNumber", &why),
        }
        LOOK
    }

    /// Reads the handlers and decides; whether anything is to change.
    ///
    /// # Errors
    /// A handler is not there, or has no number.
    fn look_at_needs(&mut self, all: &BTreeMap<String, OnDemandSpec>) -> Result<bool, String> {
        let socket = self.dir.socket();
        let Some(plane) = &self.plane else { return Ok(false) };
        let handlers: Vec<String> = all.values().map(|policy| policy.when.clone()).collect();
        let answers = plane.remote(&socket).read_each(&handlers);
        let answers = answers.map_err(|error| error.to_string())?;
        let (mut any, mut wrong) = (false, None);
        for ((variable, policy), answer) in all.iter().zip(answers) {
            let when = &policy.when;
            let Some(text) = answer else {
                wrong = Some(format!("{variable}: the chain has no handler {when}"));
                continue;
            };
            let Ok(value) = text.trim().parse::<f64>() else {
                let text = text.escape_debug();
                wrong = Some(format!("{variable}: {when} is no number, but '{text}'"));
                continue;
            };
            let calm = policy.calm()?;
            if self.on_demand.decide((variable, calm), value, Instant::now()) {
                any = true;
                let is_needed = self.on_demand.deployed.contains(variable);
                let reason = if is_needed { "Needed" } else { "NotNeeded" };
                self.board.report(reason, &format!("{variable}: {when} is {value}"));
            }
        }
        match wrong {
            Some(why) if !any => Err(why),
            _ => Ok(any),
        }
    }

    /// Reports what came or went, once it did.
    fn report_deployed(&mut self) {
        for (variable, since) in self.on_demand.confirm() {
            let is_deployed = self.on_demand.deployed.contains(&variable);
            let reason = if is_deployed { "Deployed" } else { "Withdrawn" };
            let ms = since.elapsed().as_millis();
            self.board.report(reason, &format!("{variable}: {ms} ms after the decision"));
        }
    }

    /// Has the next data plane begin without functions on demand: it starts whatever becomes of
    /// them, and what needs them is found anew.
    fn begin_without(&mut self) {
        let gone = self.on_demand.begin_anew();
        if !gone.is_empty() {
            let message = format!("{}: the data plane ended", gone.join(", "));
            self.board.report("Withdrawn", &message);
        }
    }

    /// Takes changes back that the data plane refused: traffic is as before.
    fn take_deployment_back(&mut self) -> Duration {
        let why = self.refused.take().map_or_else(String::new, |(_, why)| why);
        let variables = self.on_demand.take_back(&why, Instant::now()).join(", ");
        self.write_record();
        self.board.report("DeploymentRefused", &format!("{variables}: {why}"));
        Duration::ZERO
    }

    /// Shows which functions run.
    fn show_deployed(&self) {
        let kind = ConditionKind::OnDemand;
        if let Some(why) = self.on_demand.why_held(Instant::now()) {
            return self.board.state(kind, false, "DeploymentRefused", why);
        }
        let deployed = &self.on_demand.deployed;
        let names: Vec<&str> = deployed.iter().map(String::as_str).collect();
        match names.is_empty() {
            true => self.board.state(kind, true, "NotNeeded", "no function on demand is needed"),
            false => {
                let message = format!("deployed, as needed: {}", names.join(", "));
                self.board.state(kind, true, "Deployed", &message);
            }
        }
    }

    /// Forgets functions on demand where a chain has none, or does not run.
    pub(super) fn forget_on_demand(&mut self) {
        self.on_demand = OnDemand::default();
        self.forget(ConditionKind::OnDemand);
    }
}
