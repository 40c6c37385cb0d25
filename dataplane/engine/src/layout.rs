//! A configuration as all threads see it: the checked graph and the assignment of elements to
//! threads.

use std::collections::HashMap;

use thruway_element::{Entry, Registry, Target, Threading};
use thruway_lang::{Checked, EdgeKind, Graph, Port, Processing};

use crate::traverse::Traversal;
use crate::wires::{PullFrom, Slot};

/// A checked configuration with its threads assigned. Shared, never changed.
pub struct Layout {
    /// The flat graph.
    pub graph: Graph,
    /// Its ports and order.
    pub checked: Checked,
    /// Per element: its class.
    pub(crate) entries: Vec<Option<&'static Entry>>,
    /// Per element: the threads that have a replica, ascending.
    pub threads: Vec<Vec<usize>>,
    /// Per element: the thread that runs its task, timers and handlers first.
    pub home: Vec<usize>,
    /// Per element: the threads that run its task, if it has one with something to do.
    pub tasks: Vec<Vec<usize>>,
    /// Per element: whether StaticThreadSched leaves its task and timers without a thread.
    pub parked: Vec<bool>,
    /// Whether packets stay in their threads: a Pipeliner lets them pass.
    passes: bool,
    names: HashMap<String, usize>,
    slots: Vec<Slot>,
    first_slot: Vec<usize>,
}

impl Layout {
    /// Lays out a checked graph over threads.
    pub(crate) fn new(
        graph: Graph,
        checked: Checked,
        registry: &Registry,
        assigned: crate::assign::Assigned,
    ) -> Layout {
        let entries = graph.elements.iter().map(|element| registry.entry(&element.class)).collect();
        let names = graph.elements.iter().enumerate().map(|(i, e)| (e.name.clone(), i)).collect();
        let mut first_slot = vec![0; graph.elements.len()];
        let mut slots = Vec::new();
        for node in &checked.order {
            first_slot[*node] = slots.len();
            let inputs = checked.ninputs(*node) as u32;
            slots.extend((0..inputs).map(|port| Slot { node: *node as u32, port }));
        }
        let crate::assign::Assigned { threads, home, tasks, parked, passes } = assigned;
        Layout {
            graph,
            checked,
            entries,
            threads,
            home,
            tasks,
            parked,
            passes,
            names,
            slots,
            first_slot,
        }
    }

    /// Index of the element with this full name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// Index of the element that `name` means inside of the compound element of `from`: the
    /// innermost compound's name counts.
    pub fn find_from(&self, from: usize, name: &str) -> Option<usize> {
        let mut scope = self.graph.elements[from].name.as_str();
        while let Some((outer, _)) = scope.rsplit_once('/') {
            if let Some(found) = self.find(&format!("{outer}/{name}")) {
                return Some(found);
            }
            scope = outer;
        }
        self.find(name)
    }

    /// Whether `thread` runs a task of this element.
    pub(crate) fn runs_task(&self, node: usize, thread: usize) -> bool {
        // An element that hands off has a task only for its placement: the engine itself gives it
        // packets there.
        let is_own = self.graph.elements[node].spec.threading != Threading::Pipeline;
        is_own && self.tasks[node].contains(&thread) || self.serves(node, thread)
    }

    /// Whether `thread` runs an element's task only for the sake of its replicas in other threads.
    /// No path begins there: its packets were pushed to it.
    fn serves(&self, node: usize, thread: usize) -> bool {
        let threads = &self.threads[node];
        let is_one = self.graph.elements[node].spec.threading == Threading::SharedPullTask;
        is_one && threads.len() > 1 && threads.contains(&thread)
    }

    /// The thread traversal of the configuration.
    pub(crate) fn traversal(&self) -> Traversal<'_> {
        Traversal {
            graph: &self.graph,
            checked: &self.checked,
            home: &self.home,
            passes: self.passes,
        }
    }

    /// Whether packets pass an element by that would hand them to another thread.
    pub(crate) fn is_passed_by(&self, node: usize) -> bool {
        self.passes && self.graph.elements[node].spec.threading == Threading::Pipeline
    }

    /// The threads other than `but` that pull at an element.
    pub(crate) fn takers(&self, node: usize, but: usize) -> Vec<usize> {
        let mut takers = Vec::new();
        let ports = self.checked.elements[node].outputs.iter();
        for port in ports.filter(|port| port.processing == Processing::Pull) {
            for edge in &port.edges {
                takers.extend(&self.threads[self.graph.edges[*edge].to.element]);
            }
        }
        takers.sort_unstable();
        takers.dedup();
        takers.retain(|thread| *thread != but);
        takers
    }

    /// All slots in dispatch order.
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Where each output of `node` leads.
    pub(crate) fn targets(&self, node: usize) -> impl Iterator<Item = Target> {
        self.checked.elements[node].outputs.iter().map(|port| match port.processing {
            Processing::Pull => Target::Puller,
            Processing::Push => self.target(port),
        })
    }

    fn target(&self, port: &Port) -> Target {
        let mut port = port;
        // One after another, but never in a circle of nothing else.
        for _ in 0..self.graph.elements.len() {
            let edges = port.edges.iter().map(|edge| &self.graph.edges[*edge]);
            // A context link carries packets as any other until the flow manager splits there.
            let mut carry =
                edges.filter(|e| matches!(e.kind, EdgeKind::Packet | EdgeKind::Context));
            let Some(edge) = carry.next() else { return Target::Unconnected };
            let to = edge.to.element;
            if !self.is_passed_by(to) {
                return Target::Slot((self.first_slot[to] + edge.to.port) as u32);
            }
            // It would hand packets to another thread: they pass it by.
            let Some(next) = self.checked.elements[to].outputs.get(edge.to.port) else { break };
            port = next;
        }
        Target::Unconnected
    }

    /// The sources that the pull inputs of `node` draw from.
    pub(crate) fn sources(&self, node: usize) -> impl Iterator<Item = Option<PullFrom>> {
        self.checked.elements[node].inputs.iter().map(|port| {
            let edge = port.edges.first().filter(|_| port.processing == Processing::Pull)?;
            let from = self.graph.edges[*edge].from;
            Some(PullFrom { node: from.element as u32, port: from.port as u32 })
        })
    }
}
