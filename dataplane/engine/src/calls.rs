//! Handler calls between elements, wherever these are: in this thread, in others, or in several.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thruway_element::{Access, Calls, HandlerError, Outbox};

use crate::call::Call;
use crate::command::{Command, CommandTarget, calling_itself};
use crate::control::CommandQueue;
use crate::core::Core;
use crate::handlers;
use crate::job::Job;
use crate::signals::Taker;
use crate::trace::{Event, Order, Scope};

/// How long a call waits for an element that waits for an answer itself.
const PATIENCE: Duration = Duration::from_secs(1);

impl CommandTarget for Core {
    fn signal(&mut self, out: &mut Outbox, taker: Taker) {
        let control = Arc::clone(&self.control);
        if control.takers().begin(taker) {
            if let Err(error) = self.write_local(out, taker.node as usize, "run", "") {
                let name = &self.layout.graph.elements[taker.node as usize].name;
                self.report_failure(format!("While calling '{name}.run':\n "), error);
            }
            control.takers().end(taker);
        }
    }

    fn read_from(
        &mut self,
        out: &mut Outbox,
        node: u32,
        call: &str,
    ) -> Result<String, HandlerError> {
        let layout = Arc::clone(&self.layout);
        let call = Call::parse(&layout, node as usize, call)?;
        let Some(target) = call.node else {
            if call.name == "trace" {
                let control = Arc::clone(&self.control);
                let place = Scope { layout: &layout, control: &control };
                return place.read(&mut |thread, order| self.trace(out, thread, order), call.param);
            }
            return handlers::read_global(&layout, &self.control, call.name);
        };
        let merge = handlers::merge_of(&layout, target, call.name);
        let job = Job::new(target, &call, (merge.one_speaks(), false), self.origin.clone());
        handlers::merge(merge, self.on_replicas(out, &job)?)
    }

    fn write_from(
        &mut self,
        out: &mut Outbox,
        node: u32,
        text: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let layout = Arc::clone(&self.layout);
        let call = Call::parse(&layout, node as usize, text)?;
        let Some(target) = call.node else {
            if call.name == "trace" {
                let value = if call.param.is_empty() { value } else { call.param };
                let control = Arc::clone(&self.control);
                let place = Scope { layout: &layout, control: &control };
                return place.write(&mut |thread, order| self.trace(out, thread, order), value);
            }
            return handlers::write_global(&self.control, call.name, value);
        };
        if target != node as usize && self.is_running(target) {
            self.write_later(node, text.to_owned(), value.to_owned());
            return Ok(());
        }
        // A parameter in a write call is part of the value: `write e.h x` is `e.h` with "x".
        let value = if call.param.is_empty() { value } else { call.param };
        let call = Call { param: value, ..call };
        let merge = handlers::merge_of(&layout, target, call.name);
        let job = Job::new(target, &call, (merge.one_is_written(), true), self.origin.clone());
        let answers = self.on_replicas(out, &job)?;
        answers.into_iter().collect::<Result<Vec<String>, HandlerError>>().map(|_| ())
    }

    fn perform(&mut self, out: &mut Outbox, job: &Job) -> Option<Result<String, HandlerError>> {
        self.called = job.node as u32;
        let before = std::mem::replace(&mut self.origin, job.origin.clone());
        if job.write
            && let Some(flows) = &mut self.flows
        {
            // The write may change the fate of sessions.
            flows.forget_short_cuts();
        }
        let answer = if job.write {
            let done = self.write_if_free(out, job.node, &job.name, &job.param);
            done.map(|done| done.map(|()| String::new()))
        } else {
            self.read_if_free(out, job.node, &job.name, &job.param)
        };
        self.origin = before;
        answer
    }

    fn obey(&mut self, out: &mut Outbox, order: Order) -> Vec<Event> {
        self.change_trace(out, order)
    }
}

impl Core {
    /// Runs the queued commands.
    pub(crate) fn serve(&mut self, out: &mut Outbox) {
        let control = Arc::clone(&self.control);
        let CommandQueue { between, calls } = control.mailbox(self.thread).take();
        for mail in calls.into_iter().chain(between) {
            mail(out, self);
        }
    }

    /// The same while an element waits: only calls that elements of other threads wait for.
    fn serve_calls(&mut self, out: &mut Outbox) {
        let control = Arc::clone(&self.control);
        for mail in control.mailbox(self.thread).take_calls() {
            mail(out, self);
        }
    }

    /// Informs the user of a call that failed, also where that is known later only.
    #[cold]
    pub(crate) fn report_failure(&self, call: String, error: HandlerError) {
        let later = match error {
            HandlerError::Later(later) => later,
            error => return self.control.log(&format!("{call} {error}")),
        };
        let control = Arc::clone(&self.control);
        later.then(move |answer| {
            if let Err(error) = answer {
                control.log(&format!("{call} {error}"));
            }
        });
    }

