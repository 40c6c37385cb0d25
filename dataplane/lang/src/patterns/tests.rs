use super::*;
use crate::graph::Graph;
use crate::lower::NoLibraries;
use crate::tests::catalog::{Small, graph};
use crate::unparse;

fn patterns(text: &str, is_reverse: bool) -> (Vec<Pattern>, Diagnostics) {
    read(Source::new("patterns", text), &Small, &NoLibraries, is_reverse)
}

fn transformed(text: &str, patterns_text: &str) -> Graph {
    let (patterns, found) = patterns(patterns_text, false);
    assert!(!found.has_errors(), "{}", found.click());
    transform(graph(text), &patterns, |_, _| ()).expect("an end")
}

/// The connections and declarations that `text` becomes.
fn changed(text: &str, patterns_text: &str) -> String {
    unparse(&transformed(text, patterns_text))
}

/// Click's own example: each Queue gets something behind it, once.
const QUEUES: &str = "elementclass QueuePattern { input -> Queue -> output }
    elementclass QueuePattern_Replacement { input -> Queue -> Null -> output }";

#[test]
fn every_part_that_matches_is_replaced_once() {
    let text = "a :: Any -> q :: Queue -> b :: Any; a [1] -> Queue -> [1] b";
    assert_eq!(
        changed(text, QUEUES),
        "a :: Any;\nb :: Any;\nq :: Queue;\nQueuePattern@1/Null@2 :: Null;\nQueue@4 :: Queue;\n\
         QueuePattern@2/Null@2 :: Null;\n\n\
         a -> q\n    -> QueuePattern@1/Null@2\n    -> b;\n\
         a [1] -> Queue@4\n    -> QueuePattern@2/Null@2\n    -> [1] b;\n"
    );
}

#[test]
fn variables_are_bound_and_consistent() {
    // Click's example, with other classes.
    let swap = "elementclass M { input -> Any($a) -> Counter($b) -> output }
        elementclass M_Replacement { input -> Any($b) -> Null(x, $a) -> output }";
    let text = changed("s :: Any -> Any(1000) -> Counter(2000, [b, c]) -> d :: Any", swap);
    assert!(text.contains("Any(1000)"), "two arguments are not one: {text}");
    let text = changed("s :: Any -> Any(1 000) -> Counter(2000) -> d :: Any", swap);
    assert!(text.contains(":: Any(2000);") && text.contains(":: Null(x, 1 000);"), "{text}");
    let same = "elementclass M { input -> Null($a) -> Null($a) -> output }
        elementclass M_Replacement { input -> output }";
    let two = |b| changed(&format!("a :: Any -> Null(1) -> Null({b}) -> z :: Any"), same);
    assert_eq!(two("1"), "a :: Any;\nz :: Any;\n\na -> z;\n");
    assert!(two("2").contains("Null(2)"));
    // Parameters need no values: they are variables.
    let formal = same.replace("M {", "M { $a |");
    assert_eq!(changed("a :: Any -> Null(1) -> Null(1) -> z :: Any", &formal), two("1"));
}

#[test]
fn connections_beside_the_ports_prevent_a_match() {
    let two = "elementclass P { input -> Null -> Counter -> output }
        elementclass P_Replacement { input -> Any(P) -> output }";
    let is_found = |text: &str| changed(text, two).contains("Any(P)");
    assert!(is_found("a :: Any -> Null -> Counter -> z :: Any"));
    assert!(is_found("a :: Any -> n :: Null -> Counter -> z :: Any; a [1] -> n"));
    assert!(!is_found("a :: Any -> n :: Null -> Counter -> z :: Any; n -> z"), "one leaves");
    assert!(!is_found("a :: Any -> Null -> c :: Counter -> z :: Any; a [1] -> c"), "one enters");
    assert!(!is_found("a :: Any -> Null -> c :: Counter"), "an output that leads nowhere");
    assert!(!is_found("a :: Any -> Null -> [1] Counter -> z :: Any"), "another port");
    assert!(!is_found("n :: Null -> Counter -> n"), "no port");
}

