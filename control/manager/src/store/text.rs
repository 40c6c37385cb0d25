//! Specifications as lines, for people and for diffs.

use similar::TextDiff;

use crate::kind::Spec;

/// Lines around a change that a diff shows.
const CONTEXT_LINES: usize = 3;

/// A specification as lines: a field each.
pub fn render<S: Spec>(spec: &S) -> String {
    spec.lines()
}

/// A unified diff of two specifications, each with its title; empty if they are equal. `None` is
/// a resource that is not there.
pub fn diff<S: Spec>(old: (&str, Option<&S>), new: (&str, Option<&S>)) -> String {
    let lines = |spec: Option<&S>| spec.map(render).unwrap_or_default();
    let (before, after) = (lines(old.1), lines(new.1));
    let diff = TextDiff::from_lines(&before, &after);
    diff.unified_diff().context_radius(CONTEXT_LINES).header(old.0, new.0).to_string()
}
