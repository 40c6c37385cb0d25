//! Handler calls from threads that run no elements: queued as commands, answered when the threads
//! get round to it, without a wait here.
//!
//! Queries about the router itself (its configuration, its counters) are answered at once,
//! independently of its threads.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use thruway_element::{
    HandlerError, Merge, Origin, Pending, Progress, Ready, Remote, RemoteCall, Spec,
};
use thruway_sync::atomic::{AtomicBool, Ordering};

use crate::call::Call;
use crate::command::{Command, CommandTarget};
use crate::control::Control;
use crate::handlers;
use crate::job::Job;
use crate::layout::Layout;

/// The handlers of a router as seen from an element.
pub(crate) fn of(layout: &Arc<Layout>, control: &Arc<Control>, from: u32) -> Arc<dyn Remote> {
    let (layout, control) = (Arc::clone(layout), Arc::clone(control));
    Arc::new(Handlers { layout, control, from: from as usize })
}

struct Handlers {
    layout: Arc<Layout>,
    control: Arc<Control>,
    from: usize,
}

type Reply = Result<String, HandlerError>;

/// The task of one thread.
type Share = Box<dyn FnOnce(&mut thruway_element::Outbox, &mut dyn CommandTarget) -> Reply + Send>;

impl Handlers {
    fn answer(&self, call: &RemoteCall, ready: &Ready) -> Result<Box<dyn Pending>, HandlerError> {
        let whole = match (call.write, call.text.is_empty()) {
            (false, false) => format!("{} {}", call.path, call.text),
            _ => call.path.clone(),
        };
        let parsed = Call::parse(&self.layout, self.from, &whole)?;
        let parsed = if call.write { Call { param: &call.text, ..parsed } } else { parsed };
        let Some(node) = parsed.node else { return self.global(&parsed, call, ready) };
        self.permit(&parsed, call)?;
        let merge = handlers::merge_of(&self.layout, node, parsed.name);
        let one = if call.write { merge.one_is_written() } else { merge.one_speaks() };
        let origin = Some(Arc::clone(&call.outside));
        let threads = &self.layout.threads[node];
        let threads = if one { threads.get(..1).unwrap_or(&[]) } else { threads };
        let shares = threads.iter().map(|thread| {
            let job = Job::new(node, &parsed, (one, call.write), Origin::clone(&origin));
            let share: Share = Box::new(move |out, core| core.perform_remotely(out, &job));
            self.send(*thread, share, ready)
        });
        let shares: Vec<Sent> = shares.collect();
        if shares.is_empty() {
            return Err(HandlerError::refused("no thread runs it"));
        }
        Ok(InProgress::of(shares, merge, call.write, ready))
    }

    /// Refuses a read with side effects to callers that may only read.
    fn permit(&self, parsed: &Call<'_>, call: &RemoteCall) -> Result<(), HandlerError> {
        let effect = match parsed.node {
            Some(node) => {
                let spec = self.layout.graph.elements[node].spec;
                spec.handler(parsed.name).is_some_and(|handler| handler.effect)
            }
            None => handlers::global_has_effect(parsed),
        };
        if call.outside.read_only && (call.write || effect) {
            return Err(HandlerError::refused(format!(
                "'{}' changes something, and this connection may only read",
                call.path
            )));
        }
        Ok(())
    }

    fn global(
        &self,
        parsed: &Call<'_>,
        call: &RemoteCall,
        ready: &Ready,
    ) -> Result<Box<dyn Pending>, HandlerError> {
        self.permit(parsed, call)?;
        if parsed.name == "trace" {
            let (path, text, write) = (call.path.clone(), call.text.clone(), call.write);
            let share: Share = Box::new(move |out, core| match write {
                true => core.write_from(out, 0, &path, &text).map(|()| String::new()),
                false => core.read_from(out, 0, &format!("{path} {text}")),
            });
            let shares = vec![self.send(0, share, ready)];
            return Ok(InProgress::of(shares, Merge::First, write, ready));
        }
        let answer = match call.write {
            true => handlers::write_global(&self.control, parsed.name, parsed.param)
                .map(|()| String::new()),
            false => handlers::read_global(&self.layout, &self.control, parsed.name),
        };
        answer.map(|text| Box::new(At(Some(Ok(text)))) as Box<dyn Pending>)
    }

