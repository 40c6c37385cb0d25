//! One thread: rounds of timers, tasks and dispatch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thruway_element::{Ended, Outbox, Run};
use thruway_packet::{Batch, MAX_BATCH};

use crate::away::{Away, NO_ELEMENT, Piece};
use crate::clock::Time;
use crate::command::CommandTarget;
use crate::core::{Core, IDLE, Later, pass_rest};
use crate::patience::Idle;
use crate::rest::{OnTime, Rest};

/// Dispatches before a drain checks for a stop and for commands: a loop of the graph may never end.
/// Some milliseconds' work at most.
const LOOK_UP: u32 = 4096;
/// Longest wait of a stop for packets in flight.
const DRAIN_MAX: Duration = Duration::from_secs(1);
/// Rounds without work after which no packet is in flight: other threads may still hand off.
const DRAIN_ROUNDS: u32 = 3;

/// A task and when it wants to run.
#[derive(Debug)]
struct Task {
    node: u32,
    /// Not before this time.
    at: i64,
}

/// One thread's graph and its state.
pub(crate) struct Engine {
    pub out: Outbox,
    pub core: Core,
    tasks: Vec<Task>,
    pub(crate) time: Time,
    pub(crate) rest: Rest,
    /// When figures are to be published next.
    pub(crate) publish_at: i64,
    /// Since when it is stopping, and whether it has said that it is done.
    stopping: Option<Instant>,
    drained: bool,
    pub(crate) away: Away,
    /// Packets in flight, rotated through the slots so that no batch is allocated twice.
    pub(crate) batch: Batch,
}

impl Engine {
    pub fn new(out: Outbox, core: Core, time: Time, idle: Idle) -> Engine {
        let runs = |node: &usize| core.layout.runs_task(*node, core.thread);
        let nodes = 0..core.layout.graph.elements.len();
        let tasks = nodes.filter(runs).map(|node| Task { node: node as u32, at: 0 }).collect();
        Engine {
            out,
            core,
            tasks,
            time,
            rest: Rest::new(idle),
            publish_at: i64::MIN,
            stopping: None,
            drained: false,
            away: Away::new(),
            batch: Batch::with_room(),
        }
    }

    /// Rounds until the stop.
    pub fn run(&mut self) {
        (self.stopping, self.drained) = (None, false);
        let control = Arc::clone(&self.core.control);
        let _on_time = (!self.time.is_simulated()).then(OnTime::new);
        self.away.begin();
        while !control.halted() {
            let worked = self.round();
            self.away.end_round(&control.mailbox(self.core.thread).gaps);
            if control.halted() {
                break;
            }
            if control.is_stopping() {
                self.look_whether_drained(worked);
            }
            if worked {
                self.go_on();
            } else {
                self.rest();
            }
        }
        self.go_on();
        // If the first taker of a signal requests a stop, the other takers still get the signal.
        self.run_commands();
    }

    /// Runs the queued commands. Returns whether there were any.
    fn run_commands(&mut self) -> bool {
        let waits = self.core.control.mailbox(self.core.thread).waiting();
        if waits {
            self.core.called = NO_ELEMENT;
            self.core.serve(&mut self.out);
            self.drain();
            self.away.did(Piece::Command, self.core.called);
        }
        waits
    }

    /// While stopping: reports when no packet is in flight any more, or draining takes too long.
    fn look_whether_drained(&mut self, worked: bool) {
        let since = *self.stopping.get_or_insert_with(Instant::now);
        let late = since.elapsed() >= DRAIN_MAX;
        let holds = || self.core.holds();
        let hands = || self.core.handing() > 0;
        let done = !worked && self.rest.rounds >= DRAIN_ROUNDS && !hands() && !holds();
        if (late || done) && !std::mem::replace(&mut self.drained, true) {
            self.core.control.drained();
        }
    }

    /// When the next timer or task wants to run, if not at once.
    pub(crate) fn next_event(&self) -> Option<i64> {
        let tasks = self.tasks.iter().map(|task| task.at).filter(|at| *at > self.out.now());
        tasks.chain(self.core.timers.next()).min()
    }

