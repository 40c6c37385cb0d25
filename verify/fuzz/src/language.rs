//! The Click language: lexer, parser, expansion, check, formatter. What is formatted means the same
//! and is formatted; what is written out flat is read as the same graph.

use thruway_elements::CATALOG;
use thruway_lang::{
    Examined, Graph, NoLibraries, Source, Variables, dot, examine, format, svg, unparse,
};

use crate::input::text;

/// The graph of a correct configuration; errors are rendered.
fn graph(name: &str, text: &str) -> Option<Graph> {
    let source = Source::new(name, text);
    let Examined { graph, checked, language, ports } =
        examine(source, &CATALOG, &Variables::new(), &NoLibraries);
    let _ = (language.render(false), language.click(), ports.render(true), ports.click());
    if language.has_errors() || ports.has_errors() {
        return None;
    }
    let _ = (dot(&graph, &checked), svg(&graph, &checked));
    Some(graph)
}

/// See the module.
pub fn run(bytes: &[u8]) {
    let text = text(bytes);
    let formatted = format(&Source::new("fuzz", text.clone())).ok();
    if let Some(formatted) = &formatted {
        let again = format(&Source::new("fuzz", formatted.clone())).expect("it was right before");
        assert_eq!(again, *formatted, "from {text:?}");
    }
    let Some(read) = graph("fuzz", &text) else { return };
    let flat = unparse(&read);
    let again = graph("flat", &flat).unwrap_or_else(|| panic!("flat {flat:?} of {text:?}"));
    assert_eq!(unparse(&again), flat, "of {text:?}");
    let formatted = formatted.expect("what has a graph can be parsed");
    let again = graph("fuzz", &formatted);
    let again = again.unwrap_or_else(|| panic!("formatted {formatted:?} of {text:?}"));
    let classes = |graph: &Graph| -> Vec<(String, String)> {
        graph.elements.iter().map(|it| (it.class.clone(), it.name.clone())).collect()
    };
    assert_eq!(classes(&again), classes(&read), "formatted {formatted:?} of {text:?}");
    assert_eq!(again.edges.len(), read.edges.len());
}
