//! The threads that reach each element: down push connections, up pull connections.

use thruway_element::{Purpose, ThreadNumber, Threading};
use thruway_lang::{Checked, Edge, Graph, Processing};

/// Number of traversals: one more than the longest chain of switches that number the threads which
/// reach them ([`ThreadNumber::OfReaching`]).
const RESOLVED_AFTER: usize = 8;

/// Per element: whether each thread reaches it.
pub(crate) type Reached = Vec<Vec<bool>>;

/// The possible paths of threads through a configuration.
#[derive(Clone, Copy)]
pub(crate) struct Traversal<'a> {
    pub graph: &'a Graph,
    pub checked: &'a Checked,
    /// Per element: the thread of its task, where that is one.
    pub home: &'a [usize],
    /// Whether packets stay in their threads.
    pub passes: bool,
}

/// The continuation of a thread's path at an element.
enum Leaving {
    Anywhere,
    /// By this output modulo their number.
    By(usize),
    Nowhere,
}

impl Traversal<'_> {
    /// The threads that reach each element from those that tasks run in. A thread's path may depend
    /// on the number of others: once all are known, each path is.
    pub fn resolve(&self, tasks: &Reached) -> Reached {
        let mut known: Option<Reached> = None;
        for _ in 0..RESOLVED_AFTER {
            let mut reached = tasks.clone();
            self.go_on(known.as_ref(), &mut reached);
            if known.as_ref() == Some(&reached) {
                break;
            }
            known = Some(reached);
        }
        known.unwrap_or_default()
    }

    /// Spreads threads along connections until nothing changes. `known` are the threads that reach
    /// each element, as far as they are known, for elements that send threads to different outputs.
    pub fn go_on(&self, known: Option<&Reached>, reached: &mut Reached) {
        let mut changed = true;
        while changed {
            changed = false;
            for edge in &self.graph.edges {
                let (runs, called) = direction(self.checked, edge);
                for thread in 0..reached[runs].len() {
                    let before =
                        |known: &Reached| known[runs][..thread].iter().filter(|r| **r).count();
                    if reached[runs][thread]
                        && !reached[called][thread]
                        && self.goes_by(edge, thread, known.map(before))
                    {
                        reached[called][thread] = true;
                        changed = true;
                    }
                }
            }
        }
    }

    /// Elements that run at the same time, in the order of their calls.
    pub fn calls(&self, running: &[usize]) -> Vec<usize> {
        let mut left = running.to_vec();
        let mut calls = Vec::new();
        while !left.is_empty() {
            let is_called = |node: &usize| {
                let edges = self.graph.edges.iter().map(|edge| direction(self.checked, edge));
                edges.into_iter().any(|(runs, called)| called == *node && left.contains(&runs))
            };
            // In a circle anyone may be first.
            let at = left.iter().position(|node| !is_called(node)).unwrap_or(0);
            calls.push(left.remove(at));
        }
        calls
    }

    /// Whether `thread` can follow `edge` from an element that it runs; `rank` of the threads that
    /// do come before it.
    pub fn goes_by(&self, edge: &Edge, thread: usize, rank: Option<usize>) -> bool {
        let runs = direction(self.checked, edge).0;
        match self.leaving(runs, thread, rank) {
            Leaving::Nowhere => false,
            Leaving::By(output) => output % self.checked.noutputs(runs).max(1) == edge.from.port,
            Leaving::Anywhere => true,
        }
    }

    fn leaving(&self, node: usize, thread: usize, rank: Option<usize>) -> Leaving {
        let spec = self.graph.elements[node].spec;
        if spec.threading == Threading::Pipeline && !self.passes && thread != self.home[node] {
            return Leaving::Nowhere;
        }
        match spec.purpose {
            Purpose::SwitchThreads(ThreadNumber::OfAll) => Leaving::By(thread),
            Purpose::SwitchThreads(ThreadNumber::OfReaching) => {
                rank.map_or(Leaving::Anywhere, Leaving::By)
            }
            _ => Leaving::Anywhere,
        }
    }
}

/// Caller and callee along an edge.
pub(crate) fn direction(checked: &Checked, edge: &Edge) -> (usize, usize) {
    match checked.elements[edge.from.element].outputs[edge.from.port].processing {
        Processing::Push => (edge.from.element, edge.to.element),
        Processing::Pull => (edge.to.element, edge.from.element),
    }
}