    /// One round: mail, timers, tasks. Says whether anything was done.
    fn round(&mut self) -> bool {
        self.tick();
        if self.out.now() >= self.publish_at {
            self.publish();
        }
        let mut worked = self.run_commands();
        worked |= self.sweep_sessions();
        worked |= self.take_handed();
        worked |= self.run_timers();
        for at in 0..self.tasks.len() {
            if self.tasks[at].at <= self.out.now() {
                worked |= self.run_task(at);
                self.away.did(Piece::Task, self.tasks[at].node);
                if self.core.control.halted() {
                    break;
                }
            }
        }
        worked
    }

    /// Ends some of the expired sessions; returns whether there were any: then more may follow.
    #[inline]
    fn sweep_sessions(&mut self) -> bool {
        let Some(flows) = &mut self.core.flows else { return false };
        flows.sweep(self.out.now());
        let has_ended = flows.next_ended().is_some();
        if has_ended {
            self.core.notify_functions(&mut self.out);
        }
        self.away.did(Piece::Sessions, NO_ELEMENT);
        has_ended
    }

    /// Ends all sessions.
    pub(crate) fn end_sessions(&mut self) {
        while self.core.flows.as_mut().is_some_and(|flows| flows.end_some(Ended::Removed)) {
            self.core.notify_functions(&mut self.out);
        }
    }

    /// Notifies functions of sessions that ended while packets of theirs waited.
    pub(crate) fn let_sessions_go(&mut self) {
        self.core.flows.iter_mut().for_each(|flows| flows.let_all_go());
        self.core.notify_functions(&mut self.out);
    }

    /// Reads the clock.
    fn tick(&mut self) {
        self.out.set_now(self.time.tick(self.out.now(), self.rest.rounds > 0));
        self.time.publish(&self.core.control.mailbox(self.core.thread).clock);
    }

    /// Continues the clock of the engine that this one replaces: time does not go back.
    pub(crate) fn take_time(&mut self, old: &mut Engine) {
        std::mem::swap(&mut self.time, &mut old.time);
        self.out.set_now(self.time.read(self.out.now().max(old.out.now())));
    }

    /// Begins not before this time.
    pub(crate) fn begin_after(&mut self, now: i64) {
        self.out.set_now(self.time.read(self.out.now().max(now)));
    }

    fn run_timers(&mut self) -> bool {
        let mut worked = false;
        let mut left = LOOK_UP;
        while let Some(timer) = self.core.timers.pop_due(self.out.now()) {
            worked = true;
            left -= 1;
            if left == 0 {
                // Timers may set each other without end, too.
                self.look_up();
                self.drain();
                left = LOOK_UP;
            }
            self.core.sample();
            self.core.meter(&self.out, timer.node);
            let traced = self.trace_begins(timer.node);
            self.core.with(&mut self.out, timer.node, |element, cx| {
                element.timer(cx, timer.token);
            });
            if traced {
                self.core.trace_made(&mut self.out, timer.node);
            }
            self.count_made(timer.node);
            self.drain();
            self.away.did(Piece::Timer, timer.node);
            if self.core.control.halted() {
                break;
            }
        }
        worked
    }

    fn run_task(&mut self, at: usize) -> bool {
        let node = self.tasks[at].node;
        self.core.sample();
        self.core.meter(&self.out, node);
        let traced = self.trace_begins(node);
        let result = self.core.with(&mut self.out, node, |element, cx| element.run(cx));
        if traced {
            self.core.trace_made(&mut self.out, node);
        }
        let made = self.count_made(node);
        self.drain();
        self.tasks[at].at = match result {
            Some(Run::At(time)) => time,
            _ => 0,
        };
        self.core.scheduled[node as usize] = !matches!(result, Some(Run::Idle));
        result == Some(Run::Again) || made
    }

    /// Whether someone traces while a task or timer runs.
    #[inline]
    pub(crate) fn trace_begins(&mut self, node: u32) -> bool {
        let traced = self.core.tracer.is_some();
        if traced {
            self.core.trace_enter(&self.out, node);
        }
        traced
    }

    /// Counts the packets that a source's task or timer emitted; packets that others emit were
    /// counted when they came. Returns whether there were any packets.
    fn count_made(&mut self, node: u32) -> bool {
        let emitted = self.out.emitted();
        if emitted > 0 && self.core.wires.inputs(node) == 0 {
            let stats = self.out.counters(node);
            stats.packets.add(u64::from(emitted));
            stats.batches.add(1);
        }
        emitted > 0
    }

