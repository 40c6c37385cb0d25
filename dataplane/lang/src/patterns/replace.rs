//! Patterns replaced in a configuration, until none is left.

use std::fmt;

use super::Pattern;
use super::fragment::{Fragment, is_variable};
use super::matching::{Body, Match};
use crate::edit::Editor;
use crate::graph::{Edge, ElementDecl, Graph, PortRef};
use crate::source::Span;

/// Replacements that are made at most, and how many more for each element that there was: patterns
/// may match what others made, for ever.
const REPLACED_MAX: usize = 1000;
const REPLACED_PER_ELEMENT: usize = 10;

/// Patterns that replace what others of them made, without an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endless {
    name: String,
    count: usize,
}

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Endless { name, count } = self;
        write!(
            f,
            "patterns match again and again what others of them made ({count} replacements, the \
             last of '{name}'): change the patterns so that no replacement holds what another \
             pattern matches"
        )
    }
}

impl std::error::Error for Endless {}

/// Replaces every part of a configuration that a pattern matches: always by the first pattern that
/// matches, until none does. A pattern does not match what consists of elements that it made
/// itself. Returns how often it replaced; `report` is called with each pattern and the names of the
/// elements that it replaced.
///
/// # Errors
/// Patterns that never come to an end.
pub fn transform(
    graph: Graph,
    patterns: &[Pattern],
    mut report: impl FnMut(&Pattern, &[String]),
) -> Result<Graph, Endless> {
    let most = REPLACED_MAX + REPLACED_PER_ELEMENT * graph.elements.len();
    // By element, the pattern that made it.
    let mut makers: Vec<Option<usize>> = vec![None; graph.elements.len()];
    let mut editor = Editor::new(graph);
    let mut count = 0;
    while let Some((at, found)) = first(&editor, patterns, &makers) {
        let pattern = &patterns[at];
        if count == most {
            return Err(Endless { name: pattern.name.clone(), count });
        }
        count += 1;
        let names = found.elements.iter().map(|at| editor.element(*at).name.clone());
        let names: Vec<String> = names.collect();
        report(pattern, &names);
        let added = replace(&mut editor, pattern, (&found, &names), count);
        makers.extend(std::iter::repeat_n(Some(at), added));
    }
    Ok(editor.finish())
}

/// The first pattern that matches, and where.
fn first(
    editor: &Editor,
    patterns: &[Pattern],
    makers: &[Option<usize>],
) -> Option<(usize, Match)> {
    let body = Body::new(editor);
    patterns.iter().enumerate().find_map(|(at, pattern)| {
        let is_other = |elements: &[usize]| elements.iter().any(|of| makers[*of] != Some(at));
        Some((at, body.find(&pattern.pattern, is_other)?))
    })
}

/// Replaces what was found, elements of these names; returns how many elements the replacement has.
fn replace(
    editor: &mut Editor,
    pattern: &Pattern,
    (found, names): (&Match, &[String]),
    count: usize,
) -> usize {
    let Pattern { name, pattern, replacement } = pattern;
    let prefix = free_prefix(editor, name, count);
    found.elements.iter().for_each(|at| editor.remove(*at));
    let added: Vec<usize> = replacement
        .elements
        .iter()
        .map(|element| {
            // One that the pattern has by the same name takes the place of what was found for it.
            let same = pattern.elements.iter().position(|own| own.name == element.name);
            let name = same.map(|own| names[own].clone());
            let name = name.unwrap_or_else(|| format!("{prefix}/{}", element.name));
            let landmark = element.landmark.clone();
            let (span, context) = (Span::default(), Vec::new());
            let mut new = ElementDecl { name, span, context, landmark, ..element.clone() };
            new.configure(configured(element, found));
            editor.add(new)
        })
        .collect();
    connect(editor, replacement, found, &added);
    added.len()
}

/// The connections of a replacement: its own, and those with what was around the match.
fn connect(editor: &mut Editor, replacement: &Fragment, found: &Match, added: &[usize]) {
    let new = |port: PortRef| PortRef { element: added[port.element], ..port };
    let span = Span::default();
    for (from, to, kind) in &replacement.inner {
        editor.add_edge(Edge { from: new(*from), to: new(*to), kind: *kind, span });
    }
    for (edge, input) in &found.into {
        for (_, to, _) in replacement.entries.iter().filter(|entry| entry.0 == *input) {
            editor.add_edge(Edge { to: new(*to), ..*edge });
        }
        let outputs = replacement.through.iter().filter(|through| through.0 == *input);
        for (_, output) in outputs {
            for (behind, _) in found.out.iter().filter(|out| out.1 == *output) {
                editor.add_edge(Edge { to: behind.to, ..*edge });
            }
        }
    }
    for (edge, output) in &found.out {
        for (from, _, _) in replacement.exits.iter().filter(|exit| exit.1 == *output) {
            editor.add_edge(Edge { from: new(*from), ..*edge });
        }
    }
}

/// The configuration string of a replacement's element, with the values of variables.
fn configured(element: &ElementDecl, found: &Match) -> String {
    if !element.args.iter().any(|arg| is_variable(&arg.text)) {
        return element.config.clone();
    }
    let value = |text: &String| found.variables.get(text).cloned();
    let args = element.args.iter().map(|arg| value(&arg.text).unwrap_or_else(|| arg.text.clone()));
    args.collect::<Vec<_>>().join(", ")
}

/// `NAME@N`, so that no element's name begins with it.
fn free_prefix(editor: &Editor, name: &str, first: usize) -> String {
    let prefixes = (first..).map(|number| format!("{name}@{number}"));
    let is_free = |prefix: &String| {
        let taken = format!("{prefix}/");
        !editor.elements().iter().any(|at| editor.element(*at).name.starts_with(&taken))
    };
    let mut free = prefixes.filter(is_free);
    free.next().unwrap_or_else(|| name.to_owned())
}
