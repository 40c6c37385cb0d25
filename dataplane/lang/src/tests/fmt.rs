use super::catalog::*;
use crate::{Source, format, unparse};

fn formatted(text: &str) -> String {
    let once = format(&Source::new("f", text)).unwrap_or_else(|e| panic!("{}", e.render(false)));
    let twice = format(&Source::new("f", once.clone())).unwrap();
    assert_eq!(once, twice, "not idempotent");
    once
}

#[test]
fn blanks_and_indentation() {
    assert_eq!(
        formatted("a::Queue( 5,x )->b ;  c,d::Discard\n\n\n\nt[1]->[0]c"),
        "a :: Queue(5, x) -> b; c, d :: Discard\n\nt[1] -> [0]c\n"
    );
    assert_eq!(formatted("a~>[1]b\n~>c;a[1]~>c"), "a ~> [1]b\n    ~> c; a[1] ~> c\n");
    assert_eq!(
        formatted("elementclass A{ $x,K $y|\ninput->Null($x)\n->output;\n||\n...}"),
        "elementclass A { $x, K $y |\n    input -> Null($x)\n        -> output;\n||\n    ... }\n"
    );
    assert_eq!(
        formatted("define( $x 5 )\nrequire(package  x)"),
        "define($x 5)\nrequire(package  x)\n"
    );
}

#[test]
fn comments_stay() {
    assert_eq!(
        formatted("// top\n\na->b; // end\n/* c */ b ->\n// mid\nc;"),
        "// top\n\na -> b; // end\n/* c */ b ->\n    // mid\n    c;\n"
    );
    assert_eq!(formatted("a // x\n; b"), "a // x\n    ; b\n");
}

#[test]
fn long_configurations_are_indented() {
    assert_eq!(
        formatted("f :: IPFilter(\nallow a,  // one\n\t\"x\n y\",\n deny all\n)"),
        "f :: IPFilter(\n    allow a,  // one\n    \"x\n y\",\n    deny all\n)\n"
    );
}

#[test]
fn meaning_is_kept() {
    for text in [
        "s::InfiniteSource->t::Tee;t[0,1]=>[0,0]d::Any;",
        "elementclass A{$x|input->Null($x)->output}s::InfiniteSource->A(a,\n b)->Discard",
        "s::InfiniteSource ->( ->Null-> )-> Discard",
        "s::InfiniteSource~>Discard;s~>{input->Null->output}~>Discard",
        "# 5 \"x\"\ns::InfiniteSource // c\n->Discard",
    ] {
        let (before, after) = (parsed(text).0, parsed(&formatted(text)).0);
        assert_eq!(elements(&before).len(), elements(&after).len(), "{text}");
        assert_eq!(edges(&before), edges(&after), "{text}");
        assert_eq!(
            unparse(&before).split_whitespace().collect::<String>(),
            unparse(&after).split_whitespace().collect::<String>()
        );
    }
}

#[test]
fn a_comment_before_the_end_of_a_group_with_configurations() {
    // The group's parenthesis was taken for that of a configuration, and moved into the comment.
    let text = "(a(1) -> b // c\n) -> d;\n";
    assert_eq!(format(&Source::new("f", text)).unwrap(), text);
    assert_eq!(
        format(&Source::new("f", "(a (x), b(y)) -> (c(z), d);")).unwrap(),
        "(a(x), b(y)) -> (c(z), d);\n"
    );
}
