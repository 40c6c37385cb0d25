//! Texts: nothing names a network host, and the code map is whole.

use crate::paths::{folder, join};
use crate::{Problem, Tree};

/// Files that name hosts for a reason: the licence's own text, cargo's record of sources.
const EXEMPT: &[&str] = &["LICENSE-APACHE", "Cargo.lock"];

/// Names that look like places elsewhere and are none: an XML name space, this host, a place that
/// the user names.
const NAMES: &[&str] = &[
    "www.w3.org/2000/svg",
    "www.w3.org/1998/Math/MathML",
    "www.w3.org/1999/xhtml",
    "localhost:",
    "HOST:PORT",
    "HOST[:PORT]",
];

/// Schemes of addresses, without `://` so that this file does not find itself.
const SCHEMES: &[&str] = &["http", "https", "ftp", "git", "ssh"];

/// Network hosts named in any file. Addresses in numbers (tests in name spaces) are none.
pub fn hosts(tree: &Tree) -> Vec<Problem> {
    let files = tree.files.iter().filter(|(path, _)| {
        !EXEMPT.iter().any(|name| path == name || path.ends_with(&format!("/{name}")))
    });
    files.flat_map(|(path, text)| hosts_in(path, text)).collect()
}

fn hosts_in(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let mut rest = line;
        while let Some(colon) = rest.find("://") {
            let (before, after) = (&rest[..colon], &rest[colon + 3..]);
            rest = after;
            let scheme = SCHEMES.iter().any(|scheme| before.ends_with(scheme));
            let host = after.starts_with(|c: char| c.is_ascii_alphabetic());
            if scheme && host && !NAMES.iter().any(|name| after.starts_with(name)) {
                let location = format!("{path}:{}", at + 1);
                let remedy = "name the document or package, not the place: RFC 1812, section 5";
                problems.push(Problem::new(location, "names a network host", remedy));
            }
        }
    }
    problems
}

/// Lines at which a merge left both sides of a conflict.
pub fn conflicts(tree: &Tree) -> Vec<Problem> {
    let begins = |line: &str| {
        let mark = line.get(..7).filter(|_| line.as_bytes().get(7) == Some(&b' '));
        mark.is_some_and(|mark| ["<", ">"].iter().any(|sign| mark == sign.repeat(7)))
    };
    let in_file = |(path, text): &(String, String)| -> Vec<Problem> {
        let lines = text.lines().enumerate().filter(|(_, line)| begins(line));
        let problem = |at: usize| {
            let remedy = "decide for one side, or write what both meant";
            Problem::new(format!("{path}:{}", at + 1), "is a conflict of a merge", remedy)
        };
        lines.map(|(at, _)| problem(at)).collect()
    };
    tree.files.iter().flat_map(in_file).collect()
}

/// Crates that the code map leaves out.
pub fn unmapped(tree: &Tree) -> Vec<Problem> {
    let map = tree.text("ARCHITECTURE.md").unwrap_or_default();
    let crates = tree.crates().into_iter().map(|one| one.directory);
    let missing = crates.filter(|directory| !map.contains(&format!("`{directory}`")));
    let remedy = "add a line on it to the code map of ARCHITECTURE.md";
    missing.map(|directory| Problem::new(directory, "is not on the code map", remedy)).collect()
}

/// Files that a relative link of a Markdown page names and that are not there.
pub fn dangling(tree: &Tree) -> Vec<Problem> {
    let pages = tree.files.iter().filter(|(path, _)| path.ends_with(".md"));
    pages.flat_map(|(path, text)| dangling_in(tree, path, text)).collect()
}

fn dangling_in(tree: &Tree, path: &str, text: &str) -> Vec<Problem> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let targets = links.map(|(target, _)| target.split('#').next().unwrap_or_default());
    let missing =
        targets.filter(|target| !target.is_empty() && !target.contains(' ')).filter(|target| {
            let file = resolve(path, target);
            let folder = format!("{}/", file.trim_end_matches('/'));
            !tree.files.iter().any(|(one, _)| *one == file || one.starts_with(&folder))
        });
    let problem = |target: &str| {
        Problem::new(path, format!("links to {target}, which is not there"), "correct the link")
    };
    missing.map(problem).collect()
}

/// The file that a link in `page` leads to.
fn resolve(page: &str, target: &str) -> String {
    join(folder(page), target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found() {
        let address = |rest: &str| format!("see {}://{rest}", "https");
        assert_eq!(hosts_in("a", &address("example.net/x")).len(), 1);
        assert_eq!(hosts_in("a", &address("10.0.0.1/x")), []);
        assert_eq!(hosts_in("a", &address("www.w3.org/2000/svg")), []);
        assert_eq!(hosts_in("a", "std::fmt // a: //b"), []);
    }

    #[test]
    fn the_map_is_whole_and_links_hold() {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let files = vec![
            file("ARCHITECTURE.md", "`base/wire` [adr](docs/adr/1.md#x) [gone](docs/2.md)"),
            file("base/new/Cargo.toml", ""),
            file("base/wire/Cargo.toml", ""),
            file("docs/adr/1.md", "[up](../../ARCHITECTURE.md) [folder](.)"),
        ];
        let tree = Tree { files };
        assert_eq!(unmapped(&tree).len(), 1);
        let problems = dangling(&tree);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].what.contains("docs/2.md"));
    }
}
