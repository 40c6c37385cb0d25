//! Sizes of files and functions, as ratchets.
//!
//! What is larger than wanted stands with its size in `sizes.txt`; a size there may only shrink.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::Visit;

use crate::{Problem, Tree};

/// Lines of a file that nobody needs to explain.
pub const FILE_LINES: usize = 500;
/// Lines that no file may have.
pub const FILE_LINES_MAX: usize = 800;
/// Lines of a function, from its name to its closing brace, blank and comment lines left out.
pub const FUNCTION_LINES: usize = 70;
/// Columns of a line.
pub const COLUMNS: usize = 100;
/// Where the exceptions are, from the root.
pub const EXCEPTIONS: &str = "verify/structure/sizes.txt";

/// Files and functions above the wanted size: `path` or `path function` to lines.
pub fn oversized(tree: &Tree) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for (path, text) in tree.sources() {
        let lines = text.lines().count();
        if lines > FILE_LINES {
            found.insert(path.to_owned(), lines);
        }
        for (function, lines) in functions(text) {
            if lines > FUNCTION_LINES {
                let entry = found.entry(format!("{path} {function}")).or_default();
                *entry = lines.max(*entry);
            }
        }
    }
    found
}

/// The list of exceptions: lines `PATH [FUNCTION] LINES`.
pub fn exceptions(text: &str) -> BTreeMap<String, usize> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let entries = lines.filter_map(|line| {
        let (name, size) = line.trim().rsplit_once(' ')?;
        Some((name.to_owned(), size.parse().ok()?))
    });
    entries.collect()
}

/// What does not fit the list of exceptions.
pub fn problems(found: &BTreeMap<String, usize>, listed: &BTreeMap<String, usize>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, lines) in found {
        let is_file = !name.contains(' ');
        if is_file && *lines > FILE_LINES_MAX {
            let what = format!("{lines} lines; no file has more than {FILE_LINES_MAX}");
            problems.push(Problem::new(name, what, "part it by ideas"));
            continue;
        }
        let (limit, sort) =
            if is_file { (FILE_LINES, "file") } else { (FUNCTION_LINES, "function") };
        match listed.get(name) {
            Some(allowed) if lines <= allowed => {}
            Some(allowed) => problems.push(Problem::new(
                name,
                format!("{lines} lines; it had {allowed} and may only shrink"),
                "move what you added into a function or file of its own",
            )),
            None => problems.push(Problem::new(
                name,
                format!("{lines} lines; a {sort} should have at most {limit}"),
                format!("part it; only with a good reason add `{name} {lines}` to {EXCEPTIONS}"),
            )),
        }
    }
    for (name, allowed) in listed {
        let now = found.get(name);
        if now.is_none_or(|now| now < allowed) {
            let remedy = match now {
                Some(now) => format!("write {now} in {EXCEPTIONS}"),
                None => format!("take the line out of {EXCEPTIONS}"),
            };
            problems.push(Problem::new(name, format!("smaller than its {allowed}: good"), remedy));
        }
    }
    problems
}

/// Lines that are too long for a page. Strings are left alone: rustfmt cannot break them; so are
/// comments that are nothing but a link or a row of a table.
pub fn wide(tree: &Tree) -> Vec<Problem> {
    tree.sources().flat_map(|(path, text)| wide_in(path, text)).collect()
}

fn wide_in(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let is_wide = |line: &str| line.chars().count() > COLUMNS;
    if !text.lines().any(is_wide) {
        return problems;
    }
    let mut strings = BTreeSet::new();
    if let Ok(tokens) = text.parse() {
        lines_of_literals(tokens, &mut strings);
    }
    for (at, line) in text.lines().enumerate() {
        if is_wide(line) && !strings.contains(&(at + 1)) && !is_unbreakable(line) {
            let location = format!("{path}:{}", at + 1);
            let what = format!("{} columns", line.chars().count());
            problems.push(Problem::new(location, what, format!("break the line at {COLUMNS}")));
        }
    }
    problems
}

/// Whether a line is a comment of one word that is a link or a path, or a row of a table.
fn is_unbreakable(line: &str) -> bool {
    let Some(comment) = line.trim_start().strip_prefix("//") else { return false };
    let text = comment.trim_start_matches(['/', '!']).trim();
    // `[name]: target` is one word, too.
    let word = text.split_once("]: ").map_or(text, |(_, target)| target);
    let is_link = !word.contains(' ') && word.contains(['/', ':', '[']);
    is_link || (text.starts_with('|') && text.ends_with('|'))
}

