//! Handler calls from threads that move no packets: those ask each replica's thread, and wait.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use thruway_element::{Answer, HandlerError, Outbox};

use crate::call::Call;
use crate::command::CommandTarget;
use crate::control::Control;
use crate::handlers;
use crate::job::Job;
use crate::layout::Layout;

/// How often it is looked whether the router still runs.
const LOOK: Duration = Duration::from_millis(50);

impl Control {
    /// Reads a handler of a running router: `element.handler param`. Waits for a delayed answer,
    /// while the threads of the router continue.
    ///
    /// # Errors
    /// As the handler's, or that the router is not running.
    pub fn read(&self, call: &str) -> Result<String, HandlerError> {
        let layout = self.layout().ok_or_else(not_running)?;
        let parsed = Call::parse(layout, 0, call)?;
        let Some(node) = parsed.node else {
            return match parsed.name {
                "trace" => {
                    let call = call.to_owned();
                    self.ask(0, move |out, core| core.read_from(out, 0, &call))?
                }
                name => handlers::read_global(layout, self, name),
            };
        };
        let merge = handlers::merge_of(layout, node, parsed.name);
        let job = Job::new(node, &parsed, (merge.one_speaks(), false), None);
        handlers::merge(merge, self.ask_replicas(layout, &job)?)
    }

    /// Writes a handler of a running router, likewise.
    ///
    /// # Errors
    /// As the handler's, or that the router is not running.
    pub fn write(&self, call: &str, value: &str) -> Result<(), HandlerError> {
        let layout = self.layout().ok_or_else(not_running)?;
        let parsed = Call::parse(layout, 0, call)?;
        let Some(node) = parsed.node else {
            return match parsed.name {
                "trace" => {
                    let (call, value) = (call.to_owned(), value.to_owned());
                    self.ask(0, move |out, core| core.write_from(out, 0, &call, &value))?
                }
                name => handlers::write_global(self, name, value),
            };
        };
        // A parameter in a write call is part of the value: `write e.h x` is `e.h` with "x".
        let param = if parsed.param.is_empty() { value } else { parsed.param };
        let parsed = Call { param, ..parsed };
        let merge = handlers::merge_of(layout, node, parsed.name);
        let job = Job::new(node, &parsed, (merge.one_is_written(), true), None);
        self.ask_replicas(layout, &job)?.into_iter().try_for_each(|done| done.map(drop))
    }

    /// Has every thread with a replica (or one of them) do the same; the caller, not one of the
    /// threads, waits for them.
    fn ask_replicas(&self, layout: &Layout, job: &Job) -> Result<Vec<Answer>, HandlerError> {
        let mut answers = Vec::new();
        for thread in &layout.threads[job.node] {
            let own = job.clone();
            // Between two rounds no element runs.
            let answer = self.ask(*thread, move |out, core| core.perform(out, &own))?;
            answers.push(handlers::awaited(answer.unwrap_or_else(|| Err(not_running()))));
            if job.one {
                break;
            }
        }
        if answers.is_empty() { Err(not_running()) } else { Ok(answers) }
    }

    /// Has a thread do something, and waits for the answer.
    fn ask<T: Send + 'static>(
        &self,
        thread: usize,
        work: impl FnOnce(&mut Outbox, &mut dyn CommandTarget) -> T + Send + 'static,
    ) -> Result<T, HandlerError> {
        let (reply, answer) = std::sync::mpsc::channel();
        self.mailbox(thread).send(Box::new(move |out, core| {
            // The caller may have gone.
            let _ = reply.send(work(out, core));
        }));
        while self.running() && !self.mailbox(thread).is_left() {
            match answer.recv_timeout(LOOK) {
                Ok(value) => return Ok(value),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Err(not_running())
    }
}

fn not_running() -> HandlerError {
    HandlerError::refused("the router is not running")
}
