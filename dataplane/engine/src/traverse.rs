//! The threads that reach each element: down push connections, up pull connections.

use thruway_element::{Purpose, ThreadNumber, Threading};
use thruway_lang::{Checked, Edge, Graph, Processing};

/// Times that ways are looked for: once more than switches that number the threads which reach them
/// ([`ThreadNumber::OfReaching`]) stand behind each other.
const RESOLVED_AFTER: usize = 8;

/// Per element: whether each thread reaches it.
pub(crate) type Reached = Vec<Vec<bool>>;

/// The ways that threads can take through a configuration.
#[derive(Clone, Copy)]
pub(crate) struct Traversal<'a> {
    pub graph: &'a Graph,
    pub checked: &'a Checked,
    /// Per element: the thread of its task, where that is one.
    pub home: &'a [usize],
    /// Whether packets stay in their threads.
    pub passes: bool,
}

/// Where a thread may go on to from an element that it reaches.
enum Leaving {
    Anywhere,
    /// By this output modulo their number.
    By(usize),
    Nowhere,
}

impl Traversal<'_> {
    /// The threads that reach each element from those that tasks run in. Which way a thread goes on
    /// may depend on how many others there are: once all are known the way of each is.
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
    /// each element, as far as that is found out, for those that send them different ways.
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

    /// Elements whose code runs at the same time, in the order of their calls.
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

    /// Whether `thread` can go along `edge` from the element there whose code it runs; of the
    /// threads that do, `rank` come before it.
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

/// Whose code calls whose, along an edge.
pub(crate) fn direction(checked: &Checked, edge: &Edge) -> (usize, usize) {
    match checked.elements[edge.from.element].outputs[edge.from.port].processing {
        Processing::Push => (edge.from.element, edge.to.element),
        Processing::Pull => (edge.to.element, edge.from.element),
    }
}
