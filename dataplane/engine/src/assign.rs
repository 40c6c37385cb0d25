//! Which thread runs which element.
//!
//! A task runs in its home thread, or in several that share its packets. An element has a replica
//! in every thread that reaches it: down push connections, up pull connections (thread traversal,
//! FastClick thesis section 4.2).

use thruway_element::{Share, Threading};
use thruway_lang::{Checked, Graph, Processing};

use crate::error::BuildError;
use crate::placed::{Pinned, placements};
use crate::spread::{self, Placement, Spread, Task};
use crate::traverse::{Reached, Traversal};

/// The threads of every element.
pub(crate) struct Assigned {
    pub threads: Vec<Vec<usize>>,
    pub home: Vec<usize>,
    /// The threads that run its task.
    pub tasks: Vec<Vec<usize>>,
    /// Elements with tasks and timers that no thread runs.
    pub parked: Vec<bool>,
    /// Whether packets stay in their threads: elements that hand them off to others let them pass.
    pub passes: bool,
}

/// Assigns threads; `shares` are those of the inputs that several threads can serve.
pub(crate) fn assign(
    graph: &Graph,
    checked: &Checked,
    spread: &Spread,
    shares: &[Option<Share>],
) -> Result<Assigned, Vec<BuildError>> {
    let threads = spread.threads;
    let placed = placements(graph, threads)?;
    let nodes = graph.elements.len();
    let mut tasks: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    let mut free = Vec::new();
    for (node, decl) in graph.elements.iter().enumerate() {
        let has_task = has_task(graph, checked, node);
        match placed[node] {
            _ if spread.lets_pass(decl.spec) => {}
            // Also one without a task is where it is placed: its timers and handlers are.
            Some(Pinned::Thread(thread)) => tasks[node] = vec![thread],
            Some(Pinned::Nowhere) => {}
            // The threads that reach it run its task.
            None if !has_task || decl.spec.threading == Threading::TaskPerThread => {}
            None if !spread.around || is_control(decl.spec) => tasks[node] = vec![0],
            None => free.push(Task {
                node,
                share: shares[node].clone(),
                is_source: checked.ninputs(node) == 0,
            }),
        }
    }
    if !spread.around {
        // Placements by the user count all the same.
        for (node, share) in shares.iter().enumerate().filter(|(node, _)| placed[*node].is_none()) {
            if let Some(share) = share.as_ref().filter(|share| !share.threads.is_empty()) {
                tasks[node] = spread::named(share, threads);
            }
        }
    }
    spread::give_out(spread, free, &mut tasks);
    let mut home: Vec<usize> = tasks.iter().map(|row| row.first().copied().unwrap_or(0)).collect();
    let row = |row: &Vec<usize>| (0..threads).map(|thread| row.contains(&thread)).collect();
    let begin: Reached = tasks.iter().map(row).collect();
    let passes = spread.placement == Placement::Parallel;
    let traversal = Traversal { graph, checked, home: &home, passes };
    let reached = reach(&traversal, &begin);
    let list = |row: &Vec<bool>| (0..threads).filter(|thread| row[*thread]).collect::<Vec<usize>>();
    let threads: Vec<Vec<usize>> = reached.iter().map(list).collect();
    for (node, row) in threads.iter().enumerate() {
        if !row.contains(&home[node]) {
            home[node] = row[0];
        }
        let spec = graph.elements[node].spec;
        if spec.threading == Threading::TaskPerThread && placed[node].is_none() {
            tasks[node].clone_from(row);
        }
        if !has_task(graph, checked, node) || spread.lets_pass(graph.elements[node].spec) {
            tasks[node].clear();
        }
    }
    let parked = placed.iter().map(|place| *place == Some(Pinned::Nowhere)).collect();
    Ok(Assigned { threads, home, tasks, parked, passes })
}

/// The threads that reach each element, from the threads of the tasks.
fn reach(traversal: &Traversal<'_>, begin: &Reached) -> Reached {
    let switched = traversal.resolve(begin);
    let mut reached = switched.clone();
    // Elements that no task reaches are driven by timers and handlers, in their home thread.
    for (node, row) in reached.iter_mut().enumerate() {
        if !row.contains(&true) {
            row[traversal.home[node]] = true;
        }
    }
    traversal.go_on(Some(&switched), &mut reached);
    join(traversal.graph, &mut reached);
    if traversal.graph.elements.iter().any(|decl| decl.spec.wants.whole) {
        // Every thread that classifies may be handed packets by every other one, at each place.
        traversal.go_on(Some(&switched), &mut reached);
    }
    reached
}

/// Elements without ports (Script, DriverManager, ControlSocket) stay in the first thread.
fn is_control(spec: &thruway_element::Spec) -> bool {
    spec.ports == "0/0"
}

/// Whether an element's task has work: not for a source that is only ever pulled, nor for a puller
/// where packets are pushed.
fn has_task(graph: &Graph, checked: &Checked, node: usize) -> bool {
    let spec = graph.elements[node].spec;
    let ports = &checked.elements[node];
    let pulled = |port: &thruway_lang::Port| port.processing == Processing::Pull;
    let is_pulled =
        ports.inputs.is_empty() && !ports.outputs.is_empty() && ports.outputs.iter().all(pulled);
    let pulls = !spec.threading.task_only_pulls() || ports.inputs.iter().any(pulled);
    spec.threading.has_task() && !is_pulled && pulls
}

/// Gives elements that speak for their threads a replica in each other's threads.
fn join(graph: &Graph, reached: &mut [Vec<bool>]) {
    let speaks = |node: &usize| graph.elements[*node].spec.threading == Threading::SessionHandoff;
    let nodes: Vec<usize> = (0..graph.elements.len()).filter(speaks).collect();
    for thread in 0..reached.first().map_or(0, Vec::len) {
        if nodes.iter().any(|node| reached[*node][thread]) {
            nodes.iter().for_each(|node| reached[*node][thread] = true);
        }
    }
}
