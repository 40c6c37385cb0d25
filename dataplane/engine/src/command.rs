//! Commands: work for another thread, done between two of its rounds.

use thruway_element::{Answer, HandlerError, Outbox};

use crate::job::Job;
use crate::signals::Taker;
use crate::trace::{Event, Order};

/// Actions of a command in its thread.
pub(crate) trait CommandTarget {
    /// Writes the handler `run` of an element for which a signal came.
    fn signal(&mut self, out: &mut Outbox, taker: Taker);

    /// Reads `[element.]handler [param]` as seen from `node`.
    fn read_from(&mut self, out: &mut Outbox, node: u32, call: &str) -> Answer;

    /// Writes `[element.]handler` as seen from `node`; one of an element that is running, as soon
    /// as that has returned.
    fn write_from(
        &mut self,
        out: &mut Outbox,
        node: u32,
        text: &str,
        value: &str,
    ) -> Result<(), HandlerError>;

    /// Does a job; `None` when the element is running.
    fn perform(&mut self, out: &mut Outbox, job: &Job) -> Option<Answer>;

    /// Executes a job of a thread that runs no elements, while no element runs.
    fn perform_remotely(&mut self, out: &mut Outbox, job: &Job) -> Answer {
        self.perform(out, job).unwrap_or_else(|| Err(calling_itself()))
    }

    /// Begins, empties or ends a trace in this thread.
    fn obey(&mut self, out: &mut Outbox, order: Order) -> Vec<Event>;
}

/// Work for another thread.
pub(crate) type Command = Box<dyn FnOnce(&mut Outbox, &mut dyn CommandTarget) + Send>;

/// Of a handler that would take an element which is running, and waits for that very answer.
pub(crate) fn calling_itself() -> HandlerError {
    HandlerError::refused("the element is calling itself")
}
