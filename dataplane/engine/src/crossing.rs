//! Packets that other threads hand over because this one serves their sessions.

use std::sync::Arc;

use thruway_element::{Crossing, Slot, Target};
use thruway_flow::manager::{CREW_MAX, Crew, Crossed};
use thruway_packet::Packet;

use crate::engine::Engine;
use crate::flows::Flows;
use crate::layout::Layout;

/// Gives the threads rings to each other, where there are several and sessions that have one server.
pub(crate) fn install(flows: &Flows, engines: &mut [Engine]) {
    let is_met = flows.plan.levels.iter().any(|level| level.meets());
    if !(2..=CREW_MAX).contains(&engines.len()) || !is_met {
        return;
    }
    let crossed = Arc::new(Crossed::new(engines.len()));
    let threads = engines.len();
    let reach = |layout: &Layout| -> Vec<Vec<bool>> {
        let entries = flows.plan.entries.iter().map(|entry| entry.node as usize);
        entries
            .map(|node| (0..threads).map(|thread| layout.can_serve(node, thread)).collect())
            .collect()
    };
    for (me, (engine, crossing)) in engines.iter_mut().zip(Crossing::of(threads)).enumerate() {
        let reach = reach(&engine.core.layout);
        if let Some(flows) = &mut engine.wires.flows {
            flows.join_crew(Crew::new(me, reach, Arc::clone(&crossed)));
            engine.wires.crossing = Some(Box::new(crossing));
        }
    }
}

impl Layout {
    /// Whether a thread can take packets in an element that others brought them to, and send them
    /// on: it has what is behind, not only the element itself.
    fn can_serve(&self, node: usize, thread: usize) -> bool {
        let outputs = self.checked.elements[node].outputs.iter().flat_map(|port| &port.edges);
        let mut behind = outputs.map(|edge| self.graph.edges[*edge].to.element);
        self.threads[node].contains(&thread)
            && behind.all(|behind| self.threads[behind].contains(&thread))
    }
}

impl Engine {
    /// Dispatches packets that other threads handed over. Says whether there were any.
    #[inline]
    pub(crate) fn take_handed(&mut self) -> bool {
        match self.wires.crossing.take() {
            None => false,
            Some(crossing) => self.take_rings(crossing),
        }
    }

    fn take_rings(&mut self, mut crossing: Box<Crossing>) -> bool {
        let mut worked = false;
        if let Some(left) = crossing.left() {
            worked = true;
            let mut way = None;
            left.into_iter().for_each(|packet| self.put_on_slot(packet, &mut way));
            self.drain();
        }
        for from in 0..crossing.threads() {
            let (mut count, mut way) = (0, None);
            for packet in crossing.take(from) {
                count += 1;
                self.put_on_slot(packet, &mut way);
            }
            worked |= count > 0;
            // What is classified now may be handed on.
            self.wires.crossing = Some(crossing);
            self.serve(from, count);
            crossing = match self.wires.crossing.take() {
                Some(crossing) => crossing,
                None => return worked,
            };
        }
        self.wires.crossing = Some(crossing);
        worked
    }

    /// Dispatches what was taken from a thread, and tells it.
    #[inline]
    fn serve(&mut self, from: usize, count: usize) {
        let Some(flows) = &mut self.wires.flows else { return };
        if count == 0 {
            return flows.tell_served(from);
        }
        let before = flows.handed();
        self.drain();
        if let Some(flows) = &mut self.wires.flows {
            flows.took(from, count, before);
        }
    }

    /// Puts a packet before the element whose number it bears; most are for the same as the one
    /// before, whose `way` is known.
    fn put_on_slot(&mut self, packet: Packet, way: &mut Option<(u32, Target)>) {
        let node = packet.fcb();
        let target = match *way {
            Some((same, target)) if same == node => target,
            _ => {
                let here = Slot { node, port: 0 };
                let slot = self.wires.slots.iter().position(|slot| *slot == here);
                slot.map_or(Target::Unconnected, |slot| Target::Slot(slot as u32))
            }
        };
        *way = Some((node, target));
        // Each is an entry of the plan, which has an input.
        drop(self.wires.send(target, packet));
    }
}
