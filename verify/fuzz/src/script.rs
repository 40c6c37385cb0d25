//! The language of Script: instructions, one a line, run as a handler. It may be wrong, or be given
//! up after a million jumps; it ends.

use thruway_elements::CATALOG;
use thruway_engine::{Options, Router};
use thruway_lang::{ArgText, NoLibraries, Source, Variables, load};

use crate::text;

/// Instructions that write files or to standard output, or wait; and a loop, which ends after a million
/// jumps: too late for a fuzzer.
const LEFT_OUT: &[&str] = &["print", "save", "append", "read", "loop", "goto", "wait", "signal"];

/// See the module.
pub fn run(bytes: &[u8]) {
    let lines = text(bytes);
    if LEFT_OUT.iter().any(|word| lines.contains(word)) {
        return;
    }
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
        return;
    }
    let options = Options { chatter: std::sync::Arc::new(|_| ()), ..Options::default() };
    let Ok(mut router) = Router::new(graph, checked, &CATALOG, &options) else { return };
    if router.initialize().is_ok() {
        let (first, second) = (router.read("s.run 1 2"), router.read("s.run 1 2"));
        assert_eq!(first.is_ok(), second.is_ok());
    }
}