    /// Whether this thread's replica of an element is running.
    fn is_running(&self, node: usize) -> bool {
        self.elements[node].is_none() && self.layout.threads[node].contains(&self.thread)
    }

    /// Has every thread with a replica (or one of them) do the same, this thread first if it has
    /// one.
    fn on_replicas(
        &mut self,
        out: &mut Outbox,
        job: &Job,
    ) -> Result<Vec<Result<String, HandlerError>>, HandlerError> {
        let layout = Arc::clone(&self.layout);
        let threads = &layout.threads[job.node];
        let mut answers = Vec::new();
        if threads.contains(&self.thread) {
            answers.push(self.perform(out, job).unwrap_or_else(|| Err(calling_itself())));
        }
        let own = self.thread;
        for thread in threads.iter().filter(|thread| **thread != own) {
            if (job.one && !answers.is_empty()) || !self.control.running() {
                break;
            }
            answers.push(self.ask_replica(out, *thread, job));
        }
        if answers.is_empty() {
            return Err(HandlerError::refused("its thread is not running yet"));
        }
        Ok(answers)
    }

    /// Has another thread's replica do it. That may be running, and wait for an answer while its
    /// thread opens mail: then it does it afterwards. But it may also wait for us.
    fn ask_replica(
        &mut self,
        out: &mut Outbox,
        thread: usize,
        job: &Job,
    ) -> Result<String, HandlerError> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let job = job.clone();
            let answer = self.ask(out, thread, move |out, core| core.perform(out, &job))?;
            if let Some(answer) = answer {
                return answer;
            }
        }
        Err(calling_itself())
    }

    /// Has a thread do something about traces.
    fn trace(
        &mut self,
        out: &mut Outbox,
        thread: usize,
        order: Order,
    ) -> Result<Vec<Event>, HandlerError> {
        if thread == self.thread {
            return Ok(self.obey(out, order));
        }
        self.ask(out, thread, move |out, core| core.obey(out, order))
    }

    /// Has another thread do something and waits, serving own mail meanwhile: two threads that ask
    /// each other must both get their answer.
    fn ask<T: Send + 'static>(
        &mut self,
        out: &mut Outbox,
        thread: usize,
        work: impl FnOnce(&mut Outbox, &mut dyn CommandTarget) -> T + Send + 'static,
    ) -> Result<T, HandlerError> {
        let (reply, answer) = std::sync::mpsc::channel();
        let mail: Command = Box::new(move |out, core| {
            // The caller may have gone.
            let _ = reply.send(work(out, core));
        });
        self.control.mailbox(thread).send_call(mail);
        while self.control.running() && !self.control.mailbox(thread).is_left() {
            if let Ok(answer) = answer.recv_timeout(Duration::from_micros(200)) {
                return Ok(answer);
            }
            self.serve_calls(out);
        }
        Err(HandlerError::refused("the router is stopping"))
    }

    /// Reads a handler of this thread's replica.
    pub(crate) fn read_local(
        &mut self,
        out: &mut Outbox,
        node: usize,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        self.read_if_free(out, node, name, param).unwrap_or_else(|| Err(calling_itself()))
    }

    /// Writes a handler of this thread's replica.
    pub(crate) fn write_local(
        &mut self,
        out: &mut Outbox,
        node: usize,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.write_if_free(out, node, name, value).unwrap_or_else(|| Err(calling_itself()))
    }

    /// Reads; `None` when it would take the element, and that is running.
    fn read_if_free(
        &mut self,
        out: &mut Outbox,
        node: usize,
        name: &str,
        param: &str,
    ) -> Option<Result<String, HandlerError>> {
        let spec = self.layout.graph.elements[node].spec;
        let own = spec.handlers.iter().find(|handler| handler.name == name);
        if own.is_none_or(|handler| handler.access == Access::Write)
            && let Some(answer) = handlers::read_default(&self.layout, out, node, name)
        {
            return Some(Ok(answer));
        }
        if own.is_none() && name == "scheduled" {
            return Some(Ok(self.scheduled[node].to_string()));
        }
        if own.is_some_and(|handler| !handler.access.readable()) {
            return Some(Err(HandlerError::no_read(name)));
        }
        let entry = self.layout.entries[node]?;
        self.with(out, node as u32, |element, cx| entry.read(element, cx, name, param))
    }

    /// Writes; `None` when the element is running.
    fn write_if_free(
        &mut self,
        out: &mut Outbox,
        node: usize,
        name: &str,
        value: &str,
    ) -> Option<Result<(), HandlerError>> {
        let entry = self.layout.entries[node]?;
        self.with(out, node as u32, |element, cx| entry.write(element, cx, name, value))
    }
}