/// Lines that a literal touches. A doc comment, which is one to the compiler, is none here.
fn lines_of_literals(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) if is_doc(&group) => {}
            TokenTree::Group(group) => lines_of_literals(group.stream(), lines),
            TokenTree::Literal(literal) => {
                lines.extend(literal.span().start().line..=literal.span().end().line);
            }
            _ => {}
        }
    }
}

/// Whether a group is the `[doc = "..."]` that a doc comment becomes.
fn is_doc(group: &proc_macro2::Group) -> bool {
    let first = group.stream().into_iter().next();
    let word = matches!(first, Some(TokenTree::Ident(word)) if word == "doc");
    word && group.delimiter() == Delimiter::Bracket
}

/// Name and size of each function of a source.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut meter = Meter { lines: &lines, found: Vec::new() };
    if let Ok(file) = syn::parse_file(text) {
        meter.visit_file(&file);
    }
    meter.found
}

struct Meter<'a> {
    lines: &'a [&'a str],
    found: Vec<(String, usize)>,
}

impl Meter<'_> {
    fn measure(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.ident.span().start().line - 1;
        let last = block.brace_token.span.close().end().line;
        let code = self.lines[first..last].iter().filter(|line| !line.is_empty());
        let count = code.filter(|line| !line.starts_with("//")).count();
        self.found.push((signature.ident.to_string(), count));
    }
}

impl<'ast> Visit<'ast> for Meter<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig, &item.block);
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig, &item.block);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.measure(&item.sig, block);
        }
        syn::visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, usize)]) -> BTreeMap<String, usize> {
        entries.iter().map(|(name, lines)| ((*name).to_owned(), *lines)).collect()
    }

    #[test]
    fn functions_are_measured_by_braces_that_count() {
        let text = "/// Doc.\nfn a() {\n    // {{{\n    let s = \"}\";\n\n    b();\n}\n\
                    struct S;\nimpl S {\n    fn b(\n        x: u8,\n    ) -> u8 {\n        x\n    }\n}\n";
        assert_eq!(functions(text), [("a".to_owned(), 4), ("b".to_owned(), 5)]);
    }

    #[test]
    fn large_things_are_found() {
        let body = "    f();\n".repeat(FUNCTION_LINES);
        let text = format!("fn g() {{\n{body}}}\n{}", "// x\n".repeat(FILE_LINES));
        let tree = Tree { files: vec![("a.rs".into(), text)] };
        let found = oversized(&tree);
        let lines = FILE_LINES + FUNCTION_LINES + 2;
        assert_eq!(found, map(&[("a.rs", lines), ("a.rs g", FUNCTION_LINES + 2)]));
    }

    #[test]
    fn the_ratchet_only_turns_one_way() {
        let listed = exceptions("# words\na.rs 600\na.rs f 90\n");
        assert_eq!(listed, map(&[("a.rs", 600), ("a.rs f", 90)]));
        assert_eq!(problems(&map(&[("a.rs", 600), ("a.rs f", 90)]), &listed), []);
        for found in [
            map(&[("a.rs", 601), ("a.rs f", 90)]),
            map(&[("a.rs", 600), ("a.rs f", 89)]),
            map(&[("a.rs", 600)]),
            map(&[("a.rs", 600), ("a.rs f", 90), ("b.rs g", 71)]),
        ] {
            assert_eq!(problems(&found, &listed).len(), 1, "{found:?}");
        }
        let listed = map(&[("a.rs", 900)]);
        assert_eq!(problems(&map(&[("a.rs", 900)]), &listed).len(), 1, "the wall");
    }

    #[test]
    fn wide_lines_are_found() {
        let text = format!("// {}\nconst S: &str = \"{}\";\n", "é".repeat(98), "x".repeat(100));
        let tree = Tree { files: vec![("a.rs".into(), text)] };
        assert_eq!(wide(&tree).len(), 1);
    }

    #[test]
    fn wide_doc_comments_are_found() {
        let (words, word) = ("word ".repeat(20), format!("crate::{}", "x".repeat(100)));
        let of = |line: String| wide_in("a.rs", &format!("{line}\nmod m {{}}\n")).len();
        for mark in ["///", "//!", "//"] {
            assert_eq!(of(format!("{mark} {words}end")), 1, "{mark}");
            for line in [word.clone(), format!("[a b]: {word}"), format!("| {words} | {words} |")] {
                assert_eq!(of(format!("{mark} {line}")), 0, "{mark} {line}");
            }
        }
        assert_eq!(of(format!("    /// {words}end\n    struct S;")), 1, "indented");
        assert_eq!(of(format!("const S: &str = \"\n/// {words}end\";")), 0, "a string");
    }
}