    /// Leaves a thread its share.
    fn send(&self, thread: usize, share: Share, ready: &Ready) -> Sent {
        let (reply, answer): (Sender<Reply>, Receiver<Reply>) = channel();
        let taken = Arc::new(AtomicBool::new(false));
        let (theirs, ready) = (Arc::clone(&taken), Arc::clone(ready));
        let mail: Command = Box::new(move |out, core| {
            // AcqRel: either the thread begins the call or the caller cancels it first.
            if !theirs.swap(true, Ordering::AcqRel) {
                // The caller may have gone.
                let _ = reply.send(share(out, core));
                ready();
            }
        });
        self.control.mailbox(thread).send(mail);
        Sent { answer, taken, control: Arc::clone(&self.control), thread }
    }
}

impl Remote for Handlers {
    fn find(&self, name: &str) -> Option<u32> {
        if self.layout.graph.elements.is_empty() {
            return None;
        }
        self.layout.find_from(self.from, name).map(|found| found as u32)
    }

    fn describe(&self, node: u32) -> Option<(String, String)> {
        let decl = self.layout.graph.elements.get(node as usize)?;
        Some((decl.name.clone(), decl.class.clone()))
    }

    fn spec(&self, node: u32) -> Option<&'static Spec> {
        Some(&self.layout.entries.get(node as usize)?.as_ref()?.spec)
    }

    fn begin(&self, call: &RemoteCall, ready: &Ready) -> Box<dyn Pending> {
        self.answer(call, ready).unwrap_or_else(|error| Box::new(At(Some(Err(error)))))
    }

    fn is_running(&self) -> bool {
        self.control.running()
    }

    fn when_running(&self, ready: &Ready) {
        self.control.when_running(ready);
    }

    fn log(&self, line: &str) {
        self.control.log(line);
    }

    fn stop(&self) {
        self.control.stop();
    }
}

/// An answer that was there at once.
struct At(Option<Reply>);

impl Pending for At {
    fn poll(&mut self) -> Progress {
        self.0.take().map_or(Progress::Gone, Progress::Done)
    }
}

/// The request to one thread.
struct Sent {
    answer: Receiver<Reply>,
    /// The thread has begun it, or it was called off.
    taken: Arc<AtomicBool>,
    control: Arc<Control>,
    thread: usize,
}

impl Sent {
    /// The answer; an error if it is still pending (true) or will never come.
    fn poll(&self) -> Result<Reply, bool> {
        // First whether the thread ended: all its answers before that are there by now.
        let left = self.control.mailbox(self.thread).is_left();
        match self.answer.try_recv() {
            Ok(reply) => Ok(reply),
            Err(TryRecvError::Disconnected) => Err(false),
            // Ended without having begun it.
            Err(TryRecvError::Empty) if left => Err(self.taken.swap(true, Ordering::AcqRel)),
            Err(TryRecvError::Empty) => Err(true),
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        // AcqRel: as in the mail.
        self.taken.swap(true, Ordering::AcqRel);
    }
}

/// An answer that threads are to give, in the order of the threads.
struct InProgress {
    shares: Vec<Sent>,
    answers: Vec<Reply>,
    merge: Merge,
    write: bool,
    ready: Ready,
}

impl InProgress {
    fn of(shares: Vec<Sent>, merge: Merge, write: bool, ready: &Ready) -> Box<dyn Pending> {
        let (answers, ready) = (Vec::new(), Arc::clone(ready));
        Box::new(InProgress { shares, answers, merge, write, ready })
    }

    /// Takes the answer of a thread; for a delayed answer, the notice of its arrival.
    fn push(&mut self, reply: Reply) {
        if let Err(HandlerError::Later(later)) = &reply {
            let ready = Arc::clone(&self.ready);
            later.then(move |_| ready());
        }
        self.answers.push(reply);
    }

    /// Whether all that comes later has come.
    fn is_whole(&mut self) -> bool {
        self.answers.iter_mut().all(|answer| {
            let Err(HandlerError::Later(later)) = answer else { return true };
            let Some(came) = later.get() else { return false };
            *answer = came;
            true
        })
    }
}

impl Pending for InProgress {
    fn poll(&mut self) -> Progress {
        while let Some(next) = self.shares.get(self.answers.len()) {
            match next.poll() {
                Ok(reply) => self.push(reply),
                Err(true) => return Progress::Waiting,
                // Where one thread did its share, the call cannot be made again.
                Err(false) if self.answers.is_empty() => return Progress::Gone,
                Err(false) => {
                    self.answers.push(Err(HandlerError::refused("the router is stopping")));
                }
            }
        }
        if !self.is_whole() {
            return Progress::Waiting;
        }
        let answers = std::mem::take(&mut self.answers);
        if self.write {
            let done = answers.into_iter().collect::<Result<Vec<String>, HandlerError>>();
            return Progress::Done(done.map(|_| String::new()));
        }
        Progress::Done(handlers::merge(self.merge, answers))
    }
}
