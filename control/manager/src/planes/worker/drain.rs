//! A chain drains: no session begins there any more, and it ends when its sessions have.

use std::time::{Duration, Instant};

use super::{CALM, Worker};
use crate::planes::drain::{Draining, Participants, Progress};
use crate::{Asked, ConditionKind, PlaneError};

/// Between two looks at what is left.
const LOOK: Duration = Duration::from_millis(500);

/// How long a drain waits for the other host of a pair before it refuses new sessions.
const PATIENCE: Duration = Duration::from_secs(5);

impl Worker {
    /// Drains a data plane that runs, and ends it. One that does not run is not started.
    pub(super) fn drain(&mut self, asked: &Asked) -> Duration {
        if self.plane.is_none() {
            return if self.unsure && self.find_by_socket() {
                Duration::ZERO
            } else {
                self.drained()
            };
        }
        let wait = self.keep(asked);
        if !self.plane.as_ref().is_some_and(|plane| plane.has_answered() && !plane.is_ending()) {
            return wait;
        }
        self.set_draining(true);
        let wait = wait.min(LOOK);
        match self.advance() {
            Ok(Progress::Waits(reason, message)) => {
                self.board.turn(ConditionKind::Drained, false, reason, &message);
                wait
            }
            Ok(Progress::Done(why)) => {
                self.board.report("Drained", &why);
                self.end().unwrap_or_default()
            }
            Err(why) => {
                let why = why.to_string();
                self.board.turn(ConditionKind::Drained, false, "NoAnswer", &why);
                wait
            }
        }
    }

    fn advance(&mut self) -> Result<Progress, PlaneError> {
        let socket = self.dir.socket();
        let generation = self.record.as_ref().map_or(0, |record| record.generation);
        let Some(plane) = &self.plane else { return Ok(Progress::Done("nothing runs".into())) };
        let (remote, of) = (plane.remote(&socket), (plane.process.pid(), generation));
        let known = self.draining.take().filter(|known| known.of == of);
        let draining = match known {
            Some(known) => known,
            None => {
                let participants = Participants::read(remote)?;
                Draining { of, participants, begun: Instant::now() }
            }
        };
        let is_patient = draining.begun.elapsed() < PATIENCE;
        let progress = draining.participants.advance(remote, is_patient);
        self.draining = Some(draining);
        progress
    }

    /// Nothing runs any more.
    fn drained(&mut self) -> Duration {
        (self.seen, self.good, self.draining) = (None, None, None);
        self.set_draining(false);
        self.show_no_replicas();
        self.forget_on_demand();
        let message = "the chain has drained, and does not run; `drain: false` starts it again";
        self.not_ready("Drained", message);
        self.board.state(ConditionKind::UpToDate, true, "Drained", "nothing runs, as asked for");
        self.board.turn(ConditionKind::Drained, true, "Drained", message);
        CALM
    }

    /// Lets sessions begin again in a data plane that drained, if it was asked to end that.
    pub(super) fn end_draining(&mut self) {
        self.forget(ConditionKind::Drained);
        if !self.record.as_ref().is_some_and(|record| record.draining) {
            return;
        }
        let socket = self.dir.socket();
        let Some(plane) = self.plane.as_ref().filter(|plane| plane.has_answered()) else { return };
        let remote = plane.remote(&socket);
        let ended = Participants::read(remote).and_then(|found| {
            let gate = found.gates.first();
            gate.map_or(Ok(()), |gate| remote.write(&format!("{gate}.draining"), "false"))
        });
        if ended.is_ok() {
            self.draining = None;
            self.set_draining(false);
        }
    }

    /// Notes that the data plane may refuse new sessions: a later manager lets them begin again.
    fn set_draining(&mut self, is_draining: bool) {
        let Some(record) = self.record.as_mut().filter(|record| record.draining != is_draining)
        else {
            return;
        };
        record.draining = is_draining;
        self.write_record();
    }
}
