//! What is known of a graph after checking: ports, processing, order, reach.

use crate::codes::Flow;
pub use crate::codes::Processing;

/// The result of [`resolve`](crate::check::resolve); indices are those of
/// [`Graph::elements`](crate::Graph::elements) and [`Graph::edges`](crate::Graph::edges).
#[derive(Debug, Clone, Default)]
pub struct Checked {
    /// Per element.
    pub elements: Vec<ElementPorts>,
    /// All elements in topological order: but for loops, a packet moves from earlier to later ones.
    pub order: Vec<usize>,
    /// Elements with inputs that no packet can reach.
    pub unreachable: Vec<usize>,
    /// Elements with a task, and the elements that run in that task's thread.
    pub tasks: Vec<TaskReach>,
}

/// The ports of one element.
#[derive(Debug, Clone, Default)]
pub struct ElementPorts {
    /// Inputs in use.
    pub inputs: Vec<Port>,
    /// Outputs in use.
    pub outputs: Vec<Port>,
    /// Which outputs a packet of which input can leave by.
    pub flow: Flow,
}

/// One port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Push or pull, agnostic ports resolved (to push when nothing decides).
    pub processing: Processing,
    /// Declared agnostic.
    pub agnostic: bool,
    /// Edges at this port. One, except for a pull output or a push input.
    pub edges: Vec<usize>,
}

/// A task and the elements that it runs through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskReach {
    /// The element with the task.
    pub element: usize,
    /// Elements that run in the task's thread, itself included; sorted.
    pub reach: Vec<usize>,
}

impl Checked {
    /// Number of inputs in use.
    pub fn ninputs(&self, element: usize) -> usize {
        self.elements[element].inputs.len()
    }

    /// Number of outputs in use.
    pub fn noutputs(&self, element: usize) -> usize {
        self.elements[element].outputs.len()
    }

    /// The elements that run in the thread of the task of `element` (empty if it has none).
    pub fn reach(&self, element: usize) -> &[usize] {
        self.tasks.iter().find(|task| task.element == element).map_or(&[], |task| &task.reach)
    }

    /// The task elements with threads that run the code of `element`.
    pub fn tasks_of(&self, element: usize) -> Vec<usize> {
        let runs = |task: &&TaskReach| task.reach.binary_search(&element).is_ok();
        self.tasks.iter().filter(runs).map(|task| task.element).collect()
    }
}
