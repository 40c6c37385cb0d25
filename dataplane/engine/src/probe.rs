//! A probe's path through the graph: on its own, and only through elements that permit a short cut
//! ([`thruway_element::ShortCut`]).

use thruway_element::{
    Outbox, PROBE_TAG, Probe, Probed, Purpose, SHORT_CUT_TIMER, ShortCut, Target,
};
use thruway_packet::{Batch, Packet};

use crate::core::{Core, pass_rest};
use crate::engine::Engine;

/// Limit of elements on a probe's path: paths may contain loops.
const STEPS_MAX: u32 = 1024;

/// Continuation of a probe at an element.
enum Next {
    /// There: that element.
    Here(u32, usize),
    /// Nowhere.
    Not,
}

/// Frees the probe among packets.
fn without_probe(batch: &mut Batch) {
    let mut rest = Batch::new();
    rest.extend(batch.drain().filter(|packet| packet.tag() != PROBE_TAG));
    std::mem::swap(batch, &mut rest);
}

impl Engine {
    /// Ends all short cuts, and has elements count the packets that took them: before sessions end
    /// or move to another configuration. Nothing runs.
    pub(crate) fn close_short_cuts(&mut self) {
        let Some(flows) = &mut self.core.flows else { return };
        if flows.short_cuts().is_none() {
            return;
        }
        flows.forget_short_cuts();
        for node in 0..self.core.layout.graph.elements.len() {
            if self.core.layout.graph.elements[node].spec.purpose == Purpose::ReceiveFromDevice {
                self.core.with(&mut self.out, node as u32, |element, cx| {
                    element.timer(cx, SHORT_CUT_TIMER);
                });
            }
        }
    }
}

impl Core {
    /// See [`thruway_element::Cx::probe`].
    pub(crate) fn send_probe(
        &mut self,
        out: &mut Outbox,
        node: u32,
        mut packet: Packet,
        stands_for: [u64; 2],
    ) -> Probed {
        let Target::Slot(slot) = out.target(node, 0) else { return Probed::Lost };
        if !out.is_quiet() || out.probe().is_some() || self.tracer.is_some() {
            return Probed::Lost;
        }
        packet.set_tag(PROBE_TAG);
        let emitted = out.emitted();
        out.replace_probe(Some(Box::new(Probe { stands_for, ..Probe::default() })));
        self.set_probing(true);
        // A slot takes packets always.
        drop(out.send(Target::Slot(slot), packet));
        let forbidden = self.follow_probe(out);
        self.set_probing(false);
        out.set_emitted(emitted);
        let probe = out.replace_probe(None).unwrap_or_default();
        match (forbidden, probe.spoiled, probe.end) {
            (Some(node), ..) => Probed::Forbidden(node),
            (None, Some(node), _) => Probed::Spoiled(node),
            (None, None, Some((packet, mut egress))) => {
                egress.mtu = egress.mtu.min(probe.len_max.unwrap_or(usize::MAX));
                Probed::Sent { packet, egress }
            }
            (None, None, None) => Probed::Lost,
        }
    }

    fn set_probing(&mut self, is_probing: bool) {
        if let Some(flows) = &mut self.flows {
            flows.set_probing(is_probing);
        }
    }

    /// Dispatches until no packet is in flight; returns the element that stops the probe, if one
    /// does.
    fn follow_probe(&mut self, out: &mut Outbox) -> Option<u32> {
        let mut batch = Batch::new();
        for _ in 0..STEPS_MAX {
            let slot = out.next_ready()?;
            batch.clear();
            out.take(slot, &mut batch);
            let at = self.wires.slots[slot];
            let is_probe = batch.iter().any(|packet| packet.tag() == PROBE_TAG);
            let place = match is_probe {
                true => self.next_after(at.node, at.port as usize),
                false => Next::Here(at.node, at.port as usize),
            };
            match place {
                Next::Here(node, port) => {
                    self.hand_probe(out, (node, port), is_probe, &mut batch);
                }
                Next::Not => {
                    without_probe(&mut batch);
                    self.hand_probe(out, (at.node, at.port as usize), false, &mut batch);
                    self.finish_others(out);
                    return Some(at.node);
                }
            }
        }
        // A loop: the remaining packets are dispatched as usual, without the probe.
        for pending in out.pending_mut() {
            without_probe(pending);
        }
        None
    }

    /// Dispatches packets that a probe caused (queries for addresses, say).
    fn finish_others(&mut self, out: &mut Outbox) {
        let mut batch = Batch::new();
        for _ in 0..STEPS_MAX {
            let Some(slot) = out.next_ready() else { return };
            batch.clear();
            out.take(slot, &mut batch);
            without_probe(&mut batch);
            let at = self.wires.slots[slot];
            self.hand_probe(out, (at.node, at.port as usize), false, &mut batch);
        }
    }

    /// Which element a probe goes to that came to this one.
    fn next_after(&self, node: u32, port: usize) -> Next {
        let spec = |node: u32| self.layout.graph.elements[node as usize].spec;
        match spec(node).short_cut {
            ShortCut::Passes | ShortCut::Leaves => Next::Here(node, port),
            ShortCut::Never => Next::Not,
            ShortCut::Stores => {
                let edges = &self.layout.graph.edges;
                let mut behind = edges
                    .iter()
                    .filter(|edge| edge.from.element == node as usize && edge.from.port == 0);
                match (behind.next(), behind.next()) {
                    (Some(edge), None)
                        if spec(edge.to.element as u32).short_cut == ShortCut::Leaves =>
                    {
                        Next::Here(edge.to.element as u32, edge.to.port)
                    }
                    _ => Next::Not,
                }
            }
        }
    }

    fn hand_probe(
        &mut self,
        out: &mut Outbox,
        (node, port): (u32, usize),
        is_probe: bool,
        batch: &mut Batch,
    ) {
        if batch.is_empty() {
            return;
        }
        let stands_for = out.probe().map_or(0, |probe| probe.stands_for[0]);
        let count = if is_probe { stands_for } else { batch.len() as u64 };
        out.counters(node).packets.add(count);
        out.counters(node).batches.add(1);
        self.with(out, node, |element, cx| {
            element.process(cx, port, batch);
            pass_rest(cx, batch);
        });
    }
}
