//! Reachability: an order for dispatch, elements without packets, and the elements that run in each
//! task's thread.

use crate::checked::{ElementPorts, Port, Processing, TaskReach};
use crate::graph::Graph;

/// Elements such that, but for loops, edges lead from earlier to later ones: the reverse of the
/// order in which a depth-first walk leaves them.
pub(crate) fn order(graph: &Graph, edges: &[usize]) -> Vec<usize> {
    let count = graph.elements.len();
    let mut next = vec![Vec::new(); count];
    let mut has_input = vec![false; count];
    for edge in edges {
        let edge = &graph.edges[*edge];
        next[edge.from.element].push(edge.to.element);
        has_input[edge.to.element] = true;
    }
    let mut seen = vec![false; count];
    let mut left = Vec::with_capacity(count);
    // Sources first, so that a walk does not begin in the middle of a loop.
    let starts =
        (0..count).filter(|at| !has_input[*at]).chain((0..count).filter(|at| has_input[*at]));
    let starts: Vec<usize> = starts.collect();
    for start in starts.into_iter().rev() {
        let mut stack = vec![(start, 0)];
        if std::mem::replace(&mut seen[start], true) {
            continue;
        }
        while let Some((at, next_index)) = stack.last_mut() {
            // Later outputs first, so that in the reverse order earlier ones come first.
            let targets = &next[*at];
            match targets.len().checked_sub(*next_index + 1).map(|index| targets[index]) {
                Some(to) => {
                    *next_index += 1;
                    if !std::mem::replace(&mut seen[to], true) {
                        stack.push((to, 0));
                    }
                }
                None => {
                    left.push(*at);
                    stack.pop();
                }
            }
        }
    }
    left.reverse();
    left
}

/// Elements with inputs of which none is reached by a packet from an output that makes packets.
pub(crate) fn unreachable(graph: &Graph, elements: &[ElementPorts]) -> Vec<usize> {
    let mut reached: Vec<Vec<bool>> =
        elements.iter().map(|ports| vec![false; ports.inputs.len()]).collect();
    let mut pending: Vec<(usize, usize)> = Vec::new();
    for (index, ports) in elements.iter().enumerate() {
        let makes =
            |output: &usize| !(0..ports.inputs.len()).any(|i| ports.flow.allows(i, *output));
        let task = graph.elements[index].spec.threading.has_task() && ports.inputs.is_empty();
        let outputs = (0..ports.outputs.len()).filter(|output| task || makes(output));
        pending.extend(outputs.map(|output| (index, output)));
    }
    while let Some((element, output)) = pending.pop() {
        for edge in &elements[element].outputs[output].edges {
            let to = graph.edges[*edge].to;
            if !std::mem::replace(&mut reached[to.element][to.port], true) {
                let ports = &elements[to.element];
                let outputs = 0..ports.outputs.len();
                let flows = outputs.filter(|output| ports.flow.allows(to.port, *output));
                pending.extend(flows.map(|output| (to.element, output)));
            }
        }
    }
    let dead = |index: &usize| !reached[*index].is_empty() && !reached[*index].contains(&true);
    (0..elements.len()).filter(dead).collect()
}

/// Per element with a task, the elements that run in its thread.
pub(crate) fn tasks(graph: &Graph, elements: &[ElementPorts]) -> Vec<TaskReach> {
    let tasks =
        (0..elements.len()).filter(|index| graph.elements[*index].spec.threading.has_task());
    tasks.map(|element| TaskReach { element, reach: reach(graph, elements, element) }).collect()
}

/// Downstream through push connections and upstream through pull connections. An element that is
/// pushed to may push on; one that is pulled from may pull on, and push what it pulled elsewhere
/// (as with error outputs).
fn reach(graph: &Graph, elements: &[ElementPorts], task: usize) -> Vec<usize> {
    let mut walk = Walk {
        graph,
        elements,
        pushed: elements.iter().map(|_| Vec::new()).collect(),
        pulled: elements.iter().map(|_| Vec::new()).collect(),
        reached: vec![false; elements.len()],
        pending: Vec::new(),
    };
    walk.reached[task] = true;
    (0..elements[task].outputs.len()).for_each(|output| walk.push(task, output));
    (0..elements[task].inputs.len()).for_each(|input| walk.pull(task, input));
    while let Some((element, is_output, port)) = walk.pending.pop() {
        let flow = &elements[element].flow;
        if is_output {
            let inputs: Vec<usize> = (0..elements[element].inputs.len())
                .filter(|input| flow.allows(*input, port))
                .collect();
            for input in inputs {
                walk.pull(element, input);
                walk.push_from(element, input);
            }
        } else {
            walk.push_from(element, port);
        }
    }
    (0..elements.len()).filter(|index| walk.reached[*index]).collect()
}

struct Walk<'a> {
    graph: &'a Graph,
    elements: &'a [ElementPorts],
    /// Outputs already followed, per element.
    pushed: Vec<Vec<bool>>,
    /// Inputs already followed, per element.
    pulled: Vec<Vec<bool>>,
    reached: Vec<bool>,
    /// Ports through which code is entered: element, whether by an output, port.
    pending: Vec<(usize, bool, usize)>,
}

impl Walk<'_> {
    /// What enters `input` leaves by the push outputs that it flows to.
    fn push_from(&mut self, element: usize, input: usize) {
        for output in 0..self.elements[element].outputs.len() {
            if self.elements[element].flow.allows(input, output) {
                self.push(element, output);
            }
        }
    }

    fn push(&mut self, element: usize, output: usize) {
        let port = &self.elements[element].outputs[output];
        if port.processing == Processing::Push && first(&mut self.pushed[element], output) {
            self.follow(port, true);
        }
    }

    fn pull(&mut self, element: usize, input: usize) {
        let port = &self.elements[element].inputs[input];
        if port.processing == Processing::Pull && first(&mut self.pulled[element], input) {
            self.follow(port, false);
        }
    }

    fn follow(&mut self, port: &Port, downstream: bool) {
        for edge in &port.edges {
            let edge = &self.graph.edges[*edge];
            let at = if downstream { edge.to } else { edge.from };
            self.reached[at.element] = true;
            self.pending.push((at.element, !downstream, at.port));
        }
    }
}

/// Whether `index` is marked for the first time.
fn first(marks: &mut Vec<bool>, index: usize) -> bool {
    if marks.len() <= index {
        marks.resize(index + 1, false);
    }
    !std::mem::replace(&mut marks[index], true)
}
