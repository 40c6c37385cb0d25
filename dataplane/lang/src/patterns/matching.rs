//! Where a pattern is in a configuration.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::fragment::{Fragment, is_variable};
use crate::edit::Editor;
use crate::graph::{Edge, PortRef};

/// A part of a configuration that a pattern matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Match {
    /// By element of the pattern, the element of the configuration.
    pub elements: Vec<usize>,
    /// The values of its variables.
    pub variables: BTreeMap<String, String>,
    /// Connections that lead into it, with the pattern's input that each corresponds to.
    pub into: Vec<(Edge, usize)>,
    /// Those that lead out of it, with the output.
    pub out: Vec<(Edge, usize)>,
}

/// A configuration to look for patterns in.
pub(super) struct Body<'a> {
    editor: &'a Editor,
    by_class: HashMap<&'a str, Vec<usize>>,
    connected: HashSet<(PortRef, PortRef)>,
    by_source: HashMap<PortRef, Vec<usize>>,
    by_target: HashMap<PortRef, Vec<usize>>,
    by_element: HashMap<usize, Vec<Edge>>,
}

impl<'a> Body<'a> {
    /// Looks at a configuration once.
    pub fn new(editor: &'a Editor) -> Body<'a> {
        let mut body = Body {
            editor,
            by_class: HashMap::new(),
            connected: HashSet::new(),
            by_source: HashMap::new(),
            by_target: HashMap::new(),
            by_element: HashMap::new(),
        };
        for at in editor.elements() {
            body.by_class.entry(editor.element(at).class.as_str()).or_default().push(at);
        }
        for edge in editor.edges() {
            body.connected.insert((edge.from, edge.to));
            body.by_source.entry(edge.from).or_default().push(edge.to.element);
            body.by_target.entry(edge.to).or_default().push(edge.from.element);
            for element in BTreeSet::from([edge.from.element, edge.to.element]) {
                body.by_element.entry(element).or_default().push(*edge);
            }
        }
        body
    }

    /// The first part that matches `pattern` and that `accept`s its elements.
    pub fn find(&self, pattern: &Fragment, accept: impl Fn(&[usize]) -> bool) -> Option<Match> {
        let order = order(pattern);
        let mut search = Search { body: self, pattern, order: &order, placed: Vec::new() };
        search.next(&mut |elements| {
            if accept(elements) { self.complete(pattern, elements) } else { None }
        })
    }

    /// The whole of a match, if arguments and connections with the rest are right, too.
    fn complete(&self, pattern: &Fragment, elements: &[usize]) -> Option<Match> {
        let mut found = Match { elements: elements.to_vec(), ..Match::default() };
        for (own, at) in pattern.elements.iter().zip(elements) {
            let args = &self.editor.element(*at).args;
            if own.args.len() != args.len() {
                return None;
            }
            for (wanted, there) in own.args.iter().zip(args) {
                bind(&mut found.variables, &wanted.text, &there.text)?;
            }
        }
        let back: HashMap<usize, usize> =
            elements.iter().enumerate().map(|(own, at)| (*at, own)).collect();
        let own = |port: PortRef| Some(PortRef { element: *back.get(&port.element)?, ..port });
        let edges: BTreeSet<(PortRef, PortRef)> = elements
            .iter()
            .flat_map(|at| self.by_element.get(at).into_iter().flatten())
            .map(|edge| (edge.from, edge.to))
            .collect();
        let kinds = elements.iter().flat_map(|at| self.by_element.get(at).into_iter().flatten());
        let kinds: HashMap<_, Edge> = kinds.map(|edge| ((edge.from, edge.to), *edge)).collect();
        for ends in edges {
            let edge = kinds[&ends];
            match (own(edge.from), own(edge.to)) {
                (Some(from), Some(to)) => {
                    let is_it = |inner: &&(PortRef, PortRef, _)| (inner.0, inner.1) == (from, to);
                    pattern.inner.iter().find(is_it).filter(|inner| inner.2 == edge.kind)?;
                }
                (None, Some(to)) => {
                    let input = self.input_of(pattern, elements, edge.from, to)?;
                    found.into.push((edge, input));
                }
                (Some(from), None) => {
                    let output = self.output_of(pattern, elements, from, edge.to)?;
                    found.out.push((edge, output));
                }
                (None, None) => {}
            }
        }
        let has_input = |port| found.into.iter().any(|(_, input)| *input == port);
        let has_output = |port| found.out.iter().any(|(_, output)| *output == port);
        let all = (0..pattern.inputs).all(has_input) && (0..pattern.outputs).all(has_output);
        all.then_some(found)
    }

    /// The least input of the pattern that a connection from `outside` to the pattern's port `to`
    /// may correspond to: `outside` leads to all that this input leads to.
    fn input_of(
        &self,
        pattern: &Fragment,
        elements: &[usize],
        outside: PortRef,
        to: PortRef,
    ) -> Option<usize> {
        let inputs = pattern.entries.iter().filter(|entry| entry.1 == to).map(|entry| entry.0);
        inputs.collect::<BTreeSet<_>>().into_iter().find(|input| {
            pattern.entries.iter().filter(|entry| entry.0 == *input).all(|entry| {
                let there = PortRef { element: elements[entry.1.element], ..entry.1 };
                self.connected.contains(&(outside, there))
            })
        })
    }

    /// The same for a connection from the pattern's port `from` to `outside`.
    fn output_of(
        &self,
        pattern: &Fragment,
        elements: &[usize],
        from: PortRef,
        outside: PortRef,
    ) -> Option<usize> {
        let outputs = pattern.exits.iter().filter(|exit| exit.0 == from).map(|exit| exit.1);
        outputs.collect::<BTreeSet<_>>().into_iter().find(|output| {
            pattern.exits.iter().filter(|exit| exit.1 == *output).all(|exit| {
                let there = PortRef { element: elements[exit.0.element], ..exit.0 };
                self.connected.contains(&(there, outside))
            })
        })
    }
}

/// Gives a variable its value, or compares; `None` if the argument does not match.
fn bind(variables: &mut BTreeMap<String, String>, wanted: &str, there: &str) -> Option<()> {
    if !is_variable(wanted) {
        return (wanted == there).then_some(());
    }
    let value = variables.entry(wanted.to_owned()).or_insert_with(|| there.to_owned());
    (value == there).then_some(())
}

/// The pattern's elements so that each is connected with one before it, where there is such a one:
/// then few elements of the configuration come into question for it.
fn order(pattern: &Fragment) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::new();
    while order.len() < pattern.elements.len() {
        let is_new = |at: &usize| !order.contains(at);
        let beside = pattern.inner.iter().find_map(|(from, to, _)| {
            let (from, to) = (from.element, to.element);
            match (is_new(&from), is_new(&to)) {
                (true, false) => Some(from),
                (false, true) => Some(to),
                _ => None,
            }
        });
        let next = beside.or_else(|| (0..pattern.elements.len()).find(is_new));
        order.extend(next);
    }
    order
}

