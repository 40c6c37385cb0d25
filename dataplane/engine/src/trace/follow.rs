//! Where the engine looks for packets that are followed: at dispatch, at pulls, at tasks.

use thruway_element::{Outbox, Target};
use thruway_packet::{Batch, Packet};

use super::{Event, Order, Tracer};
use crate::core::Core;
use crate::engine::Engine;
use crate::wires::{PullFrom, Slot, Wires};

impl Core {
    /// Begins, empties or ends a trace in this thread.
    pub(crate) fn change_trace(&mut self, out: &mut Outbox, order: Order) -> Vec<Event> {
        match order {
            Order::Begin(watch) => {
                if let Some(flows) = &mut self.flows {
                    // Packets that take short cuts would not be seen.
                    flows.forget_short_cuts();
                }
                let base = out.pending().len();
                if self.wires.slots.len() == base {
                    // They stay: an element that is running may be about to look at them.
                    let outputs = (0..self.elements.len()).map(|node| out.outputs(node as u32));
                    let most = outputs.max().unwrap_or(0);
                    self.wires.slots.extend(vec![Slot { node: 0, port: 0 }; most]);
                }
                let begin = || Box::new(Tracer::new(base as u32));
                let tracer = self.tracer.get_or_insert_with(begin);
                tracer.begin(*watch);
                Vec::new()
            }
            Order::Take(bit, empty) => {
                self.tracer.as_mut().map_or(Vec::new(), |tracer| tracer.take(bit, empty))
            }
            Order::End(bit) => {
                if self.tracer.as_mut().is_some_and(|tracer| !tracer.end(bit)) {
                    self.tracer = None;
                }
                Vec::new()
            }
        }
    }

    /// An element is going to run.
    #[cold]
    pub(crate) fn trace_enter(&mut self, out: &Outbox, node: u32) {
        if let Some(tracer) = &mut self.tracer {
            tracer.enter(node, out.counters(node));
        }
    }

    /// A task or a timer has run: the packets in front of elements are its output.
    #[cold]
    pub(crate) fn trace_made(&mut self, out: &mut Outbox, node: u32) {
        let Some(tracer) = &mut self.tracer else { return };
        if self.wires.inputs(node) == 0 {
            for batch in out.pending_mut().iter_mut().filter(|batch| !batch.is_empty()) {
                batch.iter_mut().for_each(|packet| tracer.choose(packet, node, true));
            }
        }
        let out = &*out;
        let waiting = out.pending().iter().enumerate();
        let sent = waiting.flat_map(|(slot, batch)| {
            let port = port_to(out, node, slot as u32);
            port.into_iter().flat_map(|port| batch.iter().map(move |packet| (port, packet)))
        });
        tracer.leave(out.counters(node), false, sent);
    }

    /// [`Core::pull_plain`] of an output, watched.
    #[cold]
    pub(crate) fn pull_traced(
        &mut self,
        out: &mut Outbox,
        from: PullFrom,
        max: usize,
        batch: &mut Batch,
    ) {
        self.trace_enter(out, from.node);
        self.pull_plain(out, from, max, batch);
        let Some(tracer) = &mut self.tracer else { return };
        if self.wires.inputs(from.node) == 0 {
            batch.iter_mut().for_each(|packet| tracer.choose(packet, from.node, true));
        }
        let pushed = pushed(out, from.node, &tracer.inside());
        let pulled = batch.iter().map(|packet| (from.port, packet));
        tracer.leave(out.counters(from.node), false, pushed.into_iter().chain(pulled));
        // The puller is the element that made this call.
        let Some(puller) = tracer.running() else { return };
        let inputs = 0..self.wires.inputs(puller) as u32;
        let draws = |port: &u32| self.wires.source(puller, *port as usize) == Some(from);
        let port = inputs.into_iter().find(draws).unwrap_or(0);
        for packet in batch.iter_mut() {
            tracer.choose(packet, puller, false);
            tracer.came(puller, port, packet);
        }
    }
}

