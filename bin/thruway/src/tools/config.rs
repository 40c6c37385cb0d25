//! The configuration that a tool reads, and the text that it writes.

use thruway_elements::CATALOG;
use thruway_lang::{Graph, Source, Variables, parse_with};

use crate::load::{Libraries, plain};

/// The configuration, if its text is right; Click's tools do not look at ports either.
pub fn graph(source: Source, path: &str, variables: &Variables) -> Option<Graph> {
    let libraries = Libraries::new(path);
    let (graph, found) = parse_with(source, &CATALOG, variables, &libraries);
    if found.has_errors() {
        err!("{}", found.click());
        return None;
    }
    Some(graph)
}

/// Writes a text to a file; without one, or to `-`, prints it.
pub fn write(output: Option<&str>, text: &str) -> Result<(), String> {
    match output {
        None | Some("-") => {
            out!("{text}");
            Ok(())
        }
        Some(file) => {
            std::fs::write(file, text).map_err(|error| format!("{file}: {}", plain(&error)))
        }
    }
}
