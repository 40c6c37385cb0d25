//! Specifications as lines, for people and for diffs.

use std::fmt::Write as _;

use similar::TextDiff;

use crate::ChainSpec;

/// Lines around a change that a diff shows.
const CONTEXT_LINES: usize = 3;

/// A specification as lines: a field each, then the configuration, indented.
pub fn render(spec: &ChainSpec) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    if let Some(threads) = spec.threads {
        let _ = writeln!(text, "threads: {threads}");
    }
    if let Some(cores) = &spec.cores {
        let _ = writeln!(text, "cores: {cores:?}");
    }
    if spec.stopped {
        text += "stopped: true\n";
    }
    if !spec.variables.is_empty() {
        text += "variables:\n";
    }
    for (name, value) in &spec.variables {
        let _ = writeln!(text, "  {name}: {value:?}");
    }
    text += "configuration:\n";
    for line in spec.configuration.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// A unified diff of two specifications, each with its title; empty if they are equal. `None` is
/// a chain that is not there.
pub fn diff(old: (&str, Option<&ChainSpec>), new: (&str, Option<&ChainSpec>)) -> String {
    let lines = |spec: Option<&ChainSpec>| spec.map(render).unwrap_or_default();
    let (before, after) = (lines(old.1), lines(new.1));
    let diff = TextDiff::from_lines(&before, &after);
    diff.unified_diff().context_radius(CONTEXT_LINES).header(old.0, new.0).to_string()
}
