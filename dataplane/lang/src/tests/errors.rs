//! What is said about errors, and where.

use super::catalog::*;

fn click(text: &str) -> String {
    match loaded(text) {
        Ok(loaded) => loaded.warnings.click(),
        Err(diagnostics) => diagnostics.click(),
    }
}

/// The first line, without `config:`.
fn first(text: &str) -> String {
    let all = click(text);
    all.lines().next().unwrap_or("").trim_start_matches("config:").to_string()
}

#[test]
fn unknown_names() {
    assert_eq!(first("a ::\n IPFliter"), "2: unknown element class 'IPFliter'");
    assert_eq!(first("count :: Counter; Any -> coutn"), "1: undeclared element 'coutn'");
    let (_, d) = parsed("InfiniteSource -> IPFliter(allow all) -> Discard");
    let only: Vec<_> = d.iter().collect();
    assert_eq!(only.len(), 1);
    assert_eq!(only[0].headline(), "no element class 'IPFliter'; did you mean IPFilter?");
    let span = only[0].span.unwrap();
    assert_eq!((span.start, span.end), (18, 26));
    let shown = d.render(false);
    assert!(shown.contains("IPFliter(allow all)") && shown.contains("^^^^^^^^"), "{shown}");
}

#[test]
fn all_errors_at_once() {
    let all = click("a -> b ->;\nc :: Foo;\nd :: ;\ne :: Bar; [0 -> x;");
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(
        lines,
        [
            "config:1: syntax error near ';'",
            "config:2: unknown element class 'Foo'",
            "config:3: missing element class in declaration",
            "config:4: unknown element class 'Bar'",
            "config:4: expected ',' or ']'"
        ]
    );
}

#[test]
fn syntax() {
    assert_eq!(first("a :: Any("), "1: expected ')'");
    assert_eq!(first("a :: {\ninput -> output"), "2: expected '}'");
    assert_eq!(first("Any }"), "1: syntax error near '}'");
    assert_eq!(first("a :: Any; a[x] -> a"), "1: syntax error: port number should be integer");
    assert_eq!(
        first("a :: Any; a[9999999] -> a"),
        "1: port number 9999999 is too large (at most 1023)"
    );
    assert_eq!(first("elementclass { }"), "1: expected element class name");
    assert_eq!(first("# nonsense\n"), "1: unknown preprocessor directive");
    assert_eq!(first("define(x 5)"), "1: bad 'define' declaration: not a variable");
}

#[test]
fn declarations() {
    assert_eq!(
        click("a :: Any;\na :: Any;"),
        "config:2: redeclaration of element 'a'\nconfig:1: element 'a' previously declared here\n"
    );
    assert_eq!(first("Any :: Null"), "1: class 'Any' used as element name");
    assert_eq!(first("1 :: Any"), "1: element name '1' has all-digit component");
    assert_eq!(
        first("a :: Any; a(x) -> a"),
        "1: configuration string ignored on element reference"
    );
}

#[test]
fn connections() {
    let text = |c: &str| first(&format!("a, b :: Any; {c}"));
    assert_eq!(text("[1]a -> b"), "1: input ports ignored at start of chain");
    assert_eq!(text("a -> b[1]"), "1: output ports ignored at end of chain");
    assert_eq!(text("a[0,1] -> [0,1]b"), "1: syntax error: many-to-many connections require '=>'");
    assert_eq!(
        text("a[0,1] => [0,1,2]b"),
        "1: connection mismatch: 2 outputs connected to 3 inputs"
    );
    assert_eq!(text("a[2-1] -> b"), "1: empty port range; write [1-2]");
    assert_eq!(text("a[0-] -> b"), "1: expected last port number of the range");
    assert_eq!(text("a[0-1023,0-1023] -> b"), "1: more than 1024 ports in one list");
    assert_eq!(text("a[] => []b"), "1: at most one expandable port allowed per connection");
}

#[test]
fn compounds() {
    assert_eq!(first("a :: { input[1] -> output }"), "1: '<anonymous>' input 0 missing");
    assert_eq!(
        first("a :: { Any -> input }"),
        "1: '<anonymous>' pseudoelement 'input' may only be used as output"
    );
    assert_eq!(first("a :: { input -> Any }"), "1: 'a' input 0 unused");
    assert_eq!(first("a :: { input -> Any }; Any -> a; Any -> [1]a"), "1: 'a' has no input 1");
    assert_eq!(
        first("elementclass A { ... }"),
        "1: '...' should occur last, after one or more compounds"
    );
    assert_eq!(
        click("elementclass A { $a | Info || $b, $c | Info }\nA(1, 2, 3)"),
        "config:2: no match for 'A[3 arguments, 0 inputs, 0 outputs]'\n\
         config:1:   candidate: A(<arg>)[0 inputs, 0 outputs]\n\
         config:1:   candidate: A(<arg>, <arg>)[0 inputs, 0 outputs]\n"
    );
    let nested = click(
        "elementclass A { input -> n :: Null -> Discard; Null -> Discard }\nInfiniteSource -> a :: A",
    );
    assert!(nested.contains("in element 'a' declared at config:2"), "{nested}");
}

#[test]
fn ports() {
    assert_eq!(
        first("s :: InfiniteSource -> d :: Discard; s[1] -> Discard"),
        "1: 's :: InfiniteSource' has no output 1"
    );
    assert_eq!(first("n :: Null -> Discard"), "1: 'n :: Null' input 0 unused");
    assert_eq!(
        first("s :: InfiniteSource; s -> Discard; s -> Discard"),
        "1: illegal reuse of 's :: InfiniteSource' push output 0"
    );
    assert_eq!(
        first("InfiniteSource -> Queue -> d :: ToDevice; InfiniteSource -> Queue -> d"),
        "1: illegal reuse of 'd :: ToDevice' pull input 0"
    );
}

#[test]
fn push_and_pull() {
    assert_eq!(
        first("s :: InfiniteSource -> d :: ToDevice"),
        "1: 's :: InfiniteSource' push output 0 connected to 'd :: ToDevice' pull input 0"
    );
    assert_eq!(
        first("InfiniteSource -> n :: Null -> ToDevice"),
        "1: agnostic 'n :: Null' in mixed context: push input 0, pull output 0"
    );
    assert_eq!(click("InfiniteSource -> Null -> Queue -> Null -> ToDevice"), "");
}

#[test]
fn unreachable_elements_are_reported_to_people_only() {
    let text = "a :: Null -> b :: Null -> a; InfiniteSource -> Discard";
    assert_eq!(click(text), "");
    let shown = loaded(text).unwrap().warnings.render(false);
    for name in ["a", "b"] {
        assert!(shown.contains(&format!("warning: no packet can reach '{name}'")), "{shown}");
    }
}
