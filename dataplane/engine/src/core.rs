//! One thread's elements, and the engine's services for them while they run.

use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use thruway_element::{Cx, Element, Entry, Origin, Outbox};
use thruway_flow::manager::Manager;
use thruway_packet::{Batch, cycles};

use crate::build::Elements;
use crate::control::Control;
use crate::figures::{self, ThreadFigures};
use crate::layout::Layout;
use crate::rings::Handoffs;
use crate::timers::Timers;
use crate::trace::Tracer;
use crate::wires::{PullFrom, Wires};

/// The owner of the cycles being counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meter {
    /// Cycle counter when `node` began.
    since: u64,
    /// Element index; `IDLE` for the engine itself.
    node: u32,
}

/// Pieces of work that are all measured, before sampling begins: short runs are measured exactly.
const SAMPLE_AFTER: u32 = 1024;
/// From then on one of so many is measured, and counts for all of them. A prime: tasks that take
/// turns have their measured turns, too.
///
/// PERF: reading the cycle counter takes some 20 cycles: at every dispatch that was 2 of 27 ns a
/// packet (perf annotate of `Engine::dispatch`, `bench path --case router-5/fits`).
const SAMPLE_EVERY: u32 = 17;

/// The engine's own cycles belong to no element.
pub(crate) const IDLE: u32 = u32::MAX;

/// A handler write that waits until no element is running.
pub(crate) struct Later {
    pub node: u32,
    pub call: String,
    pub value: String,
    pub origin: Origin,
}

/// One thread's share of a router, besides what its elements send.
pub struct Core {
    pub(crate) layout: Arc<Layout>,
    pub(crate) control: Arc<Control>,
    pub(crate) thread: usize,
    /// `None` while an element runs, and for elements that this thread does not reach.
    pub(crate) elements: Elements,
    /// The inputs of the elements, and which store packets.
    pub(crate) wires: Wires,
    /// The flow manager, where the configuration has one; taken out while it works.
    pub(crate) flows: Option<Box<Manager>>,
    pub(crate) timers: Timers,
    /// Descriptors that end a sleep, by the number that their element knows.
    pub(crate) fds: Vec<(RawFd, OwnedFd)>,
    /// Whether each element's task found something to do when it last ran.
    pub(crate) scheduled: Vec<bool>,
    /// What the elements publish.
    pub(crate) figures: ThreadFigures,
    /// Handler writes to be done once no element is running.
    pub(crate) later: Vec<Later>,
    /// The origin of the handler call that is running.
    pub(crate) origin: Origin,
    pub(crate) burst: usize,
    /// Per element: the other threads that take its stored packets.
    pub(crate) takers: Vec<Vec<usize>>,
    /// The rings to and from other threads.
    pub(crate) handoffs: Handoffs,
    pub(crate) meter: Meter,
    /// Follows packets, where someone traces.
    pub(crate) tracer: Option<Box<Tracer>>,
    /// A copy of the state of an ended session, passed to its function.
    ended_state: Vec<u8>,
    /// Pieces of work so far, and for how many the present one counts; 0 when it is not measured.
    works: u32,
    weight: u32,
    /// Element of the last handler command.
    pub(crate) called: u32,
}

/// Sends the packets that an element left in a batch by output 0, or frees them if there is none.
/// PERF: as a call it cost each dispatch 12 instructions (callgrind, `InfiniteSource -> Null ->
/// Discard`).
#[inline(always)]
pub(crate) fn pass_rest(cx: &mut Cx<'_>, batch: &mut Batch) {
    if batch.is_empty() {
        return;
    }
    if cx.outputs() > 0 {
        cx.emit_all(0, batch);
    } else {
        batch.clear();
    }
}

impl Core {
    pub(crate) fn new(
        layout: Arc<Layout>,
        control: Arc<Control>,
        thread: usize,
        (elements, wires): (Elements, Wires),
        burst: usize,
    ) -> Core {
        let takers = (0..layout.graph.elements.len()).map(|node| layout.takers(node, thread));
        let nodes = 0..layout.graph.elements.len();
        let scheduled = nodes.map(|node| layout.runs_task(node, thread)).collect();
        Core {
            takers: takers.collect(),
            figures: figures::of(&layout, &elements),
            handoffs: Handoffs::default(),
            layout,
            scheduled,
            control,
            thread,
            elements,
            wires,
            flows: None,
            timers: Timers::default(),
            fds: Vec::new(),
            later: Vec::new(),
            origin: None,
            burst,
            meter: Meter { since: 0, node: IDLE },
            tracer: None,
            ended_state: Vec::new(),
            works: 0,
            weight: 0,
            called: IDLE,
        }
    }

