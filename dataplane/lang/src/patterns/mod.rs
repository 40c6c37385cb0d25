//! Patterns: parts of a configuration, and what they are replaced by, as `click-xform` does it.
//!
//! A pattern is a compound element class `X`, its replacement the class `X_Replacement`. What
//! matches, and what a replacement is connected to, is Click's definition (click-xform(1), "FORMAL
//! DEFINITION OF MATCHING").

mod fragment;
mod matching;
mod replace;

use std::sync::Arc;

use thruway_element::Catalog;

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::expand::expand;
use crate::lower::{Loader, Lowerer};
use crate::scope::{ClassId, Scope};
use crate::source::{Source, Span};
use crate::variables::Variables;
use fragment::{Fragment, Instance};

pub use replace::{Endless, transform};

/// How the name of a replacement ends.
const REPLACEMENT: &str = "_Replacement";

/// A pattern with its replacement.
#[derive(Debug, Clone)]
pub struct Pattern {
    name: String,
    pattern: Fragment,
    replacement: Fragment,
}

impl Pattern {
    /// The name of the pattern's class.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Reads all patterns of a text, in the order of their replacements; `is_reverse` exchanges each
/// pattern with its replacement, and their order. There are none if there are errors.
pub fn read(
    source: Source,
    catalog: &dyn Catalog,
    loader: &dyn Loader,
    is_reverse: bool,
) -> (Vec<Pattern>, Diagnostics) {
    let mut lowerer = Lowerer::new(catalog, loader);
    let mut scope = Scope::default();
    lowerer.file(source, &mut scope);
    lowerer.diagnostics.sort();
    let pairs = pairs(&mut lowerer);
    // Only the pairs are expanded: what else the text declares may be a part of them.
    let mut outer = Scope { defines: scope.defines, ..Scope::default() };
    let instances: Vec<[Instance; 2]> = pairs
        .iter()
        .map(|(_, classes)| classes.map(|class| Instance::declare(&mut outer, &mut lowerer, class)))
        .collect();
    outer.make_names_unique();
    let (elements, edges) = expand(&mut lowerer, outer, &Variables::new());
    let sources = Arc::new(std::mem::take(&mut lowerer.sources));
    let mut found = std::mem::take(&mut lowerer.diagnostics);
    found.sources = Arc::clone(&sources);
    if found.has_errors() {
        return (Vec::new(), found);
    }
    let mut patterns = Vec::new();
    for ((name, _), [pattern, replacement]) in pairs.into_iter().zip(instances) {
        let [pattern, replacement] = match is_reverse {
            true => [replacement, pattern],
            false => [pattern, replacement],
        };
        let read = |instance: Instance| instance.fragment(&elements, &edges);
        let (pattern, replacement) = (read(pattern), read(replacement));
        check(&name, &pattern, &replacement, &mut found);
        patterns.push(Pattern { name, pattern, replacement });
    }
    if is_reverse {
        patterns.reverse();
    }
    (if found.has_errors() { Vec::new() } else { patterns }, found)
}

/// The classes that are patterns with replacements; a replacement without a pattern is a warning.
fn pairs(lowerer: &mut Lowerer<'_>) -> Vec<(String, [ClassId; 2])> {
    let compounds = lowerer.compounds();
    let mut pairs = Vec::new();
    for (name, replacement, span) in &compounds {
        let Some(name) = name.strip_suffix(REPLACEMENT).filter(|name| !name.is_empty()) else {
            continue;
        };
        match compounds.iter().find(|(other, ..)| other == name) {
            Some((_, pattern, _)) => pairs.push((name.to_owned(), [*pattern, *replacement])),
            None => {
                let message = format!("'{name}{REPLACEMENT}' replaces nothing");
                let note = format!("The pattern is to be a compound element class '{name}'.");
                lowerer.diagnostics.push(Diagnostic::warning(*span, message).note(note));
            }
        }
    }
    pairs
}

/// What would never match, or could not be put into a pattern's place.
fn check(name: &str, pattern: &Fragment, replacement: &Fragment, found: &mut Diagnostics) {
    let mut error = |span: Span, message: String, note: &str| {
        found.push(Diagnostic::error(span, message).note(note));
    };
    if pattern.elements.is_empty() {
        let message = format!("pattern '{name}' has no elements, so it matches nothing");
        error(pattern.span, message, "Put the elements that are to be found into it.");
    } else if let Some((input, output)) = pattern.through.first() {
        let message =
            format!("pattern '{name}' connects its input {input} and its output {output} directly");
        error(pattern.span, message, "Put an element between them: only elements are found.");
    }
    let sides = [
        ("input", pattern.inputs, replacement.inputs, "end it with a sink"),
        ("output", pattern.outputs, replacement.outputs, "begin it with a source"),
    ];
    for (side, wanted, there, remedy) in sides {
        if wanted != there {
            let message = format!(
                "pattern '{name}' has {wanted} {side}s, and its replacement {there}: give both the \
                 same number"
            );
            let note = format!("Where the replacement does not use an {side}, {remedy}.");
            error(replacement.span, message, &note);
        }
    }
    for (variable, span) in &replacement.variables {
        if !pattern.variables.iter().any(|(known, _)| known == variable) {
            let message = format!("variable '{variable}' is not in the pattern '{name}'");
            let note = "It must be an argument of an element there, all of it, to have a value.";
            error(*span, message, note);
        }
    }
}

#[cfg(test)]
mod tests;
