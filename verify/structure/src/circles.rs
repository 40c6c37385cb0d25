//! Circles of modules inside a crate.
//!
//! Modules form a circle if each needs the others, directly or through others: none of them can be
//! read, tested or moved alone. [`Modules::imports`] says what "needs" means. The circles that
//! there are stand in `known-circles.txt`, each as its imports; that list may only shrink.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::modules::{Edge, Modules};
use crate::{Problem, Tree};

/// Where the known circles are, from the root.
pub const KNOWN: &str = "verify/structure/known-circles.txt";

/// The imports among modules that need one another.
pub type Circle = Vec<Edge>;

/// The circles of all crates, in the order of their files.
pub fn circles(tree: &Tree) -> Vec<Circle> {
    let crates = Modules::of_crates(tree);
    let mut found: Vec<Circle> =
        crates.iter().flat_map(|one| circles_among(&one.imports())).collect();
    found.sort();
    // Two programs of a crate may share a file's circle.
    found.dedup();
    found
}

/// The circles that imports make.
fn circles_among(edges: &[Edge]) -> Vec<Circle> {
    let mut below: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for edge in edges {
        below.entry(&edge.from).or_default().push(&edge.to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        below.keys().map(|file| (*file, reach(&below, file))).collect();
    let leads = |from: &str, to: &str| reached.get(from).is_some_and(|files| files.contains(to));
    let mut circles: BTreeMap<&str, Circle> = BTreeMap::new();
    for edge in edges.iter().filter(|edge| leads(&edge.to, &edge.from)) {
        // The first file that leads here and back stands for its circle.
        let mut files = reached.keys().copied();
        let first = files.find(|file| leads(file, &edge.from) && leads(&edge.from, file));
        circles.entry(first.unwrap_or(&edge.from)).or_default().push(edge.clone());
    }
    circles.into_values().collect()
}

/// The files that `start` needs, directly or through others; itself only if it is in a circle.
fn reach<'a>(below: &BTreeMap<&'a str, Vec<&'a str>>, start: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![start];
    while let Some(file) = open.pop() {
        for next in below.get(file).into_iter().flatten() {
            if found.insert(*next) {
                open.push(next);
            }
        }
    }
    found
}

/// The list: a line `FROM -> TO` for each import, an empty line between circles.
pub fn list(circles: &[Circle]) -> String {
    let text = |circle: &Circle| circle.iter().map(line).collect::<Vec<_>>().join("\n") + "\n";
    circles.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn line(edge: &Edge) -> String {
    format!("{} -> {}", edge.from, edge.to)
}

/// The lines of a list.
pub fn known(text: &str) -> BTreeSet<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// The imports of circles that the list has already.
pub fn still_known(circles: Vec<Circle>, known: &BTreeSet<&str>) -> Vec<Circle> {
    let keep = |circle: Circle| -> Circle {
        circle.into_iter().filter(|edge| known.contains(line(edge).as_str())).collect()
    };
    circles.into_iter().map(keep).filter(|circle| !circle.is_empty()).collect()
}

/// Circles that are not known, known ones that grew, and lines of the list that are out of date.
pub fn problems(circles: &[Circle], known: &BTreeSet<&str>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for circle in circles {
        let new: Vec<&Edge> =
            circle.iter().filter(|edge| !known.contains(line(edge).as_str())).collect();
        let Some(first) = new.first() else { continue };
        let what = if new.len() == circle.len() {
            "modules need one another in a circle"
        } else {
            "a known circle of modules has more imports than it had"
        };
        let remedy = "cut the circle where it is thinnest: move the shared type or function into a \
                      module that needs neither, or pass the value in";
        problems.push(Problem::new(
            format!("{}:{}", first.from, first.line),
            format!("{what}:\n{}", described(circle, &new)),
            remedy,
        ));
    }
    let found: BTreeSet<String> = circles.iter().flatten().map(line).collect();
    for line in known.iter().filter(|line| !found.contains(**line)) {
        let remedy = "take it out of the list (THRUWAY_CIRCLES=lower cargo test -p \
                      thruway-structure does)";
        problems.push(Problem::new(KNOWN, format!("`{line}` is in no circle now: good"), remedy));
    }
    problems
}

/// The new imports, each with the shortest path back.
fn described(circle: &Circle, new: &[&Edge]) -> String {
    let mut lines = Vec::new();
    for edge in new {
        lines.push(format!("    {}", location(edge)));
        lines.extend(
            path_back(circle, edge).into_iter().map(|edge| format!("      {}", location(edge))),
        );
    }
    lines.join("\n")
}

fn location(edge: &Edge) -> String {
    format!("{}:{} needs {} ({})", edge.from, edge.line, edge.to, edge.path)
}

/// The shortest path back from the end of an import to its beginning.
fn path_back<'a>(circle: &'a Circle, back: &Edge) -> Vec<&'a Edge> {
    let mut came: BTreeMap<&str, &Edge> = BTreeMap::new();
    let mut open = VecDeque::from([back.to.as_str()]);
    while let Some(file) = open.pop_front() {
        for edge in circle.iter().filter(|edge| edge.from == file) {
            if edge.to != back.to && !came.contains_key(edge.to.as_str()) {
                came.insert(&edge.to, edge);
                open.push_back(&edge.to);
            }
        }
    }
    let mut path = Vec::new();
    let mut at = back.from.as_str();
    while let Some(edge) = came.get(at) {
        path.insert(0, *edge);
        at = &edge.from;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: &str, to: &str) -> Edge {
        Edge { from: from.into(), to: to.into(), line: 7, path: "super::X".into() }
    }

    fn edges(pairs: &[&str]) -> Vec<Edge> {
        pairs.iter().map(|pair| edge(&pair[..1], &pair[1..])).collect()
    }

    #[test]
    fn circles_are_told_apart() {
        // Two circles, a path from one to the other, and a file in neither.
        let found = circles_among(&edges(&["ab", "ba", "bc", "cd", "de", "ec", "ef"]));
        assert_eq!(found, [edges(&["ab", "ba"]), edges(&["cd", "de", "ec"])]);
        assert_eq!(circles_among(&edges(&["ab", "ac", "bc"])), Vec::<Circle>::new());
    }

    #[test]
    fn a_list_is_read_as_it_is_written() {
        let circles = [edges(&["ab", "ba"]), edges(&["cd", "dc"])];
        let text = format!("# words\n{}", list(&circles));
        assert_eq!(text, "# words\na -> b\nb -> a\n\nc -> d\nd -> c\n");
        assert_eq!(problems(&circles, &known(&text)), []);
    }

    #[test]
    fn a_new_circle_is_shown_with_its_imports() {
        let problems = problems(&[edges(&["ab", "bc", "ca"])], &BTreeSet::new());
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].location, "a:7");
        let path = "    a:7 needs b (super::X)\n      b:7 needs c (super::X)\n      c:7 needs a";
        assert!(problems[0].what.contains(path), "{}", problems[0]);
    }

    #[test]
    fn a_circle_may_not_grow() {
        let list = known("a -> b\nb -> a\n");
        let problems = problems(&[edges(&["ab", "ac", "ba", "cb"])], &list);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].what.contains("more imports"), "{}", problems[0]);
        assert!(problems[0].what.contains("a:7 needs c"), "{}", problems[0]);
        assert!(!problems[0].what.contains("\n    a:7 needs b"), "{}", problems[0]);
    }

    #[test]
    fn a_circle_that_is_gone_leaves_the_list() {
        let problems = problems(&[], &known("a -> b\nb -> a\n"));
        assert_eq!(problems.len(), 2);
        assert!(problems[0].remedy.starts_with("take it out of the list"), "{}", problems[0]);
    }
}
