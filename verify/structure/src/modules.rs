//! The modules of a crate, and which file names what another file defines.
//!
//! A module is a file here; a `mod x { ... }` inside a file belongs to that file. Code under
//! `cfg(test)` is left out. [`Modules::imports`] says what counts as an import.

use std::collections::{BTreeMap, BTreeSet};

use crate::Tree;
use crate::paths::{folder, join};
use crate::references::{self, Import, Scope};

/// Steps that an import may take through re-exports. Only a circle of globs takes more.
const STEPS_MAX: usize = 12;

/// One file names what another one defines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// File that names it.
    pub from: String,
    /// File that defines it.
    pub to: String,
    /// Line of the first place in `from`.
    pub line: usize,
    /// The path as it is written there.
    pub path: String,
}

/// The modules of one crate, from its root (`lib.rs`, `main.rs`, a file of `bin`).
#[derive(Debug, Default)]
pub struct Modules {
    scopes: Vec<Module>,
}

#[derive(Debug)]
struct Module {
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    scope: Scope,
}

/// What a name means in a module.
enum Meaning {
    Module(usize),
    /// Something that this module defines.
    Item(usize),
    /// Something of another crate.
    Foreign,
}

impl Modules {
    /// The modules of every crate of the repository.
    pub fn of_crates(tree: &Tree) -> Vec<Modules> {
        let crates: BTreeSet<String> = tree.crates().into_iter().map(|one| one.directory).collect();
        let is_root = |path: &str| {
            crates.iter().any(|one| {
                let rest = path.strip_prefix(one.as_str()).and_then(|r| r.strip_prefix("/src/"));
                rest.is_some_and(|rest| match rest.strip_prefix("bin/") {
                    Some(bin) => !bin.contains('/') || bin.ends_with("/main.rs"),
                    None => rest == "lib.rs" || rest == "main.rs",
                })
            })
        };
        let roots = tree.sources().filter(|(path, _)| is_root(path));
        roots.map(|(path, _)| Modules::read(tree, path)).collect()
    }

    /// The modules that the file `root` declares, directly or through others.
    pub fn read(tree: &Tree, root: &str) -> Modules {
        let mut loader = Loader { tree, modules: Modules::default() };
        loader.enter_file(root, None, folder(root));
        loader.modules
    }

    /// Files that name what other files of the crate define, each pair once.
    ///
    /// A `use`, a path in code or in the tokens of a macro counts, and leads to the file that
    /// *defines* the name: re-exports on the way are looked through. It does not count that a
    /// module declares another (`mod x;`), or that it re-exports (`pub use`) what is below it.
    pub fn imports(&self) -> Vec<Edge> {
        let mut found: BTreeMap<(String, String), Edge> = BTreeMap::new();
        for (at, module) in self.scopes.iter().enumerate() {
            for import in &module.scope.imports {
                let Some(target) = self.target(at, import) else { continue };
                let (from, to) = (module.file.clone(), self.scopes[target].file.clone());
                if from == to || (import.is_reexport && self.is_below(target, at)) {
                    continue;
                }
                let (line, path) = (import.line, import.path.join("::"));
                let edge = Edge { from: from.clone(), to: to.clone(), line, path };
                let known = found.entry((from, to)).or_insert_with(|| edge.clone());
                if edge.line < known.line {
                    *known = edge;
                }
            }
        }
        found.into_values().collect()
    }

    fn is_below(&self, mut module: usize, above: usize) -> bool {
        while let Some(parent) = self.scopes[module].parent {
            if parent == above {
                return true;
            }
            module = parent;
        }
        false
    }

    /// The module that an import leads to; none for another crate's or an unknown name.
    fn target(&self, at: usize, import: &Import) -> Option<usize> {
        // A lone word is a variable rather than a module, but may be a name that is re-exported.
        if let [word] = import.path.as_slice()
            && !import.is_use
            && !self.scopes[at].scope.names.contains_key(word)
        {
            return None;
        }
        match self.resolve(at, &import.path, STEPS_MAX)? {
            Meaning::Module(module) | Meaning::Item(module) => Some(module),
            Meaning::Foreign => None,
        }
    }

