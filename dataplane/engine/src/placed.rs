//! Where elements that place tasks put them.

use thruway_element::Purpose;
use thruway_lang::Graph;

use crate::error::{BuildError, Stage};

/// Where a task is put ([`Purpose::AssignTasks`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pinned {
    Thread(usize),
    /// Click's thread -1, which never runs.
    Nowhere,
}

/// The place that such elements give to each element.
pub(crate) fn placements(
    graph: &Graph,
    threads: usize,
) -> Result<Vec<Option<Pinned>>, Vec<BuildError>> {
    let mut placed = vec![None; graph.elements.len()];
    // Length of the name by which an element was placed: its own counts before a compound's.
    let mut by = vec![0; graph.elements.len()];
    let mut errors = Vec::new();
    for (node, scheduler) in graph.elements.iter().enumerate() {
        if scheduler.spec.purpose != Purpose::AssignTasks {
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
                    errors.push(BuildError::at(Stage::Arguments, node, message).arg(arg));
                }
            }
        }
    }
    if errors.is_empty() { Ok(placed) } else { Err(errors) }
}

/// Whether an element has this name or is in the compound element of this name.
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
) -> Result<(String, Pinned), String> {
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
        -1 => Ok((full, Pinned::Nowhere)),
        // A number too high is taken around: a configuration written for more cores still runs.
        0.. => Ok((full, Pinned::Thread((thread % threads as i64) as usize))),
        _ => Err("threads are counted from 0; -1 means that no thread runs the element".to_owned()),
    }
}