#[test]
fn ports_lead_where_those_of_the_pattern_led() {
    let swap = "elementclass P { input -> a :: Any; input [1] -> [1] a; a -> output;
            a [1] -> [1] output }
        elementclass P_Replacement { input -> a :: Null -> [1] output;
            input [1] -> b :: Counter -> output }";
    let text = "s :: Tee; s -> m :: Any; s [1] -> [1] m; m -> x :: Discard; m [1] -> y :: Discard;
        s [2] -> m";
    let text = changed(text, swap);
    let expected = "s -> m\n    -> y;\ns [2] -> m;\ns [1] -> P@1/b\n    -> x;\n";
    assert!(text.ends_with(expected), "{text}");
    // An input that leads to two elements matches what leads to both.
    let fork = "elementclass P { input -> Null -> output; input -> Counter -> output }
        elementclass P_Replacement { input -> Any(P) -> output }";
    let text = changed("a :: Any -> Null -> z :: Any; a -> Counter -> z", fork);
    assert!(text.ends_with("a -> P@1/Any@1\n    -> z;\n"), "{text}");
    let text = changed("a :: Any -> Null -> z :: Any; a [1] -> Counter -> z", fork);
    assert!(!text.contains("Any(P)"), "{text}");
}

#[test]
fn what_one_made_another_may_change() {
    let chain = format!(
        "{QUEUES} elementclass N {{ input -> Null -> output }}
        elementclass N_Replacement {{ input -> Counter -> output }}
        elementclass Empty {{ input -> Counter -> Counter -> output }}
        elementclass Empty_Replacement {{ input -> Counter -> output }}"
    );
    let text = changed("a :: Any -> Null -> Queue -> Null -> z :: Any", &chain);
    let classes =
        ["Counter", "Queue", "Null"].map(|class| text.matches(&format!(":: {class};")).count());
    assert_eq!(classes, [2, 1, 0], "{text}");
}

#[test]
fn reversed_patterns_undo() {
    let (patterns, found) = patterns(QUEUES, true);
    assert!(found.is_empty(), "{}", found.click());
    let text = "a :: Any -> q :: Queue -> Null -> b :: Any";
    let graph = transform(graph(text), &patterns, |_, _| ()).expect("an end");
    assert_eq!(unparse(&graph), "a :: Any;\nb :: Any;\nq :: Queue;\n\na -> q\n    -> b;\n");
}

#[test]
fn patterns_without_an_end_are_an_error() {
    let evil = |name: &str| QUEUES.replace("QueuePattern", name).replace("-> Null", "");
    let (patterns, found) = patterns(&format!("{} {}", evil("Evil1"), evil("Evil2")), false);
    assert!(!found.has_errors());
    let mut count = 0;
    let result = transform(graph("Any -> Queue -> Any"), &patterns, |_, _| count += 1);
    let why = result.expect_err("it never ends").to_string();
    assert!(why.contains("'Evil") && count > 1000, "{count}: {why}");
}

#[test]
fn wrong_patterns_are_refused_with_their_place() {
    let refused = |text: &str| {
        let (patterns, found) = patterns(text, false);
        assert!(patterns.is_empty() && found.has_errors(), "{text}");
        found.click()
    };
    let empty = refused(
        "elementclass P { input -> output }\nelementclass P_Replacement { input -> Null -> output }",
    );
    assert!(empty.contains("patterns:1: pattern 'P' has no elements"), "{empty}");
    let through = refused(
        "elementclass P { input -> Null -> output; input [1] -> [1] output }
        elementclass P_Replacement { input -> output; input [1] -> [1] output }",
    );
    assert!(through.contains("connects its input 1 and its output 1 directly"), "{through}");
    let ports = refused(
        "elementclass P { input -> Null -> output }\n\
         elementclass P_Replacement { input -> Discard }",
    );
    assert!(
        ports.contains("patterns:2: pattern 'P' has 1 outputs, and its replacement 0"),
        "{ports}"
    );
    let unbound = refused(
        "elementclass P { input -> Null($a) -> output }\n\
         elementclass P_Replacement { input -> Null($b) -> output }",
    );
    assert!(unbound.contains("patterns:2: variable '$b' is not in the pattern 'P'"), "{unbound}");
    assert!(refused(&QUEUES.replace("Queue ->", "Qeue ->")).contains("Qeue"));
    let (none, found) = patterns("elementclass P_Replacement { input -> Null -> output }", false);
    assert!(none.is_empty() && found.click().contains("'P_Replacement' replaces nothing"));
}