    /// What a path that is written in module `at` means.
    fn resolve(&self, at: usize, path: &[String], steps: usize) -> Option<Meaning> {
        let steps = steps.checked_sub(1)?;
        let (mut module, mut rooted) = (at, false);
        for word in path {
            let meaning = match word.as_str() {
                "crate" => Meaning::Module(0),
                "self" => Meaning::Module(module),
                "super" => Meaning::Module(self.scopes[module].parent?),
                word => match self.look_up(module, word, steps) {
                    Some(meaning) => meaning,
                    // Unknown behind a module of ours: a macro made it there.
                    None if rooted => Meaning::Item(module),
                    None => return None,
                },
            };
            match meaning {
                Meaning::Module(next) => (module, rooted) = (next, true),
                end => return Some(end),
            }
        }
        Some(Meaning::Module(module))
    }

    fn look_up(&self, module: usize, word: &str, steps: usize) -> Option<Meaning> {
        let steps = steps.checked_sub(1)?;
        let Module { children, scope, .. } = &self.scopes[module];
        if let Some(child) = children.get(word) {
            return Some(Meaning::Module(*child));
        }
        if scope.items.contains(word) {
            return Some(Meaning::Item(module));
        }
        if let Some(path) = scope.names.get(word) {
            // `use word;` would look for itself.
            let itself = path.len() == 1 && path[0] == word;
            let found = if itself { None } else { self.resolve_use(module, word, path, steps) };
            return Some(found.unwrap_or(Meaning::Foreign));
        }
        let targets = scope.globs.iter().filter_map(|path| self.resolve(module, path, steps));
        let modules = targets.filter_map(|meaning| match meaning {
            Meaning::Module(target) if target != module => Some(target),
            _ => None,
        });
        modules.into_iter().find_map(|target| self.look_up(target, word, steps))
    }

    /// What `use path` (as `word`) means: `use word::word` begins with the crate `word`.
    fn resolve_use(
        &self,
        module: usize,
        word: &str,
        path: &[String],
        steps: usize,
    ) -> Option<Meaning> {
        let is_own = self.scopes[module].children.contains_key(&path[0]);
        if path[0] == word && !is_own { None } else { self.resolve(module, path, steps) }
    }
}

/// Follows `mod` from file to file.
struct Loader<'a> {
    tree: &'a Tree,
    modules: Modules,
}

