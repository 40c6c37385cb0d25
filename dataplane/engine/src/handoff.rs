//! Packets that elements hand off to their replicas in other threads: the rings between all
//! threads, and the treatment of their content in a round, at a stop and in a hot swap.
//!
//! The rings themselves are in [`crate::rings`].

use std::sync::Arc;

use thruway_element::{Reason, Staged, Threading};
use thruway_flow::manager::{HandoffCounts, THREADS_MAX, ThreadSet};
use thruway_packet::MAX_BATCH;

use crate::away::Piece;
use crate::core::{Core, pass_rest};
use crate::engine::Engine;
use crate::flows::Flows;
use crate::layout::Layout;
use crate::rings::{Handoffs, Inlet, Point};

/// Gives the threads rings to each other for the elements that hand packets over.
pub(crate) fn install(flows: &Flows, engines: &mut [Engine]) {
    let Some(first) = engines.first() else { return };
    let layout = Arc::clone(&first.core.layout);
    let threads = engines.len();
    let is_met = flows.plan.levels.iter().any(|level| level.meets());
    let shares_sessions = (2..=THREADS_MAX).contains(&threads) && is_met;
    let nodes = layout.graph.elements.len();
    let mut all: Vec<Handoffs> = engines.iter().map(|_| Handoffs::of(nodes)).collect();
    for node in 0..nodes {
        let (spec, from) = (layout.graph.elements[node].spec, &layout.threads[node]);
        let replica = from.first().and_then(|thread| engines[*thread].core.elements[node].as_ref());
        let Some(element) = replica.filter(|_| spec.threading.hands_off()) else { continue };
        let Some(entry) = layout.entries[node] else { continue };
        // An element that begins sessions hands packets off to the thread that serves their
        // session.
        let is_entry = entry.flow_entry(&**element).is_some();
        if is_entry && !shares_sessions || layout.is_passed_by(node) {
            continue;
        }
        let is_store = spec.threading == Threading::Pipeline;
        let to = if is_store { &layout.home[node..=node] } else { &from[..] };
        let rings = entry.rings(&**element);
        let point = Point { node, from, to, rings, is_entry, is_store };
        Handoffs::connect(&mut all.iter_mut().collect::<Vec<_>>(), point);
    }
    for (thread, (engine, handoffs)) in engines.iter_mut().zip(all).enumerate() {
        let stages = handoffs.out.iter().flatten().any(|outlet| !outlet.is_store);
        let staged = if stages { Staged::of(threads, thread) } else { Staged::default() };
        engine.out.set_staged(staged);
        engine.core.handoffs = handoffs;
    }
    if shares_sessions {
        join(flows, &layout, engines);
    }
}

/// Lets the flow managers of all threads hand packets to each other.
fn join(flows: &Flows, layout: &Layout, engines: &mut [Engine]) {
    let threads = engines.len();
    let counts = Arc::new(HandoffCounts::new(threads));
    let entries = || flows.plan.entries.iter().map(|entry| entry.node as usize);
    let row = |node| (0..threads).map(|thread| layout.can_serve(node, thread)).collect();
    for (me, engine) in engines.iter_mut().enumerate() {
        if let Some(flows) = &mut engine.core.flows {
            flows.join_threads(ThreadSet::new(
                me,
                entries().map(row).collect(),
                Arc::clone(&counts),
            ));
        }
    }
}

impl Layout {
    /// Whether a thread can take packets handed off to an element, and send them on: it reaches the
    /// elements downstream, not only the element itself.
    fn can_serve(&self, node: usize, thread: usize) -> bool {
        let outputs = self.checked.elements[node].outputs.iter().flat_map(|port| &port.edges);
        let mut behind = outputs.map(|edge| self.graph.edges[*edge].to.element);
        self.threads[node].contains(&thread)
            && behind.all(|behind| self.threads[behind].contains(&thread))
    }

    /// The thread that continues with packets that thread `before` had to take in another
    /// configuration.
    fn heir(&self, node: usize, before: usize) -> usize {
        let same = self.threads[node].contains(&before);
        let stays = same && self.graph.elements[node].spec.threading != Threading::Pipeline;
        if stays { before } else { self.home[node] }
    }
}

impl Core {
    /// Packets being handed off from here to other threads, except those that no thread may take
    /// now.
    pub(crate) fn handing(&self) -> usize {
        let nodes = 0..self.elements.len();
        nodes
            .filter(|node| self.handoff_room(*node) > 0)
            .map(|node| self.handoffs.holding(node))
            .sum()
    }