    /// Begins a piece of work (a task's or timer's run and all that follows from it): measured or
    /// not.
    #[inline]
    pub(crate) fn sample(&mut self) {
        self.works = self.works.wrapping_add(1);
        self.weight = match self.works {
            ..SAMPLE_AFTER => 1,
            n if n.is_multiple_of(SAMPLE_EVERY) => SAMPLE_EVERY,
            _ => 0,
        };
        if self.weight > 0 {
            self.meter = Meter { since: cycles(), node: IDLE };
        }
    }

    /// Charges the cycles since the last call to the element that ran, and switches to `node`;
    /// returns the previous one.
    #[inline]
    pub(crate) fn meter(&mut self, out: &Outbox, node: u32) -> u32 {
        if self.weight == 0 {
            return IDLE;
        }
        let now = cycles();
        let ran = self.meter.node;
        if let Some(stats) = out.stats().get(ran as usize) {
            let cycles = now.wrapping_sub(self.meter.since);
            stats.cycles.add(cycles.wrapping_mul(u64::from(self.weight)));
        }
        self.meter = Meter { since: now, node };
        ran
    }

    /// Runs `f` on an element of this thread; `None` if it is not here or already running.
    #[inline]
    pub(crate) fn with<T>(
        &mut self,
        out: &mut Outbox,
        node: u32,
        f: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> T,
    ) -> Option<T> {
        let mut element = self.elements.get_mut(node as usize)?.take()?;
        let result = f(&mut *element, &mut Cx::new(node, out, self));
        self.elements[node as usize] = Some(element);
        Some(result)
    }

    /// An element of this thread that is not running, and its entry.
    pub(crate) fn at_rest(&mut self, node: u32) -> Option<(&mut dyn Element, &'static Entry)> {
        let entry = (*self.layout.entries.get(node as usize)?)?;
        Some((&mut **self.elements.get_mut(node as usize)?.as_mut()?, entry))
    }

    /// Notifies functions of the end of sessions that they had opened.
    #[cold]
    pub(crate) fn notify_functions(&mut self, out: &mut Outbox) {
        let mut state = std::mem::take(&mut self.ended_state);
        while let Some(ended) = self.flows.as_ref().and_then(|flows| flows.next_ended()) {
            for nth in 0.. {
                let flows = self.flows.as_ref();
                let node = flows.and_then(|flows| flows.end_report(&ended, nth, &mut state));
                let Some(node) = node else { break };
                let Some(entry) = self.layout.entries[node as usize] else { continue };
                self.with(out, node, |element, cx| {
                    if let Some(function) = entry.session_function_mut(element) {
                        function.closed(cx, &state, ended.why);
                    }
                });
            }
            if let Some(flows) = &mut self.flows {
                flows.release(&ended);
            }
        }
        self.ended_state = state;
    }

    /// Whether an element of this thread keeps packets for later.
    pub(crate) fn holds(&self) -> bool {
        let entries = self.layout.entries.iter().copied();
        let mut all = self.elements.iter().map(Option::as_deref).zip(entries);
        all.any(|(element, entry)| {
            let buffer = element.zip(entry).and_then(|(element, entry)| entry.buffer(element));
            buffer.is_some_and(|buffer| buffer.holding() > 0)
        })
    }

    /// Pulls packets out of an output.
    #[inline]
    pub(crate) fn pull_plain(
        &mut self,
        out: &mut Outbox,
        from: PullFrom,
        max: usize,
        batch: &mut Batch,
    ) {
        let puller = self.meter(out, from.node);
        let outer = out.replace_returned(Batch::new());
        self.with(out, from.node, |element, cx| {
            element.pull(cx, from.port as usize, max, batch);
        });
        let mut sent = out.replace_returned(outer);
        if !sent.is_empty() {
            // The element's explicit sends come before the packets that it left in the batch.
            sent.append(batch);
            std::mem::swap(&mut sent, batch);
        }
        if self.wires.inputs(from.node) == 0 {
            out.counters(from.node).packets.add(batch.len() as u64);
        }
        self.meter(out, puller);
    }
}
