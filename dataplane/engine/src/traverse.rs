//! The threads that reach each element: down push connections, up pull connections.

use thruway_lang::{Checked, Edge, Graph, Processing};

use crate::layout::Layout;

/// Name of the element class that has an output for each thread.
const SWITCH: &str = "CPUSwitch";
/// The same for each of those threads that reach it.
const EXACT_SWITCH: &str = "ExactCPUSwitch";

/// Times that ways are looked for: once more than such switches stand behind each other.
const SETTLED: usize = 8;

/// Per element: whether each thread reaches it.
pub(crate) type Reached = Vec<Vec<bool>>;

/// The ways that threads can take through a configuration.
#[derive(Clone, Copy)]
pub(crate) struct Ways<'a> {
    pub graph: &'a Graph,
    pub checked: &'a Checked,
    /// Per element: the thread of its task, where that is one.
    pub home: &'a [usize],
}

/// Where a thread may go on to from an element that it reaches.
enum Leaving {
    Anywhere,
    /// By this output modulo their number.
    By(usize),
    Nowhere,
}

impl Ways<'_> {
    /// The threads that reach each element from those that tasks run in. Which way a thread goes on
    /// may depend on how many others there are: once all are known the way of each is.
    pub fn settle(&self, tasks: &Reached) -> Reached {
        let mut known: Option<Reached> = None;
        for _ in 0..SETTLED {
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

    /// Whether `thread` can go along `edge` from the element there whose code it runs; of the
    /// threads that do, `rank` come before it.
    fn goes_by(&self, edge: &Edge, thread: usize, rank: Option<usize>) -> bool {
        let runs = direction(self.checked, edge).0;
        match self.leaving(runs, thread, rank) {
            Leaving::Nowhere => false,
            Leaving::By(output) => output % self.checked.noutputs(runs).max(1) == edge.from.port,
            Leaving::Anywhere => true,
        }
    }

    fn leaving(&self, node: usize, thread: usize, rank: Option<usize>) -> Leaving {
        let decl = &self.graph.elements[node];
        match decl.spec {
            spec if spec.leaves_at_home && thread != self.home[node] => Leaving::Nowhere,
            _ if decl.class == EXACT_SWITCH => rank.map_or(Leaving::Anywhere, Leaving::By),
            spec if spec.name == SWITCH => Leaving::By(thread),
            _ => Leaving::Anywhere,
        }
    }
}

/// Whose code calls whose, along an edge.
fn direction(checked: &Checked, edge: &Edge) -> (usize, usize) {
    match checked.elements[edge.from.element].outputs[edge.from.port].processing {
        Processing::Push => (edge.from.element, edge.to.element),
        Processing::Pull => (edge.to.element, edge.from.element),
    }
}

/// The threads that others bring an element packets in, or ask it for packets; of one that stands
/// by itself, those that it runs in.
pub(crate) fn passing(layout: &Layout, node: usize) -> Vec<usize> {
    let called = |edge: &&Edge| direction(&layout.checked, edge).1 == node;
    let mut edges = layout.graph.edges.iter().filter(called).peekable();
    if edges.peek().is_none() {
        return layout.threads[node].clone();
    }
    let ways = layout.ways();
    let mut threads = Vec::new();
    for edge in edges {
        let runs = direction(&layout.checked, edge).0;
        let ranked = layout.threads[runs].iter().enumerate();
        let come = ranked.filter(|(rank, thread)| ways.goes_by(edge, **thread, Some(*rank)));
        threads.extend(come.map(|(_, thread)| *thread));
    }
    threads.sort_unstable();
    threads.dedup();
    threads
}
