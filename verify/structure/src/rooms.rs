//! Rooms of unsafe code and of atomics.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

use crate::{Problem, Tree};

/// Crates that may use `unsafe`.
pub const UNSAFE: &[&str] = &[
    "base/region",
    "dataplane/packet",
    "dataplane/port",
    "dataplane/exchange",
    "nf/host",
    "nf/sdk-c",
    "bench/baseline",
    "verify/hostile",
    "verify/escape",
];

/// The crate that may name the atomics of `core` and of loom.
pub const ATOMIC: &str = "base/sync";

/// Crate roots without `#![forbid(unsafe_code)]`, outside [`UNSAFE`].
pub fn unforbidden(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.sources() {
        let root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
        if root && !within(path, UNSAFE) && !text.contains("#![forbid(unsafe_code)]") {
            problems.push(Problem::new(
                path,
                "a crate root that does not forbid unsafe code",
                "add #![forbid(unsafe_code)]",
            ));
        }
    }
    problems
}

/// `unsafe` outside [`UNSAFE`], tests and examples included, and inside them where a block lacks
/// its two comments.
pub fn unsafe_locations(tree: &Tree) -> Vec<Problem> {
    tree.sources().flat_map(|(path, text)| unsafe_in(path, text)).collect()
}

fn unsafe_in(path: &str, text: &str) -> Vec<Problem> {
    let mut lines = Vec::new();
    if let Ok(tokens) = text.parse::<TokenStream>() {
        unsafe_lines(tokens, &mut lines);
    }
    let allowed = within(path, UNSAFE);
    let problem = |line: &usize| {
        let location = format!("{path}:{line}");
        if !allowed {
            let remedy = format!("unsafe code lives in {} only", UNSAFE.join(", "));
            return Some(Problem::new(location, "unsafe", remedy));
        }
        let missing = missing_comment(text, *line)?;
        let what = format!("unsafe without a comment {missing}");
        Some(Problem::new(location, what, "say above it why it is needed and why it is sound"))
    };
    lines.iter().filter_map(problem).collect()
}

/// Lines of `unsafe {` and `unsafe impl`; an `unsafe fn` only passes the duty on.
fn unsafe_lines(tokens: TokenStream, lines: &mut Vec<usize>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => unsafe_lines(group.stream(), lines),
            TokenTree::Ident(word) if *word == "unsafe" => {
                let passes_on = matches!(
                    tokens.get(at + 1),
                    Some(TokenTree::Ident(next)) if *next == "fn" || *next == "extern"
                );
                if !passes_on {
                    lines.push(word.span().start().line);
                }
            }
            _ => {}
        }
    }
}

/// Which of its two comments an unsafe block lacks: `SAFETY:` stands right above it,
/// `JUSTIFICATION:` once in its function. An `unsafe impl` is its own justification.
fn missing_comment(text: &str, line: usize) -> Option<&'static str> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let mut at = line - 1;
    // The statement may have begun some lines above: `let x =` or a closure.
    while at > 0 && line - at < 6 && !lines[at - 1].starts_with("//") {
        at -= 1;
    }
    let mut above = lines[..at].iter().rev().take_while(|line| line.starts_with("//"));
    if !above.any(|line| line.contains("SAFETY:")) {
        return Some("SAFETY:");
    }
    let is_head = |line: &&str| line.contains("fn ") && !line.starts_with("//");
    let mut function = lines[..line].iter().rev().take_while(|line| !is_head(line));
    let justified = lines[line - 1].starts_with("unsafe impl")
        || function.any(|line| line.contains("JUSTIFICATION:"));
    (!justified).then_some("JUSTIFICATION:")
}

/// Atomics that are not taken from `thruway_sync`.
pub fn raw_atomics(tree: &Tree) -> Vec<Problem> {
    let sources = tree.sources().filter(|(path, _)| !within(path, &[ATOMIC]));
    sources.flat_map(|(path, text)| raw_atomics_in(path, text)).collect()
}

