//! Random and hostile texts: errors, never a panic, a hang or a lot of memory.

use proptest::prelude::*;

use super::catalog::*;
use crate::{Source, dot, format, resolve, svg, unparse};

fn exercise(text: &str) {
    let (graph, diagnostics) = parsed(text);
    let (checked, more) = resolve(&graph);
    diagnostics.render(false);
    diagnostics.click();
    more.render(false);
    if graph.elements.len() < 1000 {
        unparse(&graph);
        dot(&graph, &checked);
        svg(&graph, &checked);
    }
    let source = Source::new("f", text);
    if let Ok(once) = format(&source) {
        let twice = format(&Source::new("f", once.clone()));
        let twice = twice.unwrap_or_else(|e| panic!("{text:?} {once:?} {}", e.click()));
        assert_eq!(once, twice, "{text:?}");
        let (after, _) = parsed(&once);
        assert_eq!(edges(&graph), edges(&after), "{text:?} {once:?}");
    }
}

#[test]
fn nesting_is_bounded() {
    for open in ["{", "(", "a :: {", "a :: (", "-> (", "[0](", "elementclass A {"] {
        let text = open.repeat(20_000);
        let (_, diagnostics) = parsed(&text);
        assert!(diagnostics.has_errors());
    }
    assert!(parsed(&"(".repeat(5000)).1.click().contains("nest deeper than 64"));
}

#[test]
fn expansion_is_bounded() {
    let mut text = String::from("elementclass C0 { Info -> Info }\n");
    for n in 1..40 {
        text += &format!("elementclass C{n} {{ C{m}; C{m} }}\n", m = n - 1);
    }
    assert!(parsed(&format!("{text} C39")).1.click().contains("more than 100000 elements"));
    let mut text = String::from("elementclass C0 { Info }\n");
    for n in 1..5000 {
        text += &format!("elementclass C{n} {{ C{} }}\n", n - 1);
    }
    assert!(parsed(&format!("{text} C4999")).1.click().contains("element classes nest deeper"));
}

#[test]
fn variables_are_bounded() {
    let mut text = String::from("define($x0 aaaaaaaaaaaaaaaaaaaa)\n");
    for n in 1..10 {
        text += &format!("define($x{n} {})\n", format!("$x{} ", n - 1).repeat(50));
    }
    assert!(parsed(&format!("{text} Info($x9)")).1.click().contains("too long"));
}

#[test]
fn many_errors_are_counted() {
    let (_, diagnostics) = parsed(&"a -> ;".repeat(10_000));
    assert_eq!(diagnostics.errors(), 10_000);
    assert_eq!(diagnostics.iter().count(), crate::diagnostics::MAX_DIAGNOSTICS);
    assert!(diagnostics.click().ends_with("(9900 more not shown)\n"));
}

fn fragment() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "a",
        "b",
        "c",
        "::",
        "->",
        "=>",
        "~>",
        "Null",
        "Any",
        "Tee",
        "Queue",
        "InfiniteSource",
        "Discard",
        "FlowDispatcher",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "0",
        "1",
        ",",
        ";",
        "|",
        "||",
        "...",
        "$x",
        "input",
        "output",
        "elementclass",
        "A",
        "define($x 5)",
        "require(p)",
        "(x, $x)",
        "\"",
        "'",
        "\\<",
        "//",
        "/*",
        "*/",
        "\n",
        "\n# 5 \"f\"\n",
        " ",
        "é",
        "#",
        "\r",
        "@",
        "/",
    ];
    prop::collection::vec(prop::sample::select(WORDS), 0..40).prop_map(|words| words.join(" "))
}

const GOOD: &str = "elementclass A { $x, K $y | input -> Null($x) -> output || ... }
define($v 3) s :: InfiniteSource(LIMIT $v) -> A(1, K 2) -> t :: Tee // c
t[0,1] => Discard, Discard; ( -> Null -> ) ~> { input -> output };\n";

/// A graph as text: elements with configurations, and edges between them.
fn random_graph() -> impl Strategy<Value = String> {
    let configs = prop::sample::select(vec!["", "5", "a b, \"c,d)\"", "'('", "\\<28>", "$u"]);
    let edges = prop::collection::vec((0usize..8, 0usize..4, 0usize..8, 0usize..4), 0..20);
    // Which outputs have context links.
    let context = prop::collection::vec(any::<bool>(), 4);
    (prop::collection::vec(configs, 8), edges, context).prop_map(|(configs, edges, context)| {
        let mut text = String::new();
        for (n, config) in configs.iter().enumerate() {
            let class = if n < 6 { "Any" } else { "FlowDispatcher" };
            text += &format!("e{n} :: {class}({config});\n");
        }
        for (from, out, to, input) in edges {
            let arrow = if context[out] { "~>" } else { "->" };
            text += &format!("e{from}[{out}] {arrow} [{input}]e{to};\n");
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_tokens(text in fragment()) {
        exercise(&text);
    }

    #[test]
    fn random_text(text in "\\PC{0,60}|[\\x00-\\x7f]{0,60}") {
        exercise(&text);
    }

    #[test]
    fn mutated(at in 0..GOOD.len(), length in 0usize..20, insert in fragment()) {
        let end = (at + length).min(GOOD.len());
        exercise(&format!("{}{insert}{}", &GOOD[..at], &GOOD[end..]));
    }

    #[test]
    fn printing_is_undone_by_parsing(text in random_graph()) {
        let before = graph(&text);
        let printed = unparse(&before);
        let after = graph(&printed);
        prop_assert_eq!(elements(&before), elements(&after));
        prop_assert_eq!(edges(&before), edges(&after), "{}", printed);
        exercise(&text);
    }
}

#[test]
fn long_texts_take_time_in_proportion() {
    let start = std::time::Instant::now();
    let defines: String = (0..20_000).map(|n| format!("$v{n} 1,")).collect();
    assert!(parsed(&format!("define({defines})")).1.has_errors());
    let formals: String = (0..20_000).map(|n| format!("K{n} $v{n},")).collect();
    assert!(parsed(&format!("a :: {{ {formals} $z | }}")).1.has_errors());
    let names: String = (8_000..16_000).map(|n| format!("Info@{n} :: Info;")).collect();
    assert_eq!(parsed(&(names + &"Info;".repeat(8_000))).0.elements.len(), 16_000);
    parsed(&"( -> Null -> );".repeat(10_000));
    parsed(&("Any".to_string() + &" -> { input -> output }".repeat(10_000) + " -> Any"));
    let unknown: String = (0..20_000).map(|n| format!("Foo{n};")).collect();
    parsed(&unknown);
    assert!(parsed(&"a;".repeat(300_000)).1.has_errors());
    assert!(start.elapsed().as_secs() < 30, "took {:?}", start.elapsed());
}
