//! The threads of a run: each on its core, and the handling of its death.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::control::Control;
use crate::engine::Engine;
use crate::error::{BuildError, Stage};

/// Runs the engines until a stop, the first one in the calling thread, and returns them with the
/// causes of death of some of them: then all stop.
pub(crate) fn run(
    engines: Vec<Engine>,
    control: &Arc<Control>,
    cores: &[Option<usize>],
) -> (Vec<Engine>, Vec<BuildError>) {
    engines.iter().for_each(|engine| control.mailbox(engine.core.thread).enter());
    let core_of = |thread: usize| cores.get(thread).copied().flatten();
    let mut errors = Vec::new();
    let mut handles = Vec::new();
    let mut engines = engines.into_iter();
    let first = engines.next();
    for mut engine in engines {
        let thread = engine.core.thread;
        let core = core_of(thread);
        let spawned = std::thread::Builder::new().name(format!("thruway-{thread}"));
        let spawned = spawned.spawn(move || {
            let _ = pin(core);
            let death = watched(&mut engine);
            (engine, death)
        });
        match spawned {
            Ok(handle) => handles.push(handle),
            Err(error) => {
                control.mailbox(thread).leave();
                control.halt();
                let message = format!(
                    "cannot start thread {thread}: {error}; use fewer (-j), or raise the limits of \
                     memory (ulimit -v, ulimit -d) and of processes (ulimit -u)"
                );
                errors.push(BuildError::of_run(Stage::Run, message));
            }
        }
    }
    let mut done = Vec::new();
    if let Some(mut engine) = first {
        let before = pin(core_of(engine.core.thread));
        errors.extend(watched(&mut engine));
        done.push(engine);
        if let Some(cores) = before {
            // Threads that the caller starts later inherit its cores: those of a later
            // configuration, say. A refusal costs speed, not correctness.
            let _ = sched_setaffinity(None, &cores);
        }
    }
    for handle in handles {
        match handle.join() {
            Ok((engine, death)) => {
                done.push(engine);
                errors.extend(death);
            }
            // Elements' panics are caught where the engine is.
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    (done, errors)
}

/// Runs one engine thread; if an element panics, stops all threads and reports the element.
fn watched(engine: &mut Engine) -> Option<BuildError> {
    let control = Arc::clone(&engine.core.control);
    let thread = engine.core.thread;
    // The engine's state after a panic is only used to close it.
    let ended = catch_unwind(AssertUnwindSafe(|| engine.run()));
    // Releases all callers that wait for an answer of this thread.
    control.mailbox(thread).leave();
    let panic = ended.err()?;
    control.halt();
    let (node, chain) = running(engine);
    let message = format!(
        "thread {thread} died: {} ({chain}); all threads were stopped. This is a bug of the \
         element: please report it with what stands above",
        text_of(&*panic)
    );
    Some(BuildError { stage: Stage::Run, node, arg: None, message })
}

/// The element that ran when the thread died, and its chain of callers.
fn running(engine: &Engine) -> (Option<usize>, String) {
    let (layout, thread) = (&engine.core.layout, engine.core.thread);
    // While an element runs it is not in its place.
    let is_out = |node: &usize| {
        layout.threads[*node].contains(&thread) && engine.core.elements[*node].is_none()
    };
    let out: Vec<usize> = (0..layout.graph.elements.len()).filter(is_out).collect();
    let calls = layout.traversal().calls(&out);
    let names = calls.iter().rev().map(|node| layout.graph.elements[*node].name.as_str());
    match calls.last() {
        Some(last) => {
            (Some(*last), format!("in {}", names.collect::<Vec<_>>().join(", called by ")))
        }
        None => (None, "outside of any element".to_owned()),
    }
}

/// The message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.map_or("a panic without words".to_owned(), |text| format!("a panic, '{text}'"))
}

impl Engine {
    /// Lets every element flush and close. One that panics does not keep the others from it.
    pub(crate) fn finish(&mut self, errors: &mut Vec<BuildError>) {
        let thread = self.core.thread;
        let mut said = |node: Option<usize>, message: String| {
            errors.push(BuildError { stage: Stage::Finish, node, arg: None, message });
        };
        let end = || {
            self.close_short_cuts();
            self.end_sessions();
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(end)) {
            said(None, format!("thread {thread}, while its sessions end: {}", text_of(&*panic)));
        }
        self.drop_handed();
        for node in 0..self.core.layout.graph.elements.len() {
            let Engine { out, core, .. } = self;
            let close = || core.with(out, node as u32, |element, cx| element.finish(cx));
            match catch_unwind(AssertUnwindSafe(close)) {
                Ok(Some(Err(message))) => said(Some(node), message),
                Ok(_) => {}
                Err(panic) => said(Some(node), format!("in thread {thread}: {}", text_of(&*panic))),
            }
        }
    }
}

/// Binds the calling thread to this core. Returns the cores that it could use before.
fn pin(core: Option<usize>) -> Option<CpuSet> {
    let core = core?;
    let before = sched_getaffinity(None).ok()?;
    let mut set = CpuSet::new();
    set.set(core);
    // Not being pinned costs speed, not correctness.
    let _ = sched_setaffinity(None, &set);
    Some(before)
}
