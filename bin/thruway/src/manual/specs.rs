//! The content of manuals, from the specs.

use thruway_element::{Handler, Spec, Wants};
use thruway_elements::CATALOG;

/// All specs by name.
pub fn sorted() -> impl Iterator<Item = &'static Spec> {
    let mut specs: Vec<&Spec> = CATALOG.entries().map(|entry| &entry.spec).collect();
    specs.sort_by_key(|spec| spec.name);
    specs.into_iter()
}

/// An element's own handlers, and those of all elements that it has not itself.
pub fn handlers(spec: &Spec) -> impl Iterator<Item = &Handler> {
    let own = |name| spec.handlers.iter().any(|handler| handler.name == name);
    let general = Handler::OF_ALL.iter().filter(move |handler| !own(handler.name));
    spec.handlers.iter().chain(general)
}

/// What the flow manager does for it.
pub fn wants(spec: &Spec) -> Vec<[String; 2]> {
    let Wants { classes, session, scratch, .. } = spec.wants;
    let several = classes.len() > 1;
    let class = |(input, class): (usize, &&str)| {
        let what = if several { format!("class of input {input}") } else { "class".into() };
        let class = if *class == "-" { "the rest" } else { class };
        [what, format!("{class} (where a context link leads to it)")]
    };
    let mut rows: Vec<[String; 2]> = classes.iter().enumerate().map(class).collect();
    rows.extend(session.map(|session| {
        ["session".into(), format!("{session}, with {} bytes of state", scratch.size)]
    }));
    rows
}
