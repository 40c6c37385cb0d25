//! The page on Click's and FastClick's elements, generated from a list of their names, the registry
//! and the page of differences.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use thruway_elements::CATALOG;

use crate::{Problem, Tree};

/// The names, with reasons for missing elements.
pub const LIST: &str = "verify/structure/click-elements.txt";
/// The page.
pub const PAGE: &str = "docs/click-compatibility.md";
/// The intended differences, one point for each.
const DIFFERENCES: &str = "docs/differences-from-click.md";
/// The command that updates list and page.
const REMEDY: &str = "THRUWAY_PAGES=write cargo test -p thruway-structure";

/// The parsed list.
#[derive(Debug, Default)]
pub struct Names<'t> {
    reasons: BTreeMap<&'t str, &'t str>,
    /// Project, name, key of the reason.
    names: Vec<(&'t str, &'t str, Option<&'t str>)>,
}

impl<'t> Names<'t> {
    /// Reads the list.
    pub fn read(text: &'t str) -> Names<'t> {
        let mut names = Names::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((key, reason)) =
                line.strip_prefix("reason ").and_then(|rest| rest.split_once(": "))
            {
                names.reasons.insert(key, reason);
                continue;
            }
            let mut words = line.split(' ');
            if let (Some(project), Some(name)) = (words.next(), words.next()) {
                names.names.push((project, name, words.next()));
            }
        }
        names
    }
}

/// Whether a reason marks a name with another meaning here.
fn is_other(key: &str) -> bool {
    key.starts_with("other")
}

/// The list without the reasons of implemented elements.
pub fn without_old_reasons(text: &str) -> String {
    let mut fresh = String::new();
    for line in text.lines() {
        let old = line.rsplit_once(' ').filter(|(before, key)| {
            let name = before.split_once(' ').map(|(_, name)| name);
            !line.starts_with(['#', 'r']) && !is_other(key) && name.is_some_and(is_here)
        });
        fresh.push_str(old.map_or(line, |(before, _)| before));
        fresh.push('\n');
    }
    fresh
}

fn is_here(name: &str) -> bool {
    CATALOG.entry(name).is_some()
}

/// Errors of the list, or of the page generated from it.
pub fn problems(tree: &Tree) -> Vec<Problem> {
    let text = tree.text(LIST).unwrap_or_default();
    let mut problems = wrong(&Names::read(text), is_here);
    if tree.text(PAGE) != Some(&page(tree, text)) {
        problems.push(Problem::new(PAGE, "is not what the registry says", REMEDY));
    }
    problems
}

fn wrong(names: &Names<'_>, is_here: impl Fn(&str) -> bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    for pair in names.names.windows(2).filter(|pair| pair[0].1 >= pair[1].1) {
        problems.push(Problem::new(LIST, format!("{} is out of order", pair[1].1), "sort by name"));
    }
    for (project, name, key) in &names.names {
        let mut problem = |what: &str, remedy: &str| {
            problems.push(Problem::new(LIST, format!("{name}: {what}"), remedy));
        };
        if !["click", "fastclick"].contains(project) {
            problem("is neither click's nor fastclick's", "begin the line with click or fastclick");
        }
        match key {
            Some(key) if !names.reasons.contains_key(key) => problem("no such reason", "write it"),
            Some(key) if is_here(name) && !is_other(key) => problem("is there by now", REMEDY),
            None if !is_here(name) => problem("is not there", "add the name of a reason"),
            _ => {}
        }
    }
    let used: BTreeSet<&str> = names.names.iter().filter_map(|(_, _, key)| *key).collect();
    for key in names.reasons.keys().filter(|key| !used.contains(*key)) {
        problems.push(Problem::new(LIST, format!("reason {key} is not used"), "remove it"));
    }
    problems
}

/// The page of a list.
pub fn page(tree: &Tree, list: &str) -> String {
    let names = Names::read(list);
    let differences = points(tree.text(DIFFERENCES).unwrap_or_default());
    let mut tables = String::new();
    let mut counts = String::new();
    for (project, title) in [("click", "Click"), ("fastclick", "FastClick, beyond Click's")] {
        let of = names.names.iter().filter(|(list, _, _)| *list == project);
        let rows: Vec<(&str, Row)> =
            of.map(|(_, name, key)| (*name, row(name, *key, &names, &differences))).collect();
        let count = |sort: Sort| rows.iter().filter(|(_, row)| row.sort == sort).count();
        let [same, differs, alias, not] =
            [Sort::Same, Sort::Differs, Sort::Alias, Sort::Not].map(count);
        let all = rows.len();
        let _ = writeln!(counts, "| {title} | {all} | {same} | {differs} | {alias} | {not} |");
        let _ = write!(tables, "\n## {title}\n\n| Element | Here | |\n|---|---|---|\n");
        for (name, row) in &rows {
            let _ = writeln!(tables, "| `{name}` | {} | {} |", row.sort.word(), row.text);
        }
    }
    let listed: BTreeSet<&str> = names.names.iter().map(|(_, name, _)| *name).collect();
    let own: BTreeSet<String> = (CATALOG.entries().map(|entry| entry.spec.name))
        .filter(|name| !listed.contains(name))
        .map(|name| format!("- `{name}`\n"))
        .collect();
    let own: String = own.into_iter().collect();
    format!("{HEAD}{counts}{NOTES}{tables}\n## Thruway's own\n\n{own}")
}