/// Tries elements of the configuration for those of the pattern, one after the other.
struct Search<'a> {
    body: &'a Body<'a>,
    pattern: &'a Fragment,
    order: &'a [usize],
    /// By place in `order`.
    placed: Vec<usize>,
}

impl Search<'_> {
    fn next(&mut self, complete: &mut impl FnMut(&[usize]) -> Option<Match>) -> Option<Match> {
        let Some(own) = self.order.get(self.placed.len()) else {
            let mut elements = vec![0; self.placed.len()];
            for (own, at) in self.order.iter().zip(&self.placed) {
                elements[*own] = *at;
            }
            return complete(&elements);
        };
        for at in self.candidates(*own) {
            if self.fits(*own, at) {
                self.placed.push(at);
                if let Some(found) = self.next(complete) {
                    return Some(found);
                }
                self.placed.pop();
            }
        }
        None
    }

    /// The element of the configuration for one of the pattern, if there is one already.
    fn at(&self, own: usize) -> Option<usize> {
        let mut pairs = self.order.iter().zip(&self.placed);
        pairs.find(|(other, _)| **other == own).map(|(_, at)| *at)
    }

    fn candidates(&self, own: usize) -> Vec<usize> {
        let beside = self.pattern.inner.iter().find_map(|(from, to, _)| {
            if to.element == own {
                let element = self.at(from.element)?;
                return Some(self.body.by_source.get(&PortRef { element, ..*from }));
            }
            if from.element == own {
                let element = self.at(to.element)?;
                return Some(self.body.by_target.get(&PortRef { element, ..*to }));
            }
            None
        });
        let class = self.pattern.elements[own].class.as_str();
        let found = beside.unwrap_or_else(|| self.body.by_class.get(class));
        found.cloned().unwrap_or_default()
    }

    /// Whether an element may stand for one of the pattern, with those that are there already.
    fn fits(&self, own: usize, at: usize) -> bool {
        let wanted = &self.pattern.elements[own];
        if self.placed.contains(&at) || self.body.editor.element(at).class != wanted.class {
            return false;
        }
        let place = |element: usize| if element == own { Some(at) } else { self.at(element) };
        self.pattern.inner.iter().all(|(from, to, _)| {
            let (Some(source), Some(target)) = (place(from.element), place(to.element)) else {
                return true;
            };
            let ends = (PortRef { element: source, ..*from }, PortRef { element: target, ..*to });
            self.body.connected.contains(&ends)
        })
    }
}
