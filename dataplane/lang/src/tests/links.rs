//! Context links, and the dispatchers that they put in place.

use thruway_element::{Catalog, Spec};

use super::catalog::*;
use crate::{NoLibraries, Source, Variables, dot, load, parse_with, svg, unparse};

fn click(text: &str) -> String {
    match loaded(text) {
        Ok(loaded) => loaded.warnings.click(),
        Err(diagnostics) => diagnostics.click(),
    }
}

#[test]
fn a_link_is_a_dispatcher_with_an_output() {
    let g = graph("a :: Any ~> b :: Any -> c :: Any");
    assert_eq!(
        elements(&g),
        ["a :: Any", "b :: Any", "c :: Any", "FlowDispatcher@4 :: FlowDispatcher"]
    );
    assert_eq!(
        edges(&g),
        ["a[0] ~> [0]FlowDispatcher@4", "b[0] -> [0]c", "FlowDispatcher@4[0] ~> [0]b"]
    );
    assert_eq!(g.sources.text(g.elements[3].span), "~>");
    assert_eq!(g.elements[3].landmark, "config:1");
}

#[test]
fn links_of_an_output_share_a_dispatcher_in_the_order_written() {
    let g = graph("a, b, c, d :: Any; a ~> d; a[1] ~> [1]d; a ~> [1]b; a ~> c, [2]b");
    assert_eq!(
        edges(&g),
        [
            "a[0] ~> [0]FlowDispatcher@5",
            "a[1] ~> [0]FlowDispatcher@6",
            "FlowDispatcher@5[0] ~> [0]d",
            "FlowDispatcher@5[1] ~> [1]b",
            "FlowDispatcher@5[2] ~> [0]c",
            "FlowDispatcher@5[3] ~> [2]b",
            "FlowDispatcher@6[0] ~> [1]d"
        ]
    );
}

#[test]
fn names_that_are_taken_are_counted_past() {
    let g = graph("FlowDispatcher@3 :: Any ~> b :: Any; b ~> FlowDispatcher@3");
    let names: Vec<&str> = g.elements[2..].iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ["FlowDispatcher@4", "FlowDispatcher@5"]);
}

#[test]
fn links_within_a_compound_replace_the_link_to_it() {
    let g = graph(
        "a, x, y :: Any; a ~> x; a ~> c :: { input -> n :: Null -> Discard;
             input -> m :: Counter -> Discard }; a ~> y",
    );
    assert_eq!(
        edges(&g)[3..],
        [
            "FlowDispatcher@5[0] ~> [0]x",
            "FlowDispatcher@5[1] ~> [0]c/n",
            "FlowDispatcher@5[2] ~> [0]c/m",
            "FlowDispatcher@5[3] ~> [0]y"
        ],
        "{:?}",
        edges(&g)
    );
}

#[test]
fn a_dispatcher_belongs_to_where_its_link_is_written() {
    let inside = graph("a :: Any -> c :: { input ~> n :: Null -> output } -> b :: Any");
    let dispatcher = inside.elements.last().unwrap();
    assert_eq!(dispatcher.name, "c/FlowDispatcher@2");
    assert_eq!(dispatcher.context[0].name, "c");
    let behind = graph("a :: Any -> c :: { input -> n :: Null -> output } ~> b :: Any; c ~> a");
    let dispatcher = behind.elements.last().unwrap();
    assert_eq!((dispatcher.name.as_str(), dispatcher.context.len()), ("FlowDispatcher@4", 0));
    assert_eq!(
        edges(&behind)[1..],
        [
            "c/n[0] ~> [0]FlowDispatcher@4",
            "FlowDispatcher@4[0] ~> [0]b",
            "FlowDispatcher@4[1] ~> [0]a"
        ]
    );
}

#[test]
fn a_dispatcher_without_rules_is_not_given_another() {
    let text = "a, b, c :: Any; a ~> f :: FlowDispatcher ~> b; f[1] ~> c";
    assert_eq!(edges(&graph(text)), ["a[0] ~> [0]f", "f[0] ~> [0]b", "f[1] ~> [0]c"]);
    let text = "a, b, c :: Any; a -> f :: FlowDispatcher(tcp, -); f ~> b; f ~> c; f[1] -> [1]c";
    assert_eq!(graph(text).elements.len(), 5);
}

#[test]
fn a_flat_text_means_the_same() {
    let before = graph("a, b :: Any; a ~> b; a ~> { input -> Null -> output } ~> [1]b");
    let after = graph(&unparse(&before));
    assert_eq!((elements(&before), edges(&before)), (elements(&after), edges(&after)));
}

#[test]
fn plain_links_are_not_mixed_with_context_links() {
    assert_eq!(
        click("s :: InfiniteSource;\ns ~> Discard;\ns -> Discard"),
        "config:3: output 0 of 's' has a plain link '->' beside a context link '~>': write '~>' \
         for both, then packets are sorted between them\n\
         config:2: the context link is here\n"
    );
    let many =
        "s :: Tee -> Discard; InfiniteSource -> s; s[1,2] => Discard, Discard; s[2] ~> Discard";
    assert!(click(many).contains("output 2 of 's' has a plain link"), "{}", click(many));
    let plain = click("s :: InfiniteSource; s -> Discard; s -> Discard");
    assert!(plain.contains("illegal reuse of 's :: InfiniteSource' push output 0"), "{plain}");
}

#[test]
fn context_links_push() {
    let from_pull = click("InfiniteSource -> q :: Queue ~> ToDevice");
    assert!(
        from_pull
            .starts_with("config:1: context link at 'q :: Queue' pull output 0: a context link"),
        "{from_pull}"
    );
    assert!(from_pull.contains("context link at 'ToDevice@3 :: ToDevice' pull input 0"));
    let through = click("InfiniteSource -> Queue -> n :: Null ~> Discard");
    assert!(through.contains("agnostic 'n :: Null' in mixed context"), "{through}");
    assert!(through.contains("put a queue behind it"), "{through}");
    assert_eq!(click("InfiniteSource -> Queue -> Unqueue ~> Null ~> Queue -> ToDevice"), "");
}

struct Without;

impl Catalog for Without {
    fn spec(&self, name: &str) -> Option<&'static Spec> {
        Small.spec(name).filter(|spec| spec.name != "FlowDispatcher")
    }

    fn names(&self) -> Vec<&'static str> {
        Small.names()
    }
}

#[test]
fn a_catalog_without_dispatchers_has_no_context_links() {
    let text = "InfiniteSource -> n :: Null\n~> Discard";
    let source = Source::new("config", text);
    let (_, found) = parse_with(source.clone(), &Without, &Variables::new(), &NoLibraries);
    assert_eq!(
        found.click(),
        "config:2: context link 'n ~> Discard@3' needs an element class that sorts packets \
         between such links, and there is none here; use '->' and a classifier\n"
    );
    assert!(load(source, &Without, &Variables::new(), &NoLibraries).is_err());
}

#[test]
fn an_own_class_of_the_name_does_not_replace_it() {
    let g = graph("elementclass FlowDispatcher { input -> Null -> output }; Any ~> Any");
    assert_eq!(elements(&g)[2], "FlowDispatcher@3 :: FlowDispatcher");
}

#[test]
fn pictures_show_context_links() {
    let l = loaded("InfiniteSource ~> Null -> Discard").unwrap_or_else(|d| panic!("{}", d.click()));
    assert_eq!(dot(&l.graph, &l.checked).matches("style=dashed").count(), 2);
    assert_eq!(svg(&l.graph, &l.checked).matches("stroke-dasharray").count(), 2);
}
