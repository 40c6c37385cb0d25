//! The table in ARCHITECTURE.md that names the functions which a packet passes: each is there.

use crate::{Problem, Tree};

const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## One packet, function by function";
/// A table that lost most of its rows says nothing any more.
const STEPS_MIN: usize = 20;

/// What the table names and the sources do not have.
pub fn missing(tree: &Tree) -> Vec<Problem> {
    let text = tree.text(PAGE).unwrap_or_default();
    let rows: Vec<(usize, Vec<&str>)> = rows(text).collect();
    let problem = |line: usize, what: String| {
        Problem::new(format!("{PAGE}:{line}"), what, "name the function that is there now")
    };
    let mut problems = Vec::new();
    if rows.len() < STEPS_MIN {
        problems.push(problem(1, format!("'{HEADING}' has {} steps", rows.len())));
    }
    for (line, names) in rows {
        let Some((file, functions)) = names.split_first() else { continue };
        let Some(source) = tree.text(file) else {
            problems.push(problem(line, format!("there is no {file}")));
            continue;
        };
        let absent = functions.iter().filter(|name| !defines(source, name));
        problems.extend(absent.map(|name| problem(line, format!("{file} has no function {name}"))));
    }
    problems
}

/// Whether a source defines a function of this name.
fn defines(source: &str, name: &str) -> bool {
    let mut after = source.match_indices("fn ").map(|(at, word)| &source[at + word.len()..]);
    after.any(|rest| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with(['(', '<'])))
}

/// The rows below the heading: line, and what stands in backquotes behind the first column.
fn rows(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = text.lines().zip(1..).skip_while(|(line, _)| *line != HEADING).skip(1);
    let section = lines.take_while(|(line, _)| !line.starts_with("## "));
    let table = section.filter(|(line, _)| line.starts_with("| ") && !line.starts_with("| step"));
    table.map(|(line, at)| {
        let columns = line.trim_start_matches("| ").split_once(" | ").map_or("", |(_, rest)| rest);
        (at, columns.split('`').skip(1).step_by(2).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_files_and_functions() {
        let text = format!(
            "{HEADING}\n\n| step | a |\n|---|---|\n| `x` y | `f.rs` | `a`, `b` |\n## Z\n| no | `g` |"
        );
        assert_eq!(rows(&text).collect::<Vec<_>>(), [(5, vec!["f.rs", "a", "b"])]);
    }

    #[test]
    fn functions_are_told_from_longer_names_and_calls() {
        let source = "fn put_parts() {}\n    pub fn take<S>(self) {}\n put(1);";
        assert!(defines(source, "put_parts") && defines(source, "take"));
        assert!(!defines(source, "put") && !defines(source, "tak"));
    }
}
