//! What is derived from a graph.

use super::catalog::*;
use crate::{Loaded, Processing, dot, svg};

fn good(text: &str) -> Loaded {
    loaded(text).unwrap_or_else(|diagnostics| panic!("{}", diagnostics.click()))
}

fn names(loaded: &Loaded, indices: &[usize]) -> Vec<String> {
    indices.iter().map(|index| loaded.graph.elements[*index].name.clone()).collect()
}

const ROAD: &str = "s :: InfiniteSource -> c :: CheckIPHeader -> q :: Queue -> n :: Null
    -> u :: Unqueue -> d :: Discard; c[1] -> bad :: Discard";

#[test]
fn processing_is_settled() {
    let l = good(ROAD);
    let input = |name| l.checked.elements[l.graph.find(name).unwrap()].inputs[0].processing;
    assert_eq!(input("c"), Processing::Push);
    assert_eq!(input("n"), Processing::Pull);
    assert_eq!(input("d"), Processing::Push);
    assert_eq!(l.checked.noutputs(l.graph.find("c").unwrap()), 2);
}

#[test]
fn tasks_reach_up_to_queues() {
    let l = good(ROAD);
    let reach = |name| names(&l, l.checked.reach(l.graph.find(name).unwrap()));
    assert_eq!(reach("s"), ["s", "c", "q", "bad"]);
    assert_eq!(reach("u"), ["q", "n", "u", "d"]);
    let q = l.graph.find("q").unwrap();
    assert_eq!(names(&l, &l.checked.tasks_of(q)), ["s", "u"]);
}

#[test]
fn pulling_through_an_element_may_push_its_errors() {
    let l = good(
        "InfiniteSource -> Queue -> c :: CheckIPHeader -> t :: ToDevice; c[1] -> bad :: Discard",
    );
    let reach = names(&l, l.checked.reach(l.graph.find("t").unwrap()));
    assert!(reach.contains(&"bad".to_string()), "{reach:?}");
}

#[test]
fn flow_codes_keep_lanes_apart() {
    let l = good(
        "s :: InfiniteSource -> l :: Lanes -> Discard; InfiniteSource -> Queue -> [1]l[1] -> ToDevice",
    );
    let ports = &l.checked.elements[l.graph.find("l").unwrap()];
    assert_eq!(ports.outputs[0].processing, Processing::Push);
    assert_eq!(ports.outputs[1].processing, Processing::Pull);
}

#[test]
fn order_leads_downstream() {
    let l = good("d :: Discard; n :: Null -> t :: Tee -> d; t[1] -> Discard; InfiniteSource -> n");
    let at = |name| l.checked.order.iter().position(|i| *i == l.graph.find(name).unwrap()).unwrap();
    assert!(at("n") < at("t") && at("t") < at("d"));
    assert_eq!(l.checked.order.len(), l.graph.elements.len());
}

#[test]
fn pictures() {
    let l = good(
        "s :: InfiniteSource -> a :: { input -> \"\\<3c>\" :: Null -> output } -> Discard"
            .replace("\"\\<3c>\"", "x")
            .as_str(),
    );
    let dot = dot(&l.graph, &l.checked);
    assert!(dot.contains("subgraph \"cluster a\"") && dot.contains("e0:o0:s -> e2:i0:n"), "{dot}");
    assert_eq!(dot.matches('{').count(), dot.matches('}').count());
    let svg = svg(&l.graph, &l.checked);
    assert_eq!(svg.matches("<rect x=").count(), 3);
    assert_eq!(svg.matches("<path d=\"M").count(), 2 + 4);
    assert!(svg.ends_with("</svg>\n"));
}
