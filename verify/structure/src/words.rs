//! Retired words in identifiers.
//!
//! A private word that is no term of the field is retired: `retired-words.txt` lists
//! it with its replacements, and the checked crates. The check covers *definitions*:
//! types, variants, functions, fields, constants, modules, macros, files and folders.
//! It ignores local variables and names of tests (which are sentences). Leftovers are counted
//! by crate and word in `known-retired-words.txt`; a count may only shrink.

use std::collections::BTreeMap;

use syn::ext::IdentExt;
use syn::visit::{self, Visit};

use crate::{Problem, Tree};

/// Path of the list of retired words, from the root.
pub const RETIRED: &str = "verify/structure/retired-words.txt";
/// Path of the counts of leftovers, from the root.
pub const KNOWN: &str = "verify/structure/known-retired-words.txt";

/// The rules of `retired-words.txt`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Retired {
    /// Directories of the checked crates.
    pub crates: Vec<String>,
    /// A word that no identifier may contain, and its replacements.
    pub words: BTreeMap<String, String>,
    /// The whole name of a type that no type may have, and its replacements.
    pub types: BTreeMap<String, String>,
}

/// A definition with a retired word in its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// `FILE:LINE`, or only the file if its own name has the word.
    pub location: String,
    /// The name.
    pub name: String,
}

/// Findings by crate and retired word.
pub type Findings = BTreeMap<(String, String), Vec<Finding>>;

/// Reads lines `crate DIRECTORY`, `word WORD: REPLACEMENTS` and `type NAME: REPLACEMENTS`; other
/// lines are comments.
pub fn retired(text: &str) -> Retired {
    let mut retired = Retired::default();
    for line in text.lines() {
        let Some((kind, rest)) = line.split_once(' ') else { continue };
        let (name, remedy) = rest.split_once(": ").unwrap_or((rest, ""));
        let (name, remedy) = (name.trim().to_owned(), remedy.trim().to_owned());
        match kind {
            "crate" => retired.crates.push(name),
            "word" => _ = retired.words.insert(name, remedy),
            "type" => _ = retired.types.insert(name, remedy),
            _ => {}
        }
    }
    retired
}

/// The retired words in the checked crates.
pub fn findings(tree: &Tree, retired: &Retired) -> Findings {
    let mut found = Findings::new();
    for (path, text) in tree.sources() {
        let below = |one: &&String| path.strip_prefix(one.as_str()).is_some_and(is_below);
        let Some(directory) = retired.crates.iter().find(below) else { continue };
        let mut definitions = Definitions::default();
        let inside = path[directory.len() + 1..].trim_end_matches(".rs");
        for name in inside.split('/') {
            definitions.found.push((0, name.to_owned(), false));
        }
        if let Ok(file) = syn::parse_file(text) {
            definitions.visit_file(&file);
        }
        for (line, name, is_type) in definitions.found {
            for word in retired.matching(&name, is_type) {
                let location = if line == 0 { path.to_owned() } else { format!("{path}:{line}") };
                let finding = Finding { location, name: name.clone() };
                found.entry((directory.clone(), word)).or_default().push(finding);
            }
        }
    }
    found
}

fn is_below(rest: &str) -> bool {
    rest.starts_with('/')
}

impl Retired {
    /// The retired words of a name.
    fn matching(&self, name: &str, is_type: bool) -> Vec<String> {
        if is_type && self.types.contains_key(name) {
            return vec![name.to_owned()];
        }
        words(name).into_iter().filter(|word| self.words.contains_key(word)).collect()
    }

    fn remedy(&self, word: &str) -> &str {
        self.words.get(word).or_else(|| self.types.get(word)).map_or("", String::as_str)
    }
}

/// The words of a name, in lower case: `WayBack`, `way_back` and `WAY_BACK` are equal.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = '_';
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        // The last capital of `TCPWay` begins a word, too.
        let is_last = letters.peek().is_some_and(|next| next.is_lowercase());
        let begins = letter == '_' || letter.is_uppercase() && (!before.is_uppercase() || is_last);
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if letter != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words
}

/// The counts of leftovers: lines `CRATE WORD COUNT`.
pub fn known(text: &str) -> BTreeMap<(String, String), usize> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let entries = lines.filter_map(|line| {
        let [directory, word, count] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
        Some(((directory.to_owned(), word.to_owned()), count.parse().ok()?))
    });
    entries.collect()
}

/// The list with counts lowered to the findings; new words are not added.
pub fn lowered(found: &Findings, known: &BTreeMap<(String, String), usize>) -> String {
    let lower = |(key, count): (&(String, String), &usize)| {
        let now = found.get(key)?.len().min(*count);
        Some(format!("{} {} {now}\n", key.0, key.1))
    };
    known.iter().filter_map(lower).collect()
}

/// New words of a crate, and outdated counts.
pub fn problems(
    found: &Findings,
    known: &BTreeMap<(String, String), usize>,
    retired: &Retired,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, findings) in found {
        let allowed = known.get(key).copied().unwrap_or(0);
        if findings.len() > allowed {
            let names: Vec<String> =
                findings.iter().map(|one| format!("{} {}", one.location, one.name)).collect();
            let (count, list) = (findings.len(), names.join("\n    "));
            let what = format!("'{}' {count} times, {allowed} are known:\n    {list}", key.1);
            let remedy = format!("use a term of the field: {}", retired.remedy(&key.1));
            problems.push(Problem::new(&key.0, what, remedy));
        }
    }
    for (key, allowed) in known {
        let now = found.get(key).map_or(0, Vec::len);
        if now < *allowed {
            let what = format!("'{}' {now} times, less than its {allowed}: good", key.1);
            let remedy = "THRUWAY_WORDS=lower cargo test -p thruway-structure lowers the count";
            problems.push(Problem::new(&key.0, what, remedy));
        }
    }
    problems
}

