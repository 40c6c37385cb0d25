//! Capabilities that elements implement and their entries do not register.
//!
//! An entry registers what its elements can do besides handling packets. What it does not register
//! is never used, and no compiler says so: state is lost in a hot swap, an end of a session is not
//! reported.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;

use syn::visit::{self, Visit};
use thruway_element::{Addresses, Args, Capabilities, Element, Entry, Env, Shared};
use thruway_elements::CATALOG;
use thruway_lang::{NoLibraries, Source, Variables};

use crate::{Problem, Tree};

/// Where elements and their entries are.
const ELEMENTS: &str = "dataplane/elements/";

/// The remedy in both cases.
const REGISTER: &str = "register it at the entry (thruway_element::Entry)";

/// What is registered: the trait, and the function of an entry. Handlers are like a capability.
fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    Capabilities::ALL.iter().copied().chain([("Handlers", "with_handlers")])
}

/// Implementations of capabilities that no entry registers.
pub fn unregistered(tree: &Tree) -> Vec<Problem> {
    let mut found = Implementations::default();
    for (path, text) in tree.sources().filter(|(path, _)| path.starts_with(ELEMENTS)) {
        found.path = path.to_owned();
        if let Ok(file) = syn::parse_file(text) {
            found.visit_file(&file);
        }
    }
    let Implementations { implemented, registered, .. } = found;
    let missing = implemented.into_iter().filter(|(what, _)| !registered.contains(what));
    let problem = |((name, of), path): ((String, String), String)| {
        Problem::new(path, format!("no entry registers {name} of {of}"), REGISTER)
    };
    missing.map(problem).collect()
}

/// What sources implement and register.
#[derive(Default)]
struct Implementations {
    path: String,
    /// Capability and type, and where.
    implemented: BTreeMap<(String, String), String>,
    registered: Vec<(String, String)>,
}

impl<'ast> Visit<'ast> for Implementations {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let name = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        let name = name.map(|segment| segment.ident.to_string()).unwrap_or_default();
        if let Some(of) = type_name(&item.self_ty)
            && all().any(|(capability, _)| capability == name)
        {
            self.implemented.insert((name, of), self.path.clone());
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        // The struct that it is a part of answers with its handlers.
        if field.attrs.iter().any(|attribute| attribute.path().is_ident("part")) {
            let part = type_name(&field.ty).map(|of| ("Handlers".to_owned(), of));
            self.registered.extend(part);
        }
        visit::visit_field(self, field);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let known = all().find(|(_, register)| call.method == register);
        if let (Some((name, _)), Some(generic)) = (known, &call.turbofish) {
            let types = generic.args.iter().filter_map(|argument| match argument {
                syn::GenericArgument::Type(of) => type_name(of),
                _ => None,
            });
            self.registered.extend(types.map(|of| (name.to_owned(), of)));
        }
        visit::visit_expr_method_call(self, call);
    }
}

/// The last word of a type's path.
fn type_name(of: &syn::Type) -> Option<String> {
    match of {
        syn::Type::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        _ => None,
    }
}

/// Classes whose entries register other capabilities than another one does for the same type, or
/// capabilities of a type that they do not build.
pub fn unlike() -> Vec<Problem> {
    let mut of_type: BTreeMap<TypeId, (&str, Vec<&str>)> = BTreeMap::new();
    let mut problems = Vec::new();
    for entry in CATALOG.entries() {
        let name = entry.spec.name;
        let Some(element) = built(entry) else { continue };
        let (all, own) = (entry.capabilities.names(), entry.capabilities.names_of(&*element));
        if all != own {
            let what = format!("registers {all:?}, and of these its elements have {own:?}");
            problems.push(Problem::new(name, what, "register those of the type that it builds"));
        }
        if !entry.spec.handlers.is_empty() && !entry.has_handlers(&*element) {
            let what = "declares handlers, and registers no type that answers them";
            problems.push(Problem::new(name, what, "register Handlers of its type"));
        }
        let element: &dyn Any = &*element;
        let (first, same) = of_type.entry(element.type_id()).or_insert((name, own.clone()));
        if *same != own {
            let what = format!("registers {own:?}, and {first}, of the same type, {same:?}");
            problems.push(Problem::new(name, what, REGISTER));
        }
    }
    problems
}

/// Published figures that are no handlers of their class: a figure is what a handler answers.
pub fn nameless_figures() -> Vec<Problem> {
    let mut problems = Vec::new();
    for entry in CATALOG.entries() {
        let Some(element) = built(entry) else { continue };
        let figures = entry.publisher(&*element).map_or(&[][..], |publisher| publisher.figures());
        let is_read = |name: &str| {
            let handler = entry.spec.handler(name);
            handler.is_some_and(|handler| handler.access.readable())
        };
        for figure in figures.iter().filter(|figure| !is_read(figure)) {
            let what = format!("publishes {figure}, which is none of its read handlers");
            problems.push(Problem::new(entry.spec.name, what, "declare a handler of this name"));
        }
    }
    problems
}

/// Classes with an example that builds no element, so that [`unlike`] does not check them.
pub fn unbuilt() -> Vec<&'static str> {
    let entries = CATALOG.entries().filter(|entry| built(entry).is_none());
    entries.map(|entry| entry.spec.name).collect()
}

/// An element of a class, as its example has it.
fn built(entry: &'static Entry) -> Option<Box<dyn Element>> {
    let source = Source::new(entry.spec.name, entry.spec.example);
    let loaded = thruway_lang::load(source, &CATALOG, &Variables::new(), &NoLibraries).ok()?;
    let (addresses, shared) = (Addresses::default(), Shared::default());
    let mut elements = loaded.graph.elements.iter().enumerate();
    elements.find_map(|(node, decl)| {
        if decl.spec.name != entry.spec.name {
            return None;
        }
        let env = Env::alone(&decl.name, &decl.class, &addresses, &shared);
        let ports = &loaded.checked.elements[node];
        let env = Env { inputs: ports.inputs.len(), outputs: ports.outputs.len(), ..env };
        let texts: Vec<String> = decl.args.iter().map(|arg| arg.text.clone()).collect();
        (entry.build)(&Args::sort(&entry.spec, &texts, &env).ok()?).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(text: &str) -> Vec<String> {
        let tree = Tree { files: vec![(format!("{ELEMENTS}x.rs"), text.to_owned())] };
        unregistered(&tree).into_iter().map(|problem| problem.what).collect()
    }

    #[test]
    fn what_is_implemented_is_registered() {
        let implemented = "impl HotSwap for Store {} impl Buffer for Store {}\
                           impl<T> HotSwap for Other<T> {} impl Element for Store {}";
        let both = ".with_hot_swap::<Other<u8>>().with_buffer::<Store>()";
        let entry = format!("static ENTRY: Entry = Entry::new(SPEC, build){both}");
        let text = format!("{implemented}\n{entry};");
        assert_eq!(missing(&text), ["no entry registers HotSwap of Store"]);
        let text = format!("{implemented}\n{entry}.with_hot_swap::<Store>();");
        assert_eq!(missing(&text), [""; 0]);
    }
}
