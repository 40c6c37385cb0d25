//! Which thread runs which element.
//!
//! A task runs in its home thread; an element has a replica in every thread whose code reaches it:
//! down push connections, up pull connections (thread traversal, FastClick thesis section 4.2).

use thruway_lang::{Checked, Graph, Processing};

use crate::build::{BuildError, Stage};

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
    traverse(graph, checked, &mut reached);
    // What no task reaches is driven by timers and handlers, in its home thread.
    for (node, row) in reached.iter_mut().enumerate() {
        if !row.contains(&true) {
            row[home[node]] = true;
        }
    }
    traverse(graph, checked, &mut reached);
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

/// Spreads threads along connections until nothing changes.
fn traverse(graph: &Graph, checked: &Checked, reached: &mut [Vec<bool>]) {
    let mut changed = true;
    while changed {
        changed = false;
        for edge in &graph.edges {
            let port = &checked.elements[edge.from.element].outputs[edge.from.port];
            let (runs, called) = match port.processing {
                Processing::Push => (edge.from.element, edge.to.element),
                Processing::Pull => (edge.to.element, edge.from.element),
            };
            for thread in 0..reached[runs].len() {
                if reached[runs][thread] && !reached[called][thread] {
                    reached[called][thread] = true;
                    changed = true;
                }
            }
        }
    }
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
