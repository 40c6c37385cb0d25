//! The paths by which threads reach elements, and in words.

use thruway_lang::Edge;

use crate::layout::Layout;
use crate::ranges::ranges;
use crate::traverse::direction;

impl Layout {
    /// The shortest path by which a thread reaches an element: the elements that it runs, from the
    /// one with its task on.
    fn path(&self, thread: usize, node: usize) -> Vec<usize> {
        let nodes = 0..self.graph.elements.len();
        let begins = |at: &usize| self.tasks[*at].contains(&thread);
        // Elements without a task are driven by timers and handlers, at home.
        let rests = |at: &usize| self.home[*at] == thread && self.tasks[*at].is_empty();
        let tasks = self.path_from(thread, nodes.clone().filter(begins).collect(), node);
        tasks
            .or_else(|| self.path_from(thread, nodes.filter(rests).collect(), node))
            .unwrap_or_else(|| vec![node])
    }

    fn path_from(&self, thread: usize, begin: Vec<usize>, node: usize) -> Option<Vec<usize>> {
        let traversal = self.traversal();
        let mut from: Vec<Option<usize>> = vec![None; self.graph.elements.len()];
        begin.iter().for_each(|at| from[*at] = Some(*at));
        let mut queue = std::collections::VecDeque::from(begin);
        while let Some(at) = queue.pop_front() {
            if at == node {
                let back = |at: &usize| from[*at].filter(|before| before != at);
                let mut path: Vec<usize> = std::iter::successors(Some(node), back).collect();
                path.reverse();
                return Some(path);
            }
            let rank = self.threads[at].iter().position(|other| *other == thread);
            for edge in &self.graph.edges {
                let (runs, called) = direction(&self.checked, edge);
                if runs == at && from[called].is_none() && traversal.goes_by(edge, thread, rank) {
                    from[called] = Some(at);
                    queue.push_back(called);
                }
            }
        }
        None
    }

    /// A path in words: arrows follow the packets.
    fn describe_path(&self, path: &[usize]) -> String {
        let name = |node: usize| self.graph.elements[node].name.as_str();
        let mut text = path.first().map_or("", |first| name(*first)).to_owned();
        for step in path.windows(2) {
            let pushes = |edge: &&Edge| {
                (edge.from.element, edge.to.element) == (step[0], step[1])
                    && direction(&self.checked, edge).0 == step[0]
            };
            let arrow = if self.graph.edges.iter().any(|e| pushes(&e)) { "->" } else { "<-" };
            text += &format!(" {arrow} {}", name(step[1]));
        }
        text
    }

    /// The paths by which threads reach an element: `thread 0 comes from a -> b -> c, threads 1,2
    /// from d -> c`. An arrow `<-` is a pull.
    pub fn describe_paths(&self, node: usize) -> String {
        let mut groups: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for thread in &self.threads[node] {
            let path = self.path(*thread, node);
            match groups.iter_mut().find(|(known, _)| *known == path) {
                Some((_, threads)) => threads.push(*thread),
                None => groups.push((path, vec![*thread])),
            }
        }
        let mut texts = Vec::new();
        for (at, (path, threads)) in groups.iter().enumerate() {
            let numbers = ranges(threads);
            let s = if threads.len() > 1 { "s" } else { "" };
            let verb = match (at, path.len(), threads.len()) {
                (_, 1, 1) => " runs",
                (_, 1, _) => " run",
                (0, _, 1) => " comes from",
                (0, _, _) => " come from",
                _ => " from",
            };
            let what = match path.len() {
                1 => "it itself".to_owned(),
                _ => self.describe_path(path),
            };
            texts.push(format!("thread{s} {numbers}{verb} {what}"));
        }
        texts.join(", ")
    }
}

/// The threads in which others bring an element packets, or pull from it; for an isolated one,
/// those that it runs in.
pub(crate) fn passing(layout: &Layout, node: usize) -> Vec<usize> {
    let called = |edge: &&Edge| direction(&layout.checked, edge).1 == node;
    let mut edges = layout.graph.edges.iter().filter(called).peekable();
    if edges.peek().is_none() {
        return layout.threads[node].clone();
    }
    let traversal = layout.traversal();
    let mut threads = Vec::new();
    for edge in edges {
        let runs = direction(&layout.checked, edge).0;
        let ranked = layout.threads[runs].iter().enumerate();
        let come = ranked.filter(|(rank, thread)| traversal.goes_by(edge, **thread, Some(*rank)));
        threads.extend(come.map(|(_, thread)| *thread));
    }
    threads.sort_unstable();
    threads.dedup();
    threads
}
