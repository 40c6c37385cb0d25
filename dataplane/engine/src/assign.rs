//! Which thread runs which element.
//!
//! A task runs in its home thread; an element has a replica in every thread whose code reaches it:
//! down push connections, up pull connections (thread traversal, FastClick thesis section 4.2).

use thruway_lang::{Checked, Edge, ElementDecl, Graph, Processing};

use crate::build::{BuildError, Stage};
use crate::layout::Layout;

/// The threads of every element.
pub(crate) struct Assigned {
    pub threads: Vec<Vec<usize>>,
    pub home: Vec<usize>,
    /// Whose tasks and timers no thread runs.
    pub parked: Vec<bool>,
}

/// How tasks that nobody placed are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    /// All in thread 0, as Click does.
    First,
    /// One after the other over all threads.
    Around,
}

/// Name of the element class whose arguments place tasks: pairs `ELEMENT THREAD`.
const SCHEDULER: &str = "StaticThreadSched";

/// Name of the element class that has an output for each thread.
const SWITCH: &str = "CPUSwitch";
/// The same for each of those threads that reach it.
const EXACT_SWITCH: &str = "ExactCPUSwitch";

/// Times that ways are looked for: once more than such switches stand behind each other.
const SETTLED: usize = 8;

pub(crate) fn assign(
    graph: &Graph,
    checked: &Checked,
    threads: usize,
    spread: Spread,
) -> Result<Assigned, Vec<BuildError>> {
    let placed = placements(graph, threads)?;
    let mut next = 0;
    let mut home = vec![0; graph.elements.len()];
    let mut reached: Vec<Vec<bool>> = vec![vec![false; threads]; graph.elements.len()];
    for (node, element) in graph.elements.iter().enumerate() {
        if let Some(Place::Thread(thread)) = placed[node] {
            home[node] = thread;
        } else if placed[node].is_none() && element.spec.task_everywhere {
            // Whoever reaches it runs its task.
            continue;
        } else if placed[node].is_none()
            && element.spec.task
            && spread == Spread::Around
            && !is_control(element.spec)
        {
            home[node] = next % threads;
            next += 1;
        }
        if placed[node].map_or(element.spec.task, |place| place != Place::Nowhere) {
            reached[node][home[node]] = true;
        }
    }
    let switched = settle(graph, checked, &home, &reached);
    reached.clone_from(&switched);
    // What no task reaches is driven by timers and handlers, in its home thread.
    for (node, row) in reached.iter_mut().enumerate() {
        if !row.contains(&true) {
            row[home[node]] = true;
        }
    }
    traverse(graph, checked, &home, Some(&switched), &mut reached);
    join(graph, &mut reached);
    let list = |row: &Vec<bool>| (0..threads).filter(|thread| row[*thread]).collect::<Vec<usize>>();
    let threads: Vec<Vec<usize>> = reached.iter().map(list).collect();
    for (node, row) in threads.iter().enumerate() {
        if !row.contains(&home[node]) {
            home[node] = row[0];
        }
    }
    let parked = placed.iter().map(|place| *place == Some(Place::Nowhere)).collect();
    Ok(Assigned { threads, home, parked })
}

/// Elements without ports (Script, DriverManager, ControlSocket) stay in the first thread.
fn is_control(spec: &thruway_element::Spec) -> bool {
    spec.ports == "0/0"
}

/// The threads that reach each element from those that tasks run in. Which way a thread goes on may
/// depend on how many others there are: once all are known the way of each is.
fn settle(graph: &Graph, checked: &Checked, home: &[usize], tasks: &[Vec<bool>]) -> Vec<Vec<bool>> {
    let mut known: Option<Vec<Vec<bool>>> = None;
    for _ in 0..SETTLED {
        let mut reached = tasks.to_vec();
        traverse(graph, checked, home, known.as_deref(), &mut reached);
        if known.as_ref() == Some(&reached) {
            break;
        }
        known = Some(reached);
    }
    known.unwrap_or_default()
}

