//! From declarations to elements and wires.

use std::sync::Arc;

use thruway_element::{
    Addresses, ArgErrors, Args, Element, Env, NodeStats, Outbox, Paths, Reach, Registry, Share,
    Shared, Spec,
};
use thruway_lang::{Checked, ElementDecl, Graph};

use crate::error::BuildError;
use crate::layout::Layout;
use crate::wires::Wires;

/// The argument texts of an element.
fn texts(decl: &ElementDecl) -> Vec<String> {
    decl.args.iter().map(|arg| arg.text.clone()).collect()
}

/// Enters the names that information elements declare.
pub(crate) fn declare(graph: &Graph, registry: &Registry) -> Result<Addresses, Vec<BuildError>> {
    let mut addresses = Addresses::default();
    let mut errors = Vec::new();
    for (node, decl) in graph.elements.iter().enumerate() {
        let declare = registry.entry(&decl.class).and_then(|entry| entry.declare);
        if let Some(Err(wrong)) =
            declare.map(|declare| declare(&decl.name, &texts(decl), &mut addresses))
        {
            errors.extend(BuildError::of_arguments(node, wrong));
        }
    }
    if errors.is_empty() { Ok(addresses) } else { Err(errors) }
}

/// Builds one element of a class that is known.
fn element(
    decl: &ElementDecl,
    registry: &Registry,
    env: &Env<'_>,
) -> Result<Box<dyn Element>, ArgErrors> {
    let Some(entry) = registry.entry(&decl.class) else {
        return Err(ArgErrors::whole(format!("unknown element class '{}'", decl.class)));
    };
    if let Some(why) = entry.spec.replicas.one_thread().filter(|_| env.threads > 1) {
        return Err(ArgErrors::whole(env.one_thread(why)));
    }
    let texts = texts(decl);
    (entry.build)(&Args::sort(&entry.spec, &texts, env)?)
}

/// Checks the arguments of every element of a known class, in a graph that has other errors.
pub fn check_arguments(graph: &Graph, checked: &Checked, registry: &Registry) -> Vec<BuildError> {
    let addresses = match declare(graph, registry) {
        Ok(addresses) => addresses,
        Err(errors) => return errors,
    };
    let shared = Shared::default();
    let mut errors = Vec::new();
    for (node, decl) in graph.elements.iter().enumerate().filter(|(_, decl)| !decl.is_unknown()) {
        let env = alone(decl, checked, node, (&addresses, &shared));
        if let Err(wrong) = element(decl, registry, &env) {
            errors.extend(BuildError::of_arguments(node, wrong));
        }
    }
    errors
}

/// In which threads the tasks of inputs may run, of those that several threads can serve.
///
/// # Errors
/// All wrong arguments of all elements, if those that say so are wrong.
pub(crate) fn shares(
    graph: &Graph,
    checked: &Checked,
    registry: &Registry,
    addresses: &Addresses,
) -> Result<Vec<Option<Share>>, Vec<BuildError>> {
    let shared = Shared::default();
    let mut errors = Vec::new();
    let mut shares = Vec::new();
    for (node, decl) in graph.elements.iter().enumerate() {
        let entry = registry.entry(&decl.class);
        let Some((entry, ask)) = entry.and_then(|entry| Some((entry, entry.shares?))) else {
            shares.push(None);
            continue;
        };
        let env = alone(decl, checked, node, (addresses, &shared));
        let texts = texts(decl);
        match Args::sort(&entry.spec, &texts, &env).and_then(|args| ask(&args)) {
            Ok(share) => shares.push(Some(share)),
            Err(wrong) => errors.extend(BuildError::of_arguments(node, wrong)),
        }
    }
    if errors.is_empty() {
        return Ok(shares);
    }
    // All errors at once, in the order of the elements.
    let mut all = check_arguments(graph, checked, registry);
    errors.retain(|error| !all.contains(error));
    all.extend(errors);
    all.sort_by_key(|error| error.node);
    Err(all)
}

/// The surroundings of an element in a run of one thread.
fn alone<'a>(
    decl: &'a ElementDecl,
    checked: &Checked,
    node: usize,
    (addresses, shared): (&'a Addresses, &'a Shared),
) -> Env<'a> {
    let ports = checked.elements.get(node);
    Env {
        inputs: ports.map_or(0, |ports| ports.inputs.len()),
        outputs: ports.map_or(0, |ports| ports.outputs.len()),
        ..Env::alone(&decl.name, &decl.class, addresses, shared)
    }
}

/// The paths to an element, and to those that it names.
struct PathsTo<'a> {
    layout: &'a Layout,
    node: usize,
}

impl Paths for PathsTo<'_> {
    fn describe(&self) -> String {
        self.layout.describe_paths(self.node)
    }

    fn of(&self, name: &str) -> Option<Reach> {
        let other = self.layout.find_from(self.node, name)?;
        let threads = self.layout.threads[other].clone();
        Some(Reach { threads, paths: self.layout.describe_paths(other) })
    }

    fn downstream(&self) -> Option<Vec<&'static Spec>> {
        let elements = &self.layout.graph.elements;
        let reached = self.layout.graph.downstream(self.node);
        Some(reached.into_iter().map(|node| elements[node].spec).collect())
    }
}

/// One thread's elements: `None` where the thread does not reach.
pub(crate) type Elements = Vec<Option<Box<dyn Element>>>;

/// Builds the replicas of one thread, and collects all that is wrong.
pub(crate) fn elements(
    layout: &Layout,
    registry: &Registry,
    addresses: &Addresses,
    shared: &Shared,
    thread: usize,
) -> Result<Elements, Vec<BuildError>> {
    let mut built = Vec::new();
    let mut errors = Vec::new();
    for (node, decl) in layout.graph.elements.iter().enumerate() {
        if !layout.threads[node].contains(&thread) {
            built.push(None);
            continue;
        }
        let paths = PathsTo { layout, node };
        let env = Env {
            name: &decl.name,
            class: &decl.class,
            addresses,
            shared,
            thread,
            threads: layout.threads[node].len(),
            rank: layout.threads[node].iter().filter(|other| **other < thread).count(),
            paths: &paths,
            inputs: layout.checked.ninputs(node),
            outputs: layout.checked.noutputs(node),
        };
        match element(decl, registry, &env) {
            Ok(element) => built.push(Some(element)),
            Err(wrong) => errors.extend(BuildError::of_arguments(node, wrong)),
        }
    }
    if errors.is_empty() { Ok(built) } else { Err(errors) }
}

/// The wires of one thread, and what its elements send.
pub(crate) fn wires(layout: &Layout, now: i64) -> (Wires, Outbox) {
    let nodes = || 0..layout.graph.elements.len();
    let slots = layout.slots().to_vec();
    let stats = layout.graph.elements.iter().map(|decl| NodeStats::new(decl.spec)).collect();
    let targets = nodes().map(|node| layout.targets(node));
    let mut out = Outbox::new(targets, slots.len(), Arc::new(stats));
    out.set_now(now);
    (Wires::new(slots, nodes().map(|node| layout.sources(node))), out)
}