/// Names that a file defines: line, name, whether it is a type's.
#[derive(Default)]
struct Definitions {
    found: Vec<(usize, String, bool)>,
}

impl Definitions {
    fn name(&mut self, name: &syn::Ident) {
        self.found.push((name.span().start().line, name.unraw().to_string(), false));
    }

    fn type_name(&mut self, name: &syn::Ident) {
        self.found.push((name.span().start().line, name.unraw().to_string(), true));
    }
}

impl<'ast> Visit<'ast> for Definitions {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.type_name(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.type_name(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.type_name(&item.ident);
        visit::visit_item_union(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.type_name(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.type_name(&item.ident);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.name(&item.ident);
        visit::visit_item_mod(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !item.attrs.iter().any(|attribute| attribute.path().is_ident("test")) {
            self.name(&item.sig.ident);
        }
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.name(&item.sig.ident);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.name(&item.sig.ident);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.name(&item.ident);
        visit::visit_item_const(self, item);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.name(&item.ident);
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.name(&item.ident);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.name(&item.ident);
        visit::visit_item_static(self, item);
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if let Some(name) = &item.ident {
            self.name(name);
        }
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.name(&variant.ident);
        visit::visit_variant(self, variant);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(name) = &field.ident {
            self.name(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "# words\ncrate a/x\nword way: path, direction\ntype State: NatSession\n";

    fn found(files: &[(&str, &str)]) -> Findings {
        let files = files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect();
        findings(&Tree { files }, &retired(RULES))
    }

    fn names(found: &Findings) -> Vec<&str> {
        found.values().flatten().map(|one| one.name.as_str()).collect()
    }

    #[test]
    fn rules_are_read() {
        let rules = retired(RULES);
        assert_eq!(rules.crates, ["a/x"]);
        assert_eq!(rules.remedy("way"), "path, direction");
        assert_eq!(rules.remedy("State"), "NatSession");
    }

    #[test]
    fn words_of_names_are_found_in_every_case() {
        for name in ["WayBack", "way_back", "WAY_BACK", "no_way", "r2Way", "TCPWay"] {
            assert!(words(name).contains(&"way".to_owned()), "{name}");
        }
        assert_eq!(words("gateway"), ["gateway"]);
        assert_eq!(words("TCPWay_2"), ["tcp", "way", "2"]);
    }

    #[test]
    fn planted_words_are_found_in_every_sort_of_definition() {
        let text = "struct Way { way_in: u8 } enum E { Way } trait TheWay { fn way(&self); }\n\
                    type MyWay = u8; const WAY: u8 = 0; static WAYS: u8 = 0; mod way {}\n\
                    impl E { fn one_way(self) {} const WAY: u8 = 0; } macro_rules! way { () => {} }\n\
                    fn f() { fn way() {} }";
        let all = found(&[("a/x/src/lib.rs", text)]);
        let want = [
            "Way", "way_in", "Way", "TheWay", "way", "MyWay", "WAY", "way", "one_way", "WAY",
            "way", "way",
        ];
        assert_eq!(names(&all), want);
        assert_eq!(all[&("a/x".into(), "way".into())][0].location, "a/x/src/lib.rs:1");
    }

    #[test]
    fn uses_variables_tests_and_other_crates_are_left_alone() {
        let text = "use b::Way; fn f(way: u8) { let ways = Way(way); }\n\
                    #[test] fn a_way_to_test() {}\n struct NatState; fn state() {}";
        assert_eq!(names(&found(&[("a/x/src/lib.rs", text)])), [""; 0]);
        assert_eq!(names(&found(&[("a/xy/src/lib.rs", "struct Way;")])), [""; 0]);
    }

    #[test]
    fn names_of_files_and_whole_names_of_types_count() {
        let files = [("a/x/src/way/mod.rs", "struct State;"), ("a/x/tests/no_way.rs", "")];
        assert_eq!(names(&found(&files)), ["State", "way", "no_way"]);
    }

    #[test]
    fn counts_may_only_shrink() {
        let rules = retired(RULES);
        let all = found(&[("a/x/src/lib.rs", "struct Way; fn way() {}")]);
        let list = |count: usize| known(&format!("# counts\na/x way {count}\n"));
        let new = problems(&all, &list(1), &rules);
        assert_eq!(new.len(), 1);
        assert!(new[0].what.contains("2 times, 1 are known"), "{}", new[0]);
        assert!(new[0].remedy.contains("path, direction"), "{}", new[0]);
        assert_eq!(problems(&all, &list(2), &rules), []);
        assert!(problems(&all, &list(3), &rules)[0].what.contains("good"));
        assert_eq!(lowered(&all, &list(3)), "a/x way 2\n");
        assert_eq!(lowered(&all, &list(1)), "a/x way 1\n");
        assert_eq!(problems(&Findings::new(), &list(1), &rules).len(), 1);
    }
}