const HEAD: &str = "\
# The elements of Click and FastClick

This page lists the elements of Click and FastClick, and whether Thruway has them. It is generated
from the registry,
[differences-from-click.md](differences-from-click.md) and a list of names with reasons
(`verify/structure/click-elements.txt`). A test fails when it is stale;
`THRUWAY_PAGES=write cargo test -p thruway-structure` writes it.

| List | Elements | Same | Same, with differences | Alias | Not supported |
|---|---|---|---|---|---|
";

const NOTES: &str = "
*Same* means: the element's documentation in Click or FastClick holds, and any difference is a
bug. *Alias* is another name of the same implementation, with its settings. Differences are quoted
from the page of differences.

These are not supported and not listed by name: Click's folders `wifi`, `grid`,
`dsr`, `bsdmodule` and `ns`, Click's packages outside its own tree, and FastClick's
experimental variants of FlowIPManager.
";

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Sort {
    Same,
    Differs,
    Alias,
    Not,
}

impl Sort {
    fn word(self) -> &'static str {
        match self {
            Sort::Same => "same",
            Sort::Differs => "same, with differences",
            Sort::Alias => "alias",
            Sort::Not => "not supported",
        }
    }
}

#[derive(Debug)]
struct Row {
    sort: Sort,
    text: String,
}

fn row(name: &str, key: Option<&str>, names: &Names<'_>, differences: &[String]) -> Row {
    if let Some(key) = key {
        let reason = names.reasons.get(key).copied().unwrap_or_default();
        return Row { sort: Sort::Not, text: reason.to_owned() };
    }
    let Some(spec) = CATALOG.entry(name).map(|entry| &entry.spec) else {
        return Row { sort: Sort::Not, text: String::new() };
    };
    let quoted: Vec<&str> =
        differences.iter().filter(|point| mentions(point, name)).map(String::as_str).collect();
    if let Some(alias) = spec.aliases.iter().find(|alias| alias.name == name) {
        let mut text = format!("of `{}`: {}", spec.name, alias.summary.replace('|', "\\|"));
        if !quoted.is_empty() {
            let _ = write!(text, ". {}", quoted.join(" "));
        }
        return Row { sort: Sort::Alias, text };
    }
    let sort = if quoted.is_empty() { Sort::Same } else { Sort::Differs };
    Row { sort, text: quoted.join(" ") }
}

/// The sentences of a page's points. A sentence without an element's name belongs to the one
/// before.
fn points(page: &str) -> Vec<String> {
    let mut points: Vec<String> = Vec::new();
    for item in page.split("\n- ").skip(1) {
        let item = item.split("\n\n").next().unwrap_or_default();
        let item = item.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut is_first = true;
        for sentence in sentences(&item) {
            match points.last_mut() {
                Some(last) if !is_first && !words(&sentence).any(is_here) => {
                    last.push(' ');
                    last.push_str(&sentence);
                }
                _ => points.push(sentence),
            }
            is_first = false;
        }
    }
    points
}

/// Splits at each full stop before a capital letter or a name, and at each semicolon before the
/// name of an element.
fn sentences(text: &str) -> impl Iterator<Item = String> {
    let mut all = Vec::new();
    let mut start = 0;
    for (at, end) in text.char_indices().filter(|(_, c)| ".;".contains(*c)) {
        let Some(next) = text[at + 1..].strip_prefix(' ') else { continue };
        let begins = match end {
            '.' => next.starts_with(|c: char| c.is_ascii_uppercase() || c == '`'),
            _ => words(next).next().is_some_and(is_here),
        };
        if begins {
            all.push(format!("{}.", &text[start..at]));
            start = at + 2;
        }
    }
    all.push(text[start..].to_owned());
    all.into_iter()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

fn mentions(point: &str, name: &str) -> bool {
    words(point).any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# names\nreason no: not wanted\nreason other: else\n\
                        click Counter\nclick Idle no\nfastclick NoSuch no\nfastclick Tee other\n";

    #[test]
    fn the_list_must_agree_with_the_registry() {
        let problems = wrong(&Names::read(TEXT), is_here);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].what.contains("Idle: is there"));
        let fresh = without_old_reasons(TEXT);
        assert_eq!(fresh, TEXT.replace("Idle no", "Idle"));
        assert_eq!(wrong(&Names::read(&fresh), is_here), []);
        let unsaid = fresh.replace("NoSuch no", "NoSuch");
        assert_eq!(wrong(&Names::read(&unsaid), is_here).len(), 2, "not there; reason not used");
        let unsorted = format!("{fresh}click Align\n");
        assert_eq!(wrong(&Names::read(&unsorted), is_here).len(), 1);
    }

    #[test]
    fn sentences_belong_to_the_elements_that_they_name() {
        let page = "# x\n\n## y\n\n- Counter counts\n  twice. It ends; Idle\n  rests. `Tee` copies.\n\nend\n";
        assert_eq!(
            points(page),
            ["Counter counts twice. It ends.", "Idle rests.", "`Tee` copies."]
        );
        let tree = Tree { files: vec![(DIFFERENCES.to_owned(), page.to_owned())] };
        let made = super::page(&tree, TEXT);
        assert!(made.contains("| `Counter` | same, with differences | Counter counts twice."));
        assert!(made.contains("| `NoSuch` | not supported | not wanted |"), "{made}");
    }
}
