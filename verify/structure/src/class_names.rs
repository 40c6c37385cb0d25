//! Names of element classes where none may be known.
//!
//! The language and the engine run any element: what they use a class for, its spec declares
//! (`Purpose`). A class that is named in a string of theirs is one that they know, even if only an
//! error message does: the message takes the name from the spec. The commands ask for the purpose
//! too; their help and messages may name classes, so that only strings count that are nothing but
//! a class's name.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use thruway_elements::CATALOG;

use crate::references::{attributes, is_test};
use crate::{Problem, Tree};

/// Sources that know no class.
pub const WITHOUT: &[&str] = &["dataplane/engine/src/", "dataplane/lang/src/"];

/// Sources that name classes in texts for users only.
pub const ONLY_IN_TEXTS: &[&str] = &["bin/thruway/src/"];

/// Strings of these sources that name a class of the catalog; tests and comments may.
pub fn named(tree: &Tree) -> Vec<Problem> {
    let mut classes = BTreeSet::new();
    for entry in CATALOG.entries() {
        classes.insert(entry.spec.name);
        classes.extend(entry.spec.aliases.iter().map(|alias| alias.name));
    }
    let is_kept = |path: &str| {
        let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
        let mut kept = WITHOUT.iter().chain(ONLY_IN_TEXTS);
        kept.any(|sources| path.starts_with(sources)) && !is_test
    };
    let sources = tree.sources().filter(|(path, _)| is_kept(path));
    sources.flat_map(|(path, text)| named_in(path, text, &classes)).collect()
}

fn named_in(path: &str, text: &str, classes: &BTreeSet<&str>) -> Vec<Problem> {
    let mut strings = Strings::default();
    if let Ok(file) = syn::parse_file(text) {
        strings.visit_file(&file);
    }
    let may_say = ONLY_IN_TEXTS.iter().any(|sources| path.starts_with(sources));
    let mut problems = Vec::new();
    for (line, string) in strings.found {
        let words = string.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let counts = |word: &&str| classes.contains(word) && (!may_say || string == **word);
        for class in words.filter(counts) {
            let what = format!("names the class {class}");
            let remedy = "let its spec say what is wanted of it (thruway_element::Purpose)";
            problems.push(Problem::new(format!("{path}:{line}"), what, remedy));
        }
    }
    problems
}

/// The strings of a file outside of its tests and comments, each with its line.
#[derive(Default)]
struct Strings {
    found: Vec<(usize, String)>,
}

impl Strings {
    /// Strings in the tokens of a macro.
    fn scan(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.scan(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Ok(string) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                        self.found.push((literal.span().start().line, string.value()));
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Strings {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        // Not comments, which are attributes with a value; texts of errors are lists.
        if let syn::Meta::List(list) = &attribute.meta {
            self.scan(list.tokens.clone());
        }
    }

    fn visit_lit_str(&mut self, string: &'ast syn::LitStr) {
        self.found.push((string.span().start().line, string.value()));
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.scan(call.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locations(path: &str, text: &str) -> Vec<String> {
        let tree = Tree { files: vec![(path.into(), text.into())] };
        named(&tree).into_iter().map(|problem| problem.location).collect()
    }

    const ENGINE: &str = "dataplane/engine/src/x.rs";

    #[test]
    fn classes_are_found_in_every_sort_of_string() {
        let text = "const A: &str = \"Queue\";\nfn f() { g(\"put\\nTCPOut behind\");\n\
                    panic!(\"{} {}\", 1, h(\"CTXDispatcher@1\")) }\n\
                    #[error(\"no Tee\")]\nstruct E;";
        assert_eq!(locations(ENGINE, text), [1, 2, 3, 4].map(|line| format!("{ENGINE}:{line}")));
    }

    #[test]
    fn comments_tests_and_other_sources_may_name_them() {
        let text = "/// As Queue.\nfn f() {} // Tee\nstruct Queue;\nconst A: &str = \"Queues\";\n\
                    #[cfg(test)]\nmod tests { const A: &str = \"Queue\"; }";
        assert_eq!(locations(ENGINE, text), [""; 0]);
        let text = "const A: &str = \"a Queue\";\nconst B: &str = \"Queue\";";
        assert_eq!(locations("bin/thruway/src/x.rs", text), ["bin/thruway/src/x.rs:2"]);
        let text = "const A: &str = \"Queue\";";
        for path in ["dataplane/element/src/x.rs", "dataplane/lang/src/tests/x.rs"] {
            assert_eq!(locations(path, text), [""; 0]);
        }
    }
}