impl Engine {
    /// [`Engine::dispatch_plain`], with packets that are followed by themselves.
    #[cold]
    pub(crate) fn dispatch_traced(&mut self, slot: usize) {
        let at = self.core.wires.slots[slot];
        let Some(tracer) = &mut self.core.tracer else { return self.dispatch_plain(slot) };
        if tracer.is_over() {
            self.core.tracer = None;
            return self.dispatch_plain(slot);
        }
        self.batch.iter_mut().for_each(|packet| tracer.choose(packet, at.node, false));
        if !self.batch.iter().any(|packet| packet.is_marked()) {
            return self.dispatch_plain(slot);
        }
        let mut rest = std::mem::take(&mut self.batch);
        while let Some(first) = rest.iter().next() {
            if first.is_marked() {
                self.batch.extend(rest.drain_front(1));
                self.dispatch_alone(slot);
            } else {
                let plain = rest.iter().take_while(|packet| !packet.is_marked()).count();
                self.batch.extend(rest.drain_front(plain));
                self.dispatch_plain(slot);
            }
        }
    }

    /// Dispatches one marked packet, and looks what becomes of it.
    ///
    /// While its element runs, each of its outputs leads to a slot of its own and all that is sent
    /// goes to the log: so it is seen what left by which output, in order.
    fn dispatch_alone(&mut self, slot: usize) {
        let at = self.core.wires.slots[slot];
        let Some(tracer) = &mut self.core.tracer else { return self.dispatch_plain(slot) };
        let base = tracer.base;
        tracer.enter(at.node, self.out.counters(at.node));
        if let Some(packet) = self.batch.iter().next() {
            tracer.came(at.node, at.port, packet);
        }
        let targets = redirect((&mut self.core.wires, &mut self.out), at.node, base);
        let single = self.out.set_single(true);
        let from = self.out.log().len();
        self.dispatch_plain(slot);
        self.out.set_single(single);
        for (port, target) in targets.iter().enumerate() {
            self.out.redirect(at.node, port, *target);
        }
        let from = from.min(self.out.log().len());
        if let Some(tracer) = &mut self.core.tracer {
            let log = self.out.log()[from..].iter();
            let sent = log.filter_map(|(slot, packet)| Some((slot.checked_sub(base)?, packet)));
            tracer.leave(self.out.counters(at.node), true, sent);
        }
        // Where the outputs lead indeed.
        for (slot, _) in &mut self.out.log_mut()[from..] {
            let output = slot.checked_sub(base).and_then(|port| targets.get(port as usize));
            if let Some(Target::Slot(real)) = output {
                *slot = *real;
            }
        }
        if !single {
            for (slot, packet) in self.out.log_mut().split_off(from) {
                // A slot takes packets always.
                drop(self.out.send(Target::Slot(slot), packet));
            }
        }
    }
}

/// Lets each output of a node that pushes lead to a slot of its own, from `base` on; where they
/// led.
fn redirect((wires, out): (&mut Wires, &mut Outbox), node: u32, base: u32) -> Vec<Target> {
    let targets = out.targets(node).to_vec();
    for (port, target) in targets.iter().enumerate() {
        if let Target::Slot(slot) = target {
            let own = base + port as u32;
            wires.slots[own as usize] = wires.slots[*slot as usize];
            out.redirect(node, port, Target::Slot(own));
        }
    }
    targets
}

/// The first output of a node that leads to a slot.
fn port_to(out: &Outbox, node: u32, slot: u32) -> Option<u32> {
    let mut ports = 0..out.outputs(node);
    let found = ports.find(|port| out.target(node, *port) == Target::Slot(slot));
    found.map(|port| port as u32)
}

/// Packets of `came` that an element pushed while it was pulled, and by which output.
fn pushed<'a>(out: &'a Outbox, node: u32, came: &[u64]) -> Vec<(u32, &'a Packet)> {
    let pending = out.pending().iter().enumerate();
    let waiting = pending.flat_map(|(slot, batch)| batch.iter().map(move |one| (slot as u32, one)));
    let logged = out.log().iter().map(|(slot, packet)| (*slot, packet));
    let its = waiting
        .chain(logged)
        .filter(|(_, packet)| packet.mark().is_some_and(|mark| came.contains(&mark.packet())));
    its.filter_map(|(slot, packet)| Some((port_to(out, node, slot)?, packet))).collect()
}