    /// Packets of each ring that an element takes in this round, at most.
    fn handoff_room(&self, node: usize) -> usize {
        let (entry, element) = (self.layout.entries[node], self.elements[node].as_deref());
        element.zip(entry).map_or(0, |(element, entry)| entry.handoff_room(element))
    }
}

impl Engine {
    /// Has elements handle packets that their replicas in other threads handed over. Says whether
    /// there were any.
    #[inline]
    pub(crate) fn take_handed(&mut self) -> bool {
        let Handoffs { into, left, .. } = &self.core.handoffs;
        if into.is_empty() && left.is_empty() {
            return false;
        }
        let mut worked = self.take_left();
        for at in 0..self.core.handoffs.into.len() {
            worked |= self.take_rings(at);
        }
        worked
    }

    /// Packets left in the rings of the previous configuration come first.
    fn take_left(&mut self) -> bool {
        let left = std::mem::take(&mut self.core.handoffs.left);
        let worked = !left.is_empty();
        for (node, mut packets) in left {
            while !packets.is_empty() {
                self.batch.extend(packets.drain_front(MAX_BATCH));
                self.run_handed(node);
                self.drain();
            }
        }
        worked
    }

    /// Empties the rings of an element, as far as it takes packets.
    fn take_rings(&mut self, at: usize) -> bool {
        let Inlet { node, is_entry, .. } = self.core.handoffs.into[at];
        let room = self.core.handoff_room(node as usize).min(MAX_BATCH);
        if room == 0 || self.core.layout.parked[node as usize] {
            return false;
        }
        let mut worked = false;
        for ring in 0..self.core.handoffs.into[at].rings.len() {
            let (from, ring) = &mut self.core.handoffs.into[at].rings[ring];
            let (from, count) = (*from, ring.take(room, &mut self.batch));
            worked |= count > 0;
            match is_entry {
                true => self.serve(node, from, count),
                false if count > 0 => self.run_handed(node),
                false => {}
            }
        }
        if worked {
            self.drain();
            self.away.did(Piece::Handed, node);
        }
        worked
    }

    /// Classifies packets that came from a thread for their sessions, and reports that to it: a
    /// session may end there only after they, and those handed off further, are served.
    fn serve(&mut self, node: u32, from: usize, count: usize) {
        let Some(flows) = &mut self.core.flows else { return };
        if count == 0 {
            return flows.report_served(from);
        }
        let before = flows.handed();
        self.run_handed(node);
        self.drain();
        if let Some(flows) = &mut self.core.flows {
            flows.took(from, count, before);
        }
    }

    /// Has an element handle `self.batch`, which was handed to it.
    fn run_handed(&mut self, node: u32) {
        self.core.sample();
        self.core.meter(&self.out, node);
        let traced = self.trace_begins(node);
        let Some(entry) = self.core.layout.entries[node as usize] else { return };
        let batch = &mut self.batch;
        self.core.with(&mut self.out, node, |element, cx| {
            entry.handed(element, cx, batch);
            pass_rest(cx, batch);
        });
        if traced {
            self.core.trace_made(&mut self.out, node);
            // The next ones are not to be taken for these.
            self.drain();
        }
    }

    /// Counts packets that no thread takes any more.
    pub(crate) fn drop_handed(&mut self) {
        for (node, packets) in self.core.handoffs.take_all() {
            let stats = self.out.counters(node);
            stats.dropped(Reason::STOPPED, packets.len() as u64);
        }
    }
}

/// Takes the packets left in the rings of the previous configuration; `node_of` returns the present
/// number of one of its elements, and `heirs` are the threads that go on for its threads, if that
/// are others. Packets for other elements are dropped.
pub(crate) fn take_over(
    new: &mut [Engine],
    old: &mut [Engine],
    (node_of, heirs): (impl Fn(u32) -> Option<u32>, Option<&[usize]>),
) {
    for (thread, old) in old.iter_mut().enumerate() {
        let thread = heirs.and_then(|heirs| heirs.get(thread)).copied().unwrap_or(thread);
        for (node, packets) in old.core.handoffs.take_all() {
            let heir = node_of(node).and_then(|node| {
                let heir = new.first()?.core.layout.heir(node as usize, thread);
                Some((node, new.get_mut(heir)?))
            });
            match heir {
                Some((node, heir)) => heir.core.handoffs.left.push((node, packets)),
                None => {
                    let stats = &old.out.counters(node);
                    stats.dropped(Reason::STOPPED, packets.len() as u64);
                }
            }
        }
    }
}