impl Loader<'_> {
    fn enter_file(&mut self, file: &str, parent: Option<usize>, directory: &str) {
        let Some(parsed) = self.tree.text(file).and_then(|text| syn::parse_file(text).ok()) else {
            return;
        };
        let scope = references::read(&parsed.items);
        self.enter(
            Module { file: file.into(), parent, children: BTreeMap::new(), scope },
            directory,
        );
    }

    /// Takes in a module, then those that it declares; files of these are in `directory`.
    fn enter(&mut self, mut module: Module, directory: &str) {
        let own = self.modules.scopes.len();
        let declared = std::mem::take(&mut module.scope.modules);
        let file = module.file.clone();
        self.modules.scopes.push(module);
        for child in declared {
            let below = format!("{directory}/{}", child.name);
            let at = self.modules.scopes.len();
            match (child.inline, child.file) {
                (Some(scope), _) => {
                    let (file, children) = (file.clone(), BTreeMap::new());
                    let module = Module { file, parent: Some(own), children, scope: *scope };
                    self.enter(module, &below);
                }
                (None, Some(named)) => {
                    let path = join(folder(&file), &named);
                    self.enter_file(&path, Some(own), folder(&path));
                }
                (None, None) => {
                    let (flat, nested) = (format!("{below}.rs"), format!("{below}/mod.rs"));
                    let path = if self.tree.text(&flat).is_some() { flat } else { nested };
                    self.enter_file(&path, Some(own), &below);
                }
            }
            if self.modules.scopes.len() > at {
                self.modules.scopes[own].children.insert(child.name, at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The imports of a crate of these files, as `from to` without `.rs`.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let mut files: Vec<(String, String)> =
            files.iter().map(|(path, text)| (format!("x/y/src/{path}"), (*text).into())).collect();
        files.push(("x/y/Cargo.toml".into(), "[package]\nname = \"thruway-y\"\n".into()));
        files.sort();
        let edges = Modules::of_crates(&Tree { files }).into_iter().flat_map(|one| one.imports());
        let short = |path: &str| path["x/y/src/".len()..].trim_end_matches(".rs").to_owned();
        edges.map(|edge| format!("{} {}", short(&edge.from), short(&edge.to))).collect()
    }

    #[test]
    fn uses_paths_and_macros_are_imports() {
        let found = imports(&[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::{self, B};"),
            ("b.rs", "pub struct B; fn f() -> super::c::C { super::c::C }"),
            ("c.rs", "pub struct C; fn f() { println!(\"{}\", crate::d::N); }"),
            ("d.rs", "pub const N: u8 = 0;"),
        ]);
        assert_eq!(found, ["a b", "b c", "c d"]);
    }

    #[test]
    fn a_parent_that_declares_and_reexports_imports_nothing() {
        let files = |more: &str| {
            let root = format!("mod a; pub use a::A; pub struct Own; {more}");
            imports(&[("lib.rs", &root), ("a.rs", "use crate::Own; pub struct A;")])
        };
        assert_eq!(files(""), ["a lib"]);
        assert_eq!(files("fn f(a: &A) {}"), ["a lib", "lib a"], "it uses what it re-exports");
        assert_eq!(files("fn f(a: &a::A) {}"), ["a lib", "lib a"], "by the child's name");
    }

    #[test]
    fn reexports_and_globs_are_looked_through() {
        let found = imports(&[
            ("lib.rs", "mod a; mod b; pub use b::*; pub use std::fmt;"),
            ("a.rs", "use crate::{One, Two, fmt}; use super::One as _;"),
            ("b/mod.rs", "mod one; mod two; pub use one::One; pub use two::Two;"),
            ("b/one.rs", "pub struct One;"),
            ("b/two.rs", "pub struct Two;"),
        ]);
        assert_eq!(found, ["a b/one", "a b/two"]);
    }

    #[test]
    fn modules_in_a_file_belong_to_it_and_tests_to_nothing() {
        let found = imports(&[
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod t;"),
            ("a.rs", "struct A; mod inner { use super::A; use super::super::b::B; }"),
            ("b.rs", "pub struct B; #[cfg(all(test, not(loom)))] mod tests { use crate::a; }"),
            ("t.rs", "use crate::a;"),
        ]);
        assert_eq!(found, ["a b"]);
    }

    #[test]
    fn other_crates_variables_and_visibility_are_no_imports() {
        let found = imports(&[
            ("lib.rs", "mod a; mod list; use serde::Serialize; fn f(list: u8) -> u8 { list }"),
            ("a.rs", "use std::fmt; use log; pub(super) fn f() {} pub(in crate::list) fn g() {}"),
            ("list.rs", ""),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn programs_have_modules_of_their_own() {
        let found = imports(&[
            ("bin/p.rs", "#[path = \"../shared/q.rs\"] mod q; fn main() { q::f() }"),
            ("shared/q.rs", "pub fn f() { crate::main() }"),
        ]);
        assert_eq!(found, ["bin/p shared/q", "shared/q bin/p"]);
    }

    #[test]
    fn globs_in_a_circle_end() {
        let found = imports(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use super::b::*; fn f() { nothing::known() }"),
            ("b.rs", "use super::a::*;"),
        ]);
        assert_eq!(found, ["a b", "b a"]);
    }
}
