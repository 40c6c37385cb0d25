//! One thread's elements, and the engine's services for them while they run.

use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use thruway_element::{
    Backlog, Buffer, Connections, Cx, Element, HandlerError, Host, LogSink, Origin, Probed,
    PullFrom, Purpose, Remote, Spec, Storage, Streams, Transfer, Visit, Wires,
};
use thruway_packet::{Batch, Packet, cycles};

use crate::build::Elements;
use crate::command::CommandTarget;
use crate::control::Control;
use crate::figures::{self, ThreadFigures};
use crate::layout::Layout;
use crate::remote;
use crate::rings::Handoffs;
use crate::signals::Taker;
use crate::timers::Timers;
use crate::trace::Tracer;

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

/// One thread's share of a router, besides the wires.
pub struct Core {
    pub(crate) layout: Arc<Layout>,
    pub(crate) control: Arc<Control>,
    pub(crate) thread: usize,
    /// `None` while an element runs, and for elements that this thread does not reach.
    pub(crate) elements: Elements,
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
    takers: Vec<Vec<usize>>,
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
        elements: Elements,
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
    pub(crate) fn meter(&mut self, wires: &Wires, node: u32) -> u32 {
        if self.weight == 0 {
            return IDLE;
        }
        let now = cycles();
        let ran = self.meter.node;
        if let Some(stats) = wires.stats.get(ran as usize) {
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
        wires: &mut Wires,
        node: u32,
        f: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> T,
    ) -> Option<T> {
        let mut element = self.elements.get_mut(node as usize)?.take()?;
        let result = f(&mut *element, &mut Cx::new(node, wires, self));
        self.elements[node as usize] = Some(element);
        Some(result)
    }

    /// Notifies functions of the end of sessions that they had opened.
    #[cold]
    pub(crate) fn notify_functions(&mut self, wires: &mut Wires) {
        let mut state = std::mem::take(&mut self.ended_state);
        while let Some(ended) = wires.flows.as_ref().and_then(|flows| flows.next_ended()) {
            for nth in 0.. {
                let flows = wires.flows.as_ref();
                let node = flows.and_then(|flows| flows.end_report(&ended, nth, &mut state));
                let Some(node) = node else { break };
                let Some(entry) = self.layout.entries[node as usize] else { continue };
                self.with(wires, node, |element, cx| {
                    if let Some(function) = entry.session_function_mut(element) {
                        function.closed(cx, &state, ended.why);
                    }
                });
            }
            if let Some(flows) = &mut wires.flows {
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
        wires: &mut Wires,
        from: PullFrom,
        max: usize,
        batch: &mut Batch,
    ) {
        let puller = self.meter(wires, from.node);
        let outer = std::mem::take(&mut wires.returned);
        self.with(wires, from.node, |element, cx| {
            element.pull(cx, from.port as usize, max, batch);
        });
        let mut sent = std::mem::replace(&mut wires.returned, outer);
        if !sent.is_empty() {
            // The element's explicit sends come before the packets that it left in the batch.
            sent.append(batch);
            std::mem::swap(&mut sent, batch);
        }
        if wires.inputs(from.node) == 0 {
            wires.stats[from.node as usize].packets.add(batch.len() as u64);
        }
        self.meter(wires, puller);
    }
}

impl Host for Core {
    #[inline]
    fn pull(&mut self, wires: &mut Wires, from: PullFrom, max: usize, batch: &mut Batch) {
        if self.tracer.is_some() {
            return self.pull_traced(wires, from, max, batch);
        }
        self.pull_plain(wires, from, max, batch);
    }

    #[inline]
    fn visit(&mut self, wires: &mut Wires, node: u32, visit: &mut Visit<'_>) {
        self.with(wires, node, |element, cx| {
            visit(element, cx);
        });
    }

    fn probe(
        &mut self,
        wires: &mut Wires,
        node: u32,
        packet: Packet,
        stands_for: [u64; 2],
    ) -> Probed {
        self.send_probe(wires, node, packet, stands_for)
    }

    fn notify_ended(&mut self, wires: &mut Wires) {
        self.notify_functions(wires);
    }

    fn transfer(&mut self, wires: &mut Wires, node: u32, transfer: &mut Transfer<'_>) {
        let Some(entry) = self.layout.entries[node as usize] else { return };
        self.with(wires, node, |element, _| {
            entry.session_transfer_mut(element).into_iter().for_each(transfer);
        });
    }

    fn connections(&mut self, wires: &mut Wires, node: u32, visit: &mut Connections<'_>) {
        let Some(entry) = self.layout.entries[node as usize] else { return };
        self.with(wires, node, |element, _| {
            entry.connection_transfer_mut(element).into_iter().for_each(visit);
        });
    }

    fn streams(&mut self, wires: &mut Wires, node: u32, visit: &mut Streams<'_>) {
        let Some(entry) = self.layout.entries[node as usize] else { return };
        self.with(wires, node, |element, _| {
            entry.stream_transfer_mut(element).into_iter().for_each(visit);
        });
    }

    fn is_in_stream(&self, node: u32) -> bool {
        let Some(entry) = self.layout.entries.get(node as usize).copied().flatten() else {
            return false;
        };
        let is_edge =
            matches!(entry.spec.purpose, Purpose::BeginContext(_) | Purpose::EndContext(_));
        let element = self.elements.get(node as usize).and_then(|element| element.as_deref());
        let member = element.and_then(|element| entry.stream_member(element));
        is_edge || member.is_some_and(|member| member.needs().is_some())
    }

    fn set_timer(&mut self, node: u32, token: u32, at: i64) {
        if !self.layout.parked[node as usize] {
            self.timers.set(node, token, at);
        }
    }

    fn clear_timer(&mut self, node: u32, token: u32) {
        self.timers.clear(node, token);
    }

    #[inline]
    fn handoff(&mut self, node: u32, thread: usize, batch: &mut Batch) -> usize {
        debug_assert!(
            self.layout.graph.elements[node as usize].spec.threading.hands_off(),
            "declared"
        );
        let handed = self.handoffs.put(node, thread, batch);
        self.control.mailbox(thread).wake();
        handed
    }

    fn handing(&self) -> usize {
        Core::handing(self)
    }

    fn threads(&self, node: u32) -> &[usize] {
        &self.layout.threads[node as usize]
    }

    fn home(&self, node: u32) -> usize {
        self.layout.home[node as usize]
    }

    #[inline]
    fn wake_takers(&mut self, node: u32) {
        let takers = self.takers[node as usize].iter();
        takers.for_each(|thread| self.control.mailbox(*thread).wake());
    }

    fn wake(&mut self, thread: usize) {
        self.control.mailbox(thread).wake();
    }

    fn watch(&mut self, key: RawFd, fd: Option<OwnedFd>) {
        self.fds.retain(|(watched, _)| *watched != key);
        self.fds.extend(fd.map(|fd| (key, fd)));
    }

    fn read(&mut self, wires: &mut Wires, node: u32, call: &str) -> Result<String, HandlerError> {
        self.read_from(wires, node, call)
    }

    fn write(
        &mut self,
        wires: &mut Wires,
        node: u32,
        call: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.write_from(wires, node, call, value)
    }

    fn write_later(&mut self, node: u32, call: String, value: String) {
        let origin = self.origin.clone();
        self.later.push(Later { node, call, value, origin });
    }

    fn stop(&mut self) {
        self.control.stop();
    }

    fn pending_stops(&mut self, take: bool) -> u32 {
        self.control.pending_stops(take)
    }

    fn manage_stops(&mut self, node: u32, on: bool) -> Result<(), String> {
        self.control.manage(node, on).map_err(|other| {
            let name = self.layout.graph.elements.get(other as usize).map_or("", |decl| &decl.name);
            format!("'{name}' decides about stops already; only one element can")
        })
    }

    fn take_signal(&mut self, node: u32, signal: i32) -> Result<(), String> {
        self.control.takers().take(Taker { signal, thread: self.thread, node })
    }

    fn raise(&mut self, signal: i32) -> bool {
        self.control.signal(signal)
    }

    fn log(&mut self, line: &str) {
        self.control.log(line);
    }

    fn report(&mut self, call: String, error: HandlerError) {
        self.report_failure(call, error);
    }

    fn add_log_sink(&mut self, sink: LogSink) {
        self.control.add_log_sink(sink);
    }

    fn origin(&self) -> Origin {
        self.origin.clone()
    }

    fn set_origin(&mut self, origin: Origin) -> Origin {
        std::mem::replace(&mut self.origin, origin)
    }

    fn remote(&self, node: u32) -> Option<Arc<dyn Remote>> {
        Some(remote::of(&self.layout, &self.control, node))
    }

    fn find(&self, node: u32, name: &str) -> Option<u32> {
        self.layout.find_from(node as usize, name).map(|found| found as u32)
    }

    fn describe(&self, node: u32) -> Option<(&str, &str)> {
        let decl = self.layout.graph.elements.get(node as usize)?;
        Some((&decl.name, &decl.class))
    }

    fn spec(&self, node: u32) -> Option<&'static Spec> {
        Some(&self.layout.entries.get(node as usize)?.as_ref()?.spec)
    }

    fn storage(&self, node: u32) -> Option<Storage> {
        let element = self.elements.get(node as usize)?.as_deref()?;
        let buffer = self.layout.entries[node as usize]?.buffer(element);
        buffer.and_then(Buffer::storage).or_else(|| self.handoffs.storage(node))
    }

    fn backlog(&self, node: u32) -> Option<Backlog> {
        if let Some(Storage { len, capacity }) = self.handoffs.storage(node) {
            return Some(Backlog { packets: len, accepts: len < capacity });
        }
        let element = self.elements.get(node as usize)?.as_deref()?;
        let buffer = self.layout.entries[node as usize]?.buffer(element)?;
        Some(Backlog { packets: buffer.holding(), accepts: buffer.accepts() })
    }

    fn session_mover(
        &mut self,
        node: u32,
        visit: &mut dyn FnMut(&mut dyn thruway_element::SessionMover),
    ) {
        let Some(Some(entry)) = self.layout.entries.get(node as usize) else { return };
        let element = self.elements.get_mut(node as usize).and_then(Option::as_deref_mut);
        if let Some(mover) = element.and_then(|element| entry.session_mover_mut(element)) {
            visit(mover);
        }
    }

    fn burst(&self) -> usize {
        self.burst
    }
}
