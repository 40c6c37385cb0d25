//! The language of Script: instructions, one a line, run as a handler. It may be wrong, or be given
//! up after a million jumps; it ends.

use thruway_elements::CATALOG;
use thruway_engine::{Options, Router};
use thruway_lang::{ArgText, NoLibraries, Source, Variables, load};

use crate::input::text;

/// Instructions that write files or to standard output, or wait; loops, and a script that runs
/// itself, which end after a million jumps: too late for a fuzzer; and what no two runs share.
const LEFT_OUT: &[&str] =
    &["print", "save", "append", "read", "wait", "signal", "loop", "goto", "run", "random", "now"];

/// See the module. A script may do something else when it runs again, as its variables keep their
/// values; but what two routers make of the same runs is the same.
pub fn run(bytes: &[u8]) {
    let lines = text(bytes);
    if LEFT_OUT.iter().any(|word| lines.contains(word)) {
        return;
    }
    let (one, other) = (ran(&lines), ran(&lines));
    assert_eq!(one, other);
}

/// What two runs of a script that a router has bring, if it is one.
fn ran(lines: &str) -> Option<[Result<String, String>; 2]> {
    let source =
        Source::new("fuzz", "s :: Script(TYPE PASSIVE); c :: Counter; Idle -> c -> Discard");
    let loaded = load(source, &CATALOG, &Variables::new(), &NoLibraries);
    let mut graph = loaded.expect("a good configuration").graph;
    let decl = &mut graph.elements[0];
    let span = decl.span;
    let line = |line: &str| ArgText { text: line.trim().to_owned(), span };
    decl.args.extend(lines.lines().map(line));
    let (checked, found) = thruway_lang::resolve(&graph);
    if found.has_errors() {
        return None;
    }
    let options = Options { log: std::sync::Arc::new(|_| ()), ..Options::default() };
    let mut router = Router::new(graph, checked, &CATALOG, &options).ok()?;
    router.initialize().ok()?;
    let mut run = || router.read("s.run 1 2").map_err(|error| error.to_string());
    Some([run(), run()])
}
