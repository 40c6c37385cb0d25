//! Any element with any arguments, and any of its handlers with any value.

use thruway_element::{Arg, Catalog as _, Entry, Spec, Topic, Ty};
use thruway_elements::CATALOG;
use thruway_engine::{Options, Router};
use thruway_lang::{ArgText, Graph, NoLibraries, Source, Variables, load, resolve};

use crate::input::text;

/// Classes that reach outside of the process once they run, besides those of their topics; and one
/// that panics because it is asked to.
const OUTSIDE: &[&str] =
    &["ChatterSocket", "ControlSocket", "Crash", "Error", "PokeHandlers", "Script", "WorkPackage"];

/// Whether a class stays within the process, whatever its arguments are.
fn stays_within(spec: &Spec) -> bool {
    let files = |arg: &Arg| matches!(arg.ty, Ty::File | Ty::OutFile);
    !spec.topic.is_port()
        && spec.topic != Topic::Nf
        && !OUTSIDE.contains(&spec.name)
        && !spec.args.iter().any(files)
}

/// The example of an element, where all elements of it stay within the process, and the element's
/// place in it.
fn example(number: &[u8]) -> Option<(&'static Entry, Graph, usize)> {
    let number = u16::from_le_bytes(number.try_into().ok()?);
    let entries: Vec<&'static Entry> = CATALOG.entries().collect();
    let entry = entries[usize::from(number) % entries.len()];
    let source = Source::new("fuzz", entry.spec.example);
    let loaded = load(source, &CATALOG, &Variables::new(), &NoLibraries).ok()?;
    let graph = loaded.graph;
    if !graph.elements.iter().all(|it| stays_within(it.spec)) {
        return None;
    }
    let at = graph.elements.iter().position(|it| it.spec.name == entry.spec.name)?;
    Some((entry, graph, at))
}

fn options() -> Options {
    Options { log: std::sync::Arc::new(|_| ()), ..Options::default() }
}

/// Puts other arguments, and possibly an alias of its class, in an element's place: it is refused
/// with a reason, or built.
pub fn arguments(bytes: &[u8]) {
    let Some((number, rest)) = bytes.split_at_checked(2) else { return };
    let Some((entry, mut graph, at)) = example(number) else { return };
    let Some((alias, rest)) = rest.split_first() else { return };
    let rest = text(rest);
    // Commas within quotes and parentheses are not looked at here: each line is an argument.
    let span = graph.elements[at].span;
    let args: Vec<ArgText> =
        rest.lines().map(|line| ArgText { text: line.trim().to_owned(), span }).collect();
    let decl = &mut graph.elements[at];
    if let Some(alias) = entry.spec.aliases.get(usize::from(*alias)) {
        decl.class = alias.name.to_owned();
        decl.spec = CATALOG.spec(alias.name).unwrap_or(decl.spec);
    }
    decl.config = args.iter().map(|arg| arg.text.clone()).collect::<Vec<_>>().join(", ");
    decl.args = args;
    let (checked, found) = resolve(&graph);
    if found.has_errors() {
        return;
    }
    if let Err(errors) = Router::new(graph, checked, &CATALOG, &options()) {
        assert!(!errors.is_empty() && errors.iter().all(|error| !error.message.is_empty()));
    }
}

/// Handlers that write files.
fn is_outside(handler: &str) -> bool {
    handler.contains("file") || handler.contains("save") || handler == "hotconfig"
}

/// Reads and writes handlers of all elements of an example, and of the router: byte by byte which
/// element and handler, and up to the next 0xff with which parameter or value.
pub fn handlers(bytes: &[u8]) {
    let Some((number, rest)) = bytes.split_at_checked(2) else { return };
    let Some((_, graph, _)) = example(number) else { return };
    let (checked, found) = resolve(&graph);
    if found.has_errors() {
        return;
    }
    let Ok(mut router) = Router::new(graph, checked, &CATALOG, &options()) else { return };
    if router.initialize().is_err() {
        return;
    }
    for call in rest.split(|byte| *byte == 0xff) {
        let [element, handler, value @ ..] = call else { continue };
        let value = text(value);
        let layout = std::sync::Arc::clone(router.layout());
        let elements = &layout.graph.elements;
        let Some(decl) = elements.get(usize::from(*element) % (elements.len() + 1)) else {
            let _ = router.read(&value);
            let _ = router.read(&format!("trace {value}"));
            let _ = router.write("trace", &value);
            continue;
        };
        let known = decl.spec.handlers;
        let Some(handler) = known.get(usize::from(*handler) % known.len().max(1)) else { continue };
        if is_outside(handler.name) {
            continue;
        }
        let call = format!("{}.{}", decl.name, handler.name);
        if handler.access.writable() {
            let _ = router.write(&call, &value);
        }
        if handler.access.readable() {
            let _ = router.read(&format!("{call} {value}"));
        }
    }
    let _ = router.finish();
}
