//! Libraries that are searched for examples in their documentation, and have none.
//!
//! The search takes more than a second for each library, in each run of the tests. So a library
//! without examples says `doctest = false`; one with examples must not, or they would not be run.

use crate::{Problem, Tree};

/// What a manifest has below `[lib]`.
const SWITCH: &str = "doctest = false";

/// Manifests of libraries that say the opposite of what their sources have.
pub fn contradictions(tree: &Tree) -> Vec<Problem> {
    let manifests = tree.files.iter().filter_map(|(path, text)| {
        let directory = path.strip_suffix("Cargo.toml")?;
        let is_library = tree.text(&format!("{directory}src/lib.rs")).is_some();
        is_library.then_some((path, directory, text.lines().any(|line| line == SWITCH)))
    });
    let problem = |(path, directory, is_off): (&String, &str, bool)| {
        let what = match (has_examples(tree, directory), is_off) {
            (true, true) => "its examples in documentation are not run",
            (false, false) => "it is searched for examples, and has none",
            _ => return None,
        };
        let verb = if is_off { "remove" } else { "add" };
        Some(Problem::new(path, what, format!("{verb} `{SWITCH}` below [lib]")))
    };
    manifests.filter_map(problem).collect()
}

/// Whether a block of Rust is in a documentation comment.
fn has_examples(tree: &Tree, directory: &str) -> bool {
    let sources = format!("{directory}src/");
    let mut of_library = tree.sources().filter(|(path, _)| path.starts_with(&sources));
    of_library.any(|(_, text)| {
        let mut is_inside = false;
        text.lines().filter_map(fence).any(|language| {
            is_inside = !is_inside;
            is_inside
                && (language.is_empty() || ["rust", "no_run", "should_panic"].contains(&language))
        })
    })
}

/// What stands behind the fence of a block in a documentation comment.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    Some(comment.trim_start().strip_prefix("```")?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(manifest: &str, library: &str) -> Tree {
        let files = vec![
            ("base/x/Cargo.toml".into(), manifest.into()),
            ("base/x/src/lib.rs".into(), library.into()),
        ];
        Tree { files }
    }

    #[test]
    fn what_a_library_says_is_what_it_has() {
        let (on, off) = ("[lib]\n", "[lib]\ndoctest = false\n");
        let none = "//! ```text\n//! a picture\n//! ```\npub fn f() {}\n";
        let some = "/// ```\n/// assert!(true);\n/// ```\npub fn f() {}\n";
        for (manifest, library, problems) in
            [(on, none, 1), (off, none, 0), (on, some, 0), (off, some, 1)]
        {
            let found = contradictions(&tree(manifest, library));
            assert_eq!(found.len(), problems, "{manifest}{library}{found:?}");
        }
    }
}
