//! What a data plane runs is made equal to what is asked for, while packets flow.

use std::path::PathBuf;
use std::time::Duration;

use super::{BEGIN_MAX, Worker};
use crate::planes::functions;
use crate::planes::record::Record;
use crate::planes::remote::Swap;
use crate::{Asked, ConditionKind, Run};

/// Wait after a hot swap of which nobody knows what became of it.
const SWAP_AGAIN: Duration = Duration::from_secs(2);

impl Worker {
    /// Makes what the data plane runs equal to what is asked for.
    pub(super) fn update(&mut self, asked: &Asked) {
        let kept = self.kept_threads(asked).map(str::to_owned);
        let (Some(plane), Some(record)) = (&mut self.plane, &mut self.record) else { return };
        if let Some((_, why)) = self.refused.as_ref().filter(|(run, _)| *run == asked.run) {
            return self.out_of_date("ConfigurationRefused", why);
        }
        let (now, wanted) = (&record.spec, &asked.run.spec);
        let kept = kept.filter(|_| now.threads() != wanted.threads());
        let moves = kept.is_none() && now.moves_threads(wanted);
        if same_text(&record.run(), &asked.run) && !moves && !record.swapping {
            if let Some(why) = kept {
                let message = format!(
                    "the number of threads changed, which needs a restart: stop the chain and \
                     start it again, which ends its sessions; until then it runs on as before. {why}"
                );
                return self.board.turn(ConditionKind::UpToDate, false, "RestartNeeded", &message);
            }
            if record.generation != asked.generation {
                record.generation = asked.generation;
                self.write_record();
            }
            let generation = asked.generation;
            self.board.change(|status| status.observed_generation = generation);
            if let Some((reason, message)) = &self.replicas.pending {
                return self.out_of_date(reason, message);
            }
            let message = format!("generation {generation} runs");
            return self.board.state(ConditionKind::UpToDate, true, "Running", &message);
        }
        if plane.has_answered() {
            if plane.may_swap() {
                self.verify_and_swap(asked);
            }
        } else if plane.is_late(BEGIN_MAX) && plane.started.is_some() {
            // It never began, so nothing is lost with it.
            plane.end(self.setup.stop_limit);
        } else {
            self.out_of_date("Waiting", "the data plane does not answer yet");
        }
    }

    /// Why the data plane keeps its number of threads, though this asks for another one.
    fn kept_threads(&self, asked: &Asked) -> Option<&str> {
        let kept = self.threads_kept.as_ref().filter(|(run, _)| *run == asked.run);
        kept.map(|(_, why)| why.as_str())
    }

    /// Replaces what the data plane runs if the functions are as declared.
    fn verify_and_swap(&mut self, asked: &Asked) {
        if let Err(why) = functions::keep(&self.setup.kept, &asked.run) {
            if let Some(plane) = &mut self.plane {
                plane.swap_later(SWAP_AGAIN);
            }
            let status = self.board.status();
            if !status.conditions.iter().any(|one| one.reason == why.reason) {
                self.board.report(why.reason, &why.message);
            }
            return self.out_of_date(why.reason, &why.message);
        }
        self.swap(asked);
    }

    /// Replaces what the data plane runs; its sessions stay.
    fn swap(&mut self, asked: &Asked) {
        let keeps_threads = self.kept_threads(asked).is_some();
        let (Some(plane), Some(record)) = (&mut self.plane, &mut self.record) else { return };
        let before = record.run();
        record.swapping = true;
        record.replicas.clone_from(&self.replicas.layouts);
        let prepared = record.write(&self.dir);
        let kept = &self.setup.kept;
        let prepared = prepared.and_then(|()| self.dir.write_configuration(&asked.run, kept));
        if let Err(error) = prepared {
            plane.swap_later(SWAP_AGAIN);
            return self.out_of_date("StateRefused", &error.to_string());
        }
        let wanted = &asked.run.spec;
        let resizes = record.spec.threads() != wanted.threads() && !keeps_threads;
        let threads = resizes.then(|| wanted.threads());
        let takes_threads = resizes || record.spec.threads() == wanted.threads();
        let cores = if takes_threads { wanted.cores.clone() } else { record.spec.cores.clone() };
        let swap = plane.remote(&self.dir.socket()).swap(threads, cores.as_deref());
        self.trying = matches!(swap, Swap::Unknown(_));
        match swap {
            Swap::Taken => {
                record.swapping = false;
                take_text(record, &asked.run);
                if takes_threads {
                    record.spec.threads = asked.run.spec.threads;
                    record.spec.cores = cores;
                }
                if record.spec == asked.run.spec {
                    record.generation = asked.generation;
                }
                let generation = asked.generation;
                self.write_record();
                self.board.report("Swapped", &format!("generation {generation} took over"));
                self.update(asked);
            }
            Swap::Refused(why) => {
                record.swapping = false;
                // Whoever has it read its file again, such as by SIGHUP, gets what runs.
                let restored = self.dir.write_configuration(&before, &self.setup.kept);
                self.write_record();
                let why = why.replace(&format!("{}/", self.dir.path().display()), "");
                if let Err(error) = restored {
                    self.board.report("RecordNotWritten", &error.to_string());
                }
                if resizes {
                    // The rest of it may do with the threads that there are.
                    self.threads_kept = Some((asked.run.clone(), why));
                    return self.update(asked);
                }
                let message = format!("generation {} is refused: {why}", asked.generation);
                self.out_of_date("ConfigurationRefused", &message);
                self.refused = Some((asked.run.clone(), message.clone()));
                self.board.report("ConfigurationRefused", &message);
            }
            Swap::Unknown(why) => {
                plane.swap_later(SWAP_AGAIN);
                self.out_of_date("NoAnswer", &why);
            }
        }
    }
}

/// Whether two have the same configuration and variables, those of functions among them.
pub(super) fn same_text(one: &Run, other: &Run) -> bool {
    // By its hash alone: where the executable was found does not matter.
    let variables = |run: &Run| run.variables(|function| PathBuf::from(&function.sha256));
    one.configuration() == other.configuration() && variables(one) == variables(other)
}

/// Records that the configuration and the variables of `run` took over.
fn take_text(record: &mut Record, run: &Run) {
    record.spec.configuration.clone_from(&run.spec.configuration);
    record.spec.variables.clone_from(&run.spec.variables);
    record.spec.functions.clone_from(&run.spec.functions);
    record.functions.clone_from(&run.functions);
    record.spec.groups.clone_from(&run.spec.groups);
    record.groups.clone_from(&run.groups);
}