/// Spreads threads along connections until nothing changes. `known` are the threads that reach each
/// element, as far as that is found out, for those that send them different ways.
fn traverse(
    graph: &Graph,
    checked: &Checked,
    home: &[usize],
    known: Option<&[Vec<bool>]>,
    reached: &mut [Vec<bool>],
) {
    let mut changed = true;
    while changed {
        changed = false;
        for edge in &graph.edges {
            let (runs, called) = direction(checked, edge);
            let decl = &graph.elements[runs];
            let outputs = checked.noutputs(runs);
            for thread in 0..reached[runs].len() {
                let before =
                    |known: &[Vec<bool>]| known[runs][..thread].iter().filter(|r| **r).count();
                let rank = known.map(before);
                let leaves = || match leaving(decl, home[runs], (thread, rank)) {
                    Leaving::Nowhere => false,
                    Leaving::By(output) => output % outputs.max(1) == edge.from.port,
                    Leaving::Anywhere => true,
                };
                if reached[runs][thread] && !reached[called][thread] && leaves() {
                    reached[called][thread] = true;
                    changed = true;
                }
            }
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

/// Where a thread may go on to from an element that it reaches.
enum Leaving {
    Anywhere,
    /// By this output modulo their number.
    By(usize),
    Nowhere,
}

/// Where `thread`, one of those that reach the element and there are `rank` before it, goes on to.
fn leaving(decl: &ElementDecl, home: usize, (thread, rank): (usize, Option<usize>)) -> Leaving {
    match decl.spec {
        spec if spec.leaves_at_home && thread != home => Leaving::Nowhere,
        _ if decl.class == EXACT_SWITCH => rank.map_or(Leaving::Anywhere, Leaving::By),
        spec if spec.name == SWITCH => Leaving::By(thread),
        _ => Leaving::Anywhere,
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
    let mut threads = Vec::new();
    for edge in edges {
        let runs = direction(&layout.checked, edge).0;
        let outputs = layout.checked.noutputs(runs).max(1);
        let decl = &layout.graph.elements[runs];
        for (rank, thread) in layout.threads[runs].iter().enumerate() {
            match leaving(decl, layout.home[runs], (*thread, Some(rank))) {
                Leaving::By(output) if output % outputs != edge.from.port => {}
                Leaving::Nowhere => {}
                _ => threads.push(*thread),
            }
        }
    }
    threads.sort_unstable();
    threads.dedup();
    threads
}

/// Gives elements that speak for their threads a replica in each other's threads.
fn join(graph: &Graph, reached: &mut [Vec<bool>]) {
    let speaks = |node: &usize| graph.elements[*node].spec.speaks_for_threads;
    let nodes: Vec<usize> = (0..graph.elements.len()).filter(speaks).collect();
    for thread in 0..reached.first().map_or(0, Vec::len) {
        if nodes.iter().any(|node| reached[*node][thread]) {
            nodes.iter().for_each(|node| reached[*node][thread] = true);
        }
    }
}

/// Where StaticThreadSched puts a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Thread(usize),
    /// Click's thread -1, which never runs.
    Nowhere,
}

/// The place that StaticThreadSched elements give to each element.
fn placements(graph: &Graph, threads: usize) -> Result<Vec<Option<Place>>, Vec<BuildError>> {
    let mut placed = vec![None; graph.elements.len()];
    // Length of the name by which an element was placed: its own counts before a compound's.
    let mut by = vec![0; graph.elements.len()];
    let mut errors = Vec::new();
    for (node, scheduler) in graph.elements.iter().enumerate() {
        if scheduler.class != SCHEDULER {
            continue;
        }
        for (arg, text) in scheduler.args.iter().enumerate() {
            match placement(graph, &scheduler.name, &text.text, threads) {
                Ok((name, place)) => {
                    for (at, element) in graph.elements.iter().enumerate() {
                        if within(&element.name, &name) && name.len() >= by[at] {
                            (placed[at], by[at]) = (Some(place), name.len());
                        }
                    }
                }
                Err(message) => {
                    errors.push(BuildError {
                        stage: Stage::Arguments,
                        node,
                        arg: Some(arg),
                        message,
                    });
                }
            }
        }
    }
    if errors.is_empty() { Ok(placed) } else { Err(errors) }
}

/// Whether an element is the one of this name or lies in the compound element of this name.
fn within(element: &str, name: &str) -> bool {
    let rest = element.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Name and thread of one pair.
fn placement(
    graph: &Graph,
    scheduler: &str,
    text: &str,
    threads: usize,
) -> Result<(String, Place), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name, thread] = words[..] else {
        return Err(format!("'{text}' is not a pair; write ELEMENT THREAD"));
    };
    let scope = scheduler.rsplit_once('/').map_or(String::new(), |(outer, _)| format!("{outer}/"));
    let known = |name: &String| graph.elements.iter().any(|element| within(&element.name, name));
    let full = [format!("{scope}{name}"), name.to_owned()].into_iter().find(known);
    let full = full.ok_or_else(|| format!("no element named '{name}'"))?;
    let thread: i64 = thread.parse().map_err(|_| format!("'{thread}' is not a thread number"))?;
    match thread {
        -1 => Ok((full, Place::Nowhere)),
        // A number too high is taken around: a configuration written for more cores still runs.
        0.. => Ok((full, Place::Thread((thread % threads as i64) as usize))),
        _ => Err("threads are counted from 0; -1 means that no thread runs the element".to_owned()),
    }
}