fn raw_atomics_in(path: &str, text: &str) -> Vec<Problem> {
    let mut finder = AtomicFinder::default();
    match syn::parse_file(text) {
        Ok(file) => finder.visit_file(&file),
        Err(error) => {
            return vec![Problem::new(path, format!("cannot be parsed: {error}"), "")];
        }
    }
    let problem = |line: &usize| {
        let remedy = "take atomics from thruway_sync::atomic, which loom can replace";
        Problem::new(format!("{path}:{line}"), "an atomic of core, std or loom", remedy)
    };
    finder.lines.iter().map(problem).collect()
}

#[derive(Default)]
struct AtomicFinder {
    lines: Vec<usize>,
}

impl AtomicFinder {
    fn judge(&mut self, path: &[String], line: usize) {
        let foreign = ["core", "std", "loom"].contains(&path[0].as_str());
        if foreign
            && path.get(1).is_some_and(|s| s == "sync")
            && path.get(2).is_some_and(|s| s == "atomic")
        {
            self.lines.push(line);
        }
    }

    fn follow(&mut self, tree: &syn::UseTree, path: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.judge(path, step.ident.span().start().line);
                if path.len() < 3 {
                    self.follow(&step.tree, path);
                }
                path.pop();
            }
            syn::UseTree::Name(last) => {
                path.push(last.ident.to_string());
                self.judge(path, last.ident.span().start().line);
                path.pop();
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.follow(tree, path);
                }
            }
            syn::UseTree::Rename(_) | syn::UseTree::Glob(_) => {}
        }
    }
}

impl<'ast> Visit<'ast> for AtomicFinder {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.follow(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.judge(&words, path.segments[0].ident.span().start().line);
        syn::visit::visit_path(self, path);
    }
}

/// Whether a file belongs to one of these crates.
fn within(path: &str, crates: &[&str]) -> bool {
    crates.iter().any(|one| path.strip_prefix(one).is_some_and(|rest| rest.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARE: &str = "fn f() {\n    // A word about unsafe.\n    unsafe { g() }\n}\n";
    const COMMENTED: &str = "fn f() {\n    // JUSTIFICATION: a.\n    // SAFETY: b.\n    let x =\n        unsafe { g() };\n}\n";

    #[test]
    fn unsafe_is_found_outside_its_rooms_and_without_comments() {
        assert_eq!(unsafe_in("base/wire/src/lib.rs", COMMENTED).len(), 1);
        assert_eq!(unsafe_in("base/region/src/lib.rs", COMMENTED), []);
        let problems = unsafe_in("base/region/src/lib.rs", BARE);
        assert_eq!(problems[0].location, "base/region/src/lib.rs:3");
        assert_eq!(unsafe_in("base/wire/src/lib.rs", "// unsafe\nconst S: &str = \"unsafe\";"), []);
    }

    #[test]
    fn raw_atomics_are_found() {
        for bad in [
            "use std::sync::atomic::AtomicU64;",
            "use std::{fmt, sync::{Arc, atomic::{AtomicU64, Ordering}}};",
            "use core::sync::atomic;",
            "fn f() { let x = std::sync::atomic::AtomicU64::new(0); }",
        ] {
            assert_eq!(raw_atomics_in("x.rs", bad).len(), 1, "{bad}");
        }
        let good = "use std::sync::Arc; use thruway_sync::atomic::{AtomicU64, Ordering};";
        assert_eq!(raw_atomics_in("x.rs", good), []);
    }

    #[test]
    fn a_crate_root_forbids() {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let files = vec![
            file("base/region/src/lib.rs", ""),
            file("base/wire/src/lib.rs", ""),
            file("bin/thruway/src/main.rs", "#![forbid(unsafe_code)]"),
        ];
        let problems = unforbidden(&Tree { files });
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].location, "base/wire/src/lib.rs");
    }
}
