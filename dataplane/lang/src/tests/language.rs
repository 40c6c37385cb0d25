//! A test per construct.

use super::catalog::*;
use crate::{Loader, NoLibraries, Source, Variables, parse_with};

#[test]
fn declarations_and_chains() {
    let g =
        graph("s :: InfiniteSource(LIMIT 5); d, e :: Discard\n t :: Tee s -> t; t[1] -> e; t -> d");
    assert_eq!(
        elements(&g),
        ["s :: InfiniteSource(LIMIT 5)", "d :: Discard", "e :: Discard", "t :: Tee"]
    );
    assert_eq!(edges(&g), ["s[0] -> [0]t", "t[0] -> [0]d", "t[1] -> [0]e"]);
}

#[test]
fn anonymous_and_inline_declarations() {
    let g = graph("InfiniteSource -> n :: Null -> Null(x) -> Discard; Info; Null");
    assert_eq!(
        elements(&g),
        [
            "InfiniteSource@1 :: InfiniteSource",
            "n :: Null",
            "Null@3 :: Null(x)",
            "Discard@4 :: Discard",
            "Info@5 :: Info",
            "Null@6 :: Null"
        ]
    );
    let g = graph("Null@2 :: Null; Null -> Null@2");
    assert_eq!(elements(&g), ["Null@2 :: Null", "Null@3 :: Null"]);
}

#[test]
fn lists_of_ports_and_elements() {
    assert_eq!(
        edges(&graph("a, b, c :: Any; a[0, 1] => [1, 0]b; a[2], b[3] -> c")),
        ["a[0] -> [1]b", "a[1] -> [0]b", "a[2] -> [0]c", "b[3] -> [0]c"]
    );
    assert_eq!(
        edges(&graph("a, b :: Any; a => [0,1,2]b")),
        ["a[0] -> [0]b", "a[1] -> [1]b", "a[2] -> [2]b"]
    );
    assert_eq!(
        edges(&graph("a, b :: Any; a[0-2] => [5, 1-2]b")),
        ["a[0] -> [5]b", "a[1] -> [1]b", "a[2] -> [2]b"]
    );
    assert_eq!(edges(&graph("a, b :: Any; a[] => [2,3]b")), ["a[0] -> [2]b", "a[1] -> [3]b"]);
    assert_eq!(edges(&graph("a, b :: Any; a[1,] => [2,3]b")), ["a[1] -> [2]b", "a[2] -> [3]b"]);
    assert_eq!(
        edges(&graph(
            "a, b :: Any; (a, b) -> c :: Any; (a, c)[1] -> d :: Any"
                .split(';')
                .take(2)
                .collect::<Vec<_>>()
                .join(";")
                .as_str()
        )),
        ["a[0] -> [0]c", "b[0] -> [0]c"]
    );
}

#[test]
fn groups() {
    let g = graph(
        "a :: Any -> ( -> Null -> ; [1] -> Counter -> [1] ) => b :: Any; a[1] -> [1]c :: Any",
    );
    assert!(edges(&g).iter().any(|e| e.starts_with("a[0] -> [0]Null@")), "{:?}", edges(&g));
    assert!(edges(&g).iter().any(|e| e.starts_with("a[0] -> [0]Counter@")), "{:?}", edges(&g));
    assert!(edges(&g).iter().any(|e| e.starts_with("Counter@") && e.ends_with("-> [1]b")));
}

#[test]
fn compound_elements() {
    let g = graph(
        "compound :: { input -> x :: Null -> output; input[1] -> Counter -> [1]output };
         a :: Any -> compound -> b :: Any; c :: Any -> [1]compound[1] -> d :: Any;",
    );
    assert_eq!(
        elements(&g),
        [
            "a :: Any",
            "b :: Any",
            "c :: Any",
            "d :: Any",
            "compound/x :: Null",
            "compound/Counter@2 :: Counter"
        ]
    );
    assert_eq!(
        edges(&g),
        [
            "a[0] -> [0]compound/x",
            "c[0] -> [0]compound/Counter@2",
            "compound/x[0] -> [0]b",
            "compound/Counter@2[0] -> [0]d"
        ]
    );
    let g = graph("a :: Any -> { input -> { input -> output } -> output } -> b :: Any");
    assert_eq!(edges(&g), ["a[0] -> [0]b"]);
}