    /// Dispatches until no packet is in flight.
    pub(crate) fn drain(&mut self) {
        self.call_later();
        if self.out.emitted() == 1 {
            self.drain_single();
        } else if self.out.emitted() > 1 {
            self.drain_vectors();
        }
        self.out.set_emitted(0);
        self.core.meter(&self.out, IDLE);
    }

    /// Does the handler calls that waited for the running element to return: before the packets
    /// that it sent arrive, as if it had called them itself.
    #[inline]
    fn call_later(&mut self) {
        if !self.core.later.is_empty() {
            self.call_all();
        }
    }

    #[cold]
    fn call_all(&mut self) {
        for Later { node, call, value, origin } in std::mem::take(&mut self.core.later) {
            let before = std::mem::replace(&mut self.core.origin, origin);
            if let Err(error) = self.core.write_from(&mut self.out, node, &call, &value) {
                self.core.report_failure(format!("{call}:"), error);
            }
            self.core.origin = before;
        }
    }

    /// Vectors: the lowest ready slot first, so that paths that join make one batch.
    fn drain_vectors(&mut self) {
        let mut left = LOOK_UP;
        while let Some(slot) = self.out.next_ready() {
            self.out.take(slot, &mut self.batch);
            if self.batch.len() > MAX_BATCH {
                self.dispatch_in_parts(slot);
            } else {
                self.dispatch(slot);
            }
            left -= 1;
            if left == 0 {
                if self.look_up() {
                    return;
                }
                left = LOOK_UP;
            }
        }
    }

    /// In the midst of a long round, while no element runs: runs the queued commands, so that a
    /// round without end starves no outside caller. Returns whether the thread must end.
    #[cold]
    fn look_up(&mut self) -> bool {
        if self.core.control.mailbox(self.core.thread).waiting() {
            let sent = self.out.log().len();
            self.core.serve(&mut self.out);
            self.call_later();
            // Sent first goes first: the log is a stack.
            self.out.log_mut()[sent..].reverse();
        }
        if self.core.control.is_stopping() {
            self.look_whether_drained(true);
        }
        self.core.control.halted()
    }

    /// An element multiplied packets beyond a batch: cuts it.
    #[cold]
    fn dispatch_in_parts(&mut self, slot: usize) {
        let mut rest = std::mem::take(&mut self.batch);
        while !rest.is_empty() {
            self.batch.extend(rest.drain_front(MAX_BATCH));
            self.dispatch(slot);
        }
    }

    /// One packet: depth first, in the order of sending, as in Click.
    fn drain_single(&mut self) {
        if !self.out.begin_single() {
            return;
        }
        let mut left = LOOK_UP;
        while let Some((slot, packet)) = self.out.log_mut().pop() {
            let mark = self.out.log().len();
            self.batch.push(packet);
            self.dispatch(slot as usize);
            // Sent first goes first: the log is a stack.
            self.out.log_mut()[mark..].reverse();
            left -= 1;
            if left == 0 {
                if self.look_up() {
                    self.out.log_mut().clear();
                    break;
                }
                left = LOOK_UP;
            }
        }
        self.out.set_single(false);
    }

    /// Runs a slot's element on `self.batch`, and sends the packets that it left in it.
    #[inline]
    fn dispatch(&mut self, slot: usize) {
        if self.core.tracer.is_some() {
            return self.dispatch_traced(slot);
        }
        self.dispatch_plain(slot);
    }

    /// [`Engine::dispatch`] without an observer.
    #[inline]
    pub(crate) fn dispatch_plain(&mut self, slot: usize) {
        let at = self.core.wires.slots[slot];
        self.core.meter(&self.out, at.node);
        let stats = self.out.counters(at.node);
        stats.packets.add(self.batch.len() as u64);
        stats.batches.add(1);
        let batch = &mut self.batch;
        self.core.with(&mut self.out, at.node, |element, cx| {
            element.process(cx, at.port as usize, batch);
            pass_rest(cx, batch);
        });
        self.call_later();
    }
}