#[test]
fn element_classes() {
    let g = graph(
        "elementclass A { $x, KEY $k, __REST__ $r | input -> Null($x/$k/$r, \"$x\") -> output }
         a :: Any -> A(1 \"q\", rest, KEY two words, more) -> b :: Any",
    );
    assert_eq!(
        elements(&g)[2],
        "A@2/Null@1 :: Null(1 \"q\"/two words/rest, more, \"1 \\\"q\\\"\")"
    );
    let g = graph("elementclass Q Queue; a :: Any -> Q(5) -> b :: Any");
    assert_eq!(elements(&g)[1], "Q@2 :: Queue(5)");
}

#[test]
fn element_classes_are_lexically_scoped_and_not_recursive() {
    let g = graph(
        "elementclass Null { input -> Null(1) -> Null(2) -> output }
         elementclass B { input -> Null -> output } elementclass Null Counter;
         a :: Any -> B -> Null -> b :: Any",
    );
    assert_eq!(
        elements(&g),
        [
            "a :: Any",
            "Null@3 :: Counter",
            "b :: Any",
            "B@2/Null@1/Null@1 :: Null(1)",
            "B@2/Null@1/Null@2 :: Null(2)"
        ]
    );
}

#[test]
fn overloads_and_extension() {
    let text = "elementclass Null { $a | input -> Null(one, $a) -> output ||
        $a, $b | input -> Null(two) -> output || input[0], input[1] -> Any -> output || ... }
        s :: Any -> Null(x) -> Null(x, y) -> Null -> e :: Any";
    let g = graph(text);
    let g = elements(&g);
    assert!(g.contains(&"Null@2/Null@1 :: Null(one, x)".to_string()), "{g:?}");
    assert!(g.contains(&"Null@3/Null@1 :: Null(two)".to_string()), "{g:?}");
    assert!(g.contains(&"Null@4 :: Null".to_string()), "{g:?}");
}

#[test]
fn variables() {
    let mut variables = Variables::new();
    variables.set("y", "7");
    let text = "define($x 5, $y 6); Info($x, $y, '$x', \"${x}s\", $z); define($later 1)
        i :: { define($x 9, $w $later) Info($x $w $y) }";
    let (g, d) = parse_with(Source::new("config", text), &Small, &variables, &NoLibraries);
    assert!(!d.has_errors(), "{}", d.click());
    assert_eq!(elements(&g), ["Info@1 :: Info(5, 7, '$x', \"5s\", $z)", "i/Info@1 :: Info(9 1 7)"]);
}

#[test]
fn requirements() {
    let g = graph("require(package a, b, compact_config); provide(me)");
    let all: Vec<String> = g.requirements.iter().map(ToString::to_string).collect();
    assert_eq!(all, ["package \"a\"", "package \"b\"", "compact_config"]);
    assert_eq!(g.provides, ["me"]);
}

struct Library;

impl Loader for Library {
    fn load(&self, name: &str, from: &str) -> Result<Source, String> {
        match name {
            "lib" => Ok(Source::new(
                "lib",
                "require(library lib) elementclass L { input -> Null -> output }",
            )),
            _ => Err(format!("library '{name}' not found from {from}")),
        }
    }
}

#[test]
fn libraries() {
    let text = "require(library lib, library lib); Any -> L -> Any; require(library no)";
    let (g, d) = parse_with(Source::new("config", text), &Small, &Variables::new(), &Library);
    assert_eq!(d.click(), "config:1: library 'no' not found from config\n");
    assert_eq!(g.elements[2].landmark, "lib:1");
}

#[test]
fn arguments_have_spans_through_compounds() {
    let text =
        "elementclass A { $x |\n input -> n :: Null($x, K 3) -> output }\nAny -> a :: A(v) -> Any";
    let g = graph(text);
    let n = &g.elements[g.find("a/n").unwrap()];
    let spans: Vec<&str> = n.args.iter().map(|arg| g.sources.text(arg.span)).collect();
    assert_eq!(spans, ["$x", "K 3"]);
    assert_eq!((n.landmark.as_str(), n.context[0].name.as_str()), ("config:2", "a"));
    assert_eq!(n.context[0].landmark, "config:3");
}

#[test]
fn line_directives_move_landmarks() {
    let g = graph("Info;\n# 40 \"other\"\nInfo(\n#line 90\nx\n);\nInfo");
    let marks: Vec<&str> = g.elements.iter().map(|e| e.landmark.as_str()).collect();
    assert_eq!(marks, ["config:1", "other:40", "other:92"]);
    assert_eq!(g.elements[1].args[0].text, "x");
}
