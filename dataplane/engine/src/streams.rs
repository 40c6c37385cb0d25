//! Contexts of streams: the elements of each, and their functions' needs. Sets up the least that
//! serves all of them (thesis, 5.5.1).

use std::fmt::Write as _;

use thruway_element::{
    Catalog as _, Exception, Layer, Needs, Purpose, Registry, StreamMember, StreamPlan,
};
use thruway_lang::Processing;

use crate::build::Elements;
use crate::error::{BuildError, Stage};
use crate::layout::Layout;
use crate::replica::Replica;

/// The contexts of a configuration, in the order of the elements that they begin with.
#[derive(Debug, Default)]
pub struct Streams {
    /// With the layer of each.
    pub contexts: Vec<(Layer, StreamPlan)>,
    /// By element: the cases in which its functions cannot inspect their payload.
    pub exceptions: Vec<(u32, Vec<Exception>)>,
}

/// Finds the contexts and informs their elements.
///
/// # Errors
/// Functions without a context, contexts that do not end, or end without having begun.
pub(crate) fn plan(
    layout: &Layout,
    registry: &Registry,
    replicas: &mut [Elements],
) -> Result<Streams, Vec<BuildError>> {
    let roles = roles(layout, replicas);
    let walk = Walk { layout, registry, roles: &roles };
    let mut streams = Streams::default();
    let mut errors = Vec::new();
    let mut covered = vec![false; roles.len()];
    for (node, role) in roles.iter().enumerate() {
        let Some(Role::Begin(layer, _)) = *role else { continue };
        match walk.context(node, layer) {
            Ok(plan) => {
                let functions = plan.functions.iter().map(|(node, _)| *node);
                for inside in functions.chain(plan.leaves.iter().copied()) {
                    covered[inside as usize] = true;
                }
                streams.add(layer, plan);
            }
            Err(error) => errors.push(error),
        }
    }
    for (node, role) in roles.iter().enumerate().filter(|(node, _)| !covered[*node]) {
        let message = match role {
            Some(Role::Function(_)) => format!(
                "it sees the payload of streams, so it stands in a context: put {} in front of it, \
                 and the matching Out behind it",
                beginners(registry)
            ),
            Some(Role::End(_)) => {
                "it ends a context that has not begun: put the matching In in front of it"
                    .to_owned()
            }
            _ => continue,
        };
        errors.push(error(node, message));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    streams.announce(layout, replicas);
    for (node, _) in roles.iter().enumerate().filter(|(_, role)| role.is_some()) {
        let member = layout.replica(replicas, node).and_then(Replica::stream_member);
        let exceptions = member.map(StreamMember::exceptions).unwrap_or_default();
        if !exceptions.is_empty() {
            streams.exceptions.push((node as u32, exceptions));
        }
    }
    Ok(streams)
}

fn error(node: usize, message: String) -> BuildError {
    BuildError::at(Stage::Arguments, node, message)
}

/// The role of an element in streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A context of this layer begins, which needs this of the context that it stands in.
    Begin(Layer, Needs),
    /// The context of this layer ends.
    End(Layer),
    /// A function that has these needs in any context.
    Function(Needs),
}

/// The role of each element in streams.
fn roles(layout: &Layout, replicas: &[Elements]) -> Vec<Option<Role>> {
    let role = |node: usize| {
        let member = layout.replica(replicas, node).and_then(Replica::stream_member);
        let needs = member.and_then(StreamMember::needs);
        match layout.graph.elements[node].spec.purpose {
            Purpose::BeginContext(layer) => Some(Role::Begin(layer, needs.unwrap_or_default())),
            Purpose::EndContext(layer) => Some(Role::End(layer)),
            _ => needs.map(Role::Function),
        }
    };
    (0..layout.graph.elements.len()).map(role).collect()
}

struct Walk<'a> {
    layout: &'a Layout,
    registry: &'a Registry,
    roles: &'a [Option<Role>],
}

impl Walk<'_> {
    /// Nodes that packets come to from a node.
    fn next(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let outputs = &self.layout.checked.elements[node].outputs;
        let edges = outputs.iter().filter(|port| port.processing == Processing::Push);
        edges.flat_map(|port| &port.edges).map(|edge| self.layout.graph.edges[*edge].to.element)
    }

    /// The elements between the beginning of a context and its end.
    fn context(&self, from: usize, layer: Layer) -> Result<StreamPlan, BuildError> {
        let mut plan = StreamPlan { enters: vec![from as u32], ..StreamPlan::default() };
        let mut seen = vec![false; self.roles.len()];
        let mut paths: Vec<usize> = self.next(from).collect();
        while let Some(node) = paths.pop() {
            if std::mem::replace(&mut seen[node], true) {
                continue;
            }
            match self.roles[node] {
                Some(Role::End(left)) if left == layer => {
                    plan.leaves.push(node as u32);
                    continue;
                }
                Some(Role::Begin(same, _)) if same == layer => {
                    let name = &self.layout.graph.elements[from].name;
                    return Err(error(
                        node,
                        format!(
                            "it begins a context of the layer that '{name}' began and that was not \
                             ended: put the matching Out in between"
                        ),
                    ));
                }
                Some(Role::Begin(_, needs) | Role::Function(needs)) => {
                    plan.functions.push((node as u32, needs));
                    plan.needs = plan.needs.and(needs.complete());
                }
                _ => {}
            }
            paths.extend(self.next(node));
        }
        if plan.leaves.is_empty() {
            let message = format!("the context does not end: put {} behind it", self.ender(layer));
            return Err(error(from, message));
        }
        plan.leaves.sort_unstable();
        plan.functions.sort_unstable_by_key(|(node, _)| *node);
        Ok(plan)
    }

    /// The class that ends contexts of a layer, for a message.
    fn ender(&self, layer: Layer) -> &'static str {
        self.registry.of_purpose(Purpose::EndContext(layer)).map_or("its Out", |spec| spec.name)
    }
}

/// The classes that begin contexts, for a message: `A, B or C`.
fn beginners(registry: &Registry) -> String {
    let layers = [Layer::Ip, Layer::Udp, Layer::Tcp, Layer::Http];
    let spec = |layer| registry.of_purpose(Purpose::BeginContext(layer));
    let names: Vec<&str> = layers.into_iter().filter_map(spec).map(|spec| spec.name).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => "its In".to_owned(),
    }
}

impl Streams {
    /// Adds the result of one beginning; several that share an end are one context.
    fn add(&mut self, layer: Layer, plan: StreamPlan) {
        let shares = |(other, known): &&mut (Layer, StreamPlan)| {
            *other == layer && known.leaves.iter().any(|leave| plan.leaves.contains(leave))
        };
        let Some((_, known)) = self.contexts.iter_mut().find(shares) else {
            self.contexts.push((layer, plan));
            return;
        };
        known.needs = known.needs.and(plan.needs);
        known.enters.extend(plan.enters);
        for leave in plan.leaves {
            if !known.leaves.contains(&leave) {
                known.leaves.push(leave);
            }
        }
        for function in plan.functions {
            if !known.functions.contains(&function) {
                known.functions.push(function);
            }
        }
    }

    /// Shows the elements where contexts begin and end.
    fn announce(&mut self, layout: &Layout, replicas: &mut [Elements]) {
        let layers: Vec<(u32, Layer)> = self
            .contexts
            .iter()
            .flat_map(|(layer, plan)| plan.enters.iter().map(|enter| (*enter, *layer)))
            .collect();
        let plans: Vec<StreamPlan> = self.contexts.iter().map(|(_, plan)| plan.clone()).collect();
        for (layer, plan) in &mut self.contexts {
            let enter = plan.enters[0];
            let holds =
                |other: &&StreamPlan| other.functions.iter().any(|(node, _)| *node == enter);
            let outer = plans.iter().filter(holds).min_by_key(|other| other.functions.len());
            let outer = outer.and_then(|other| other.enters.first());
            plan.within = outer.and_then(|node| {
                layers.iter().find(|(enter, _)| enter == node).map(|(_, layer)| *layer)
            });
            for node in plan.enters.iter().chain(&plan.leaves) {
                let member = |own: &mut dyn StreamMember| own.take_stream(plan);
                layout.for_each_member(replicas, *node, member);
            }
            for (node, _) in &plan.functions {
                let member = |own: &mut dyn StreamMember| own.take_context(*layer);
                layout.for_each_member(replicas, *node, member);
            }
        }
    }

    /// The services that were set up, and the functions that need them.
    pub fn explain(&self, layout: &Layout) -> String {
        let name = |node: &u32| layout.graph.elements[*node as usize].name.as_str();
        let names = |nodes: &[u32]| nodes.iter().map(name).collect::<Vec<_>>().join(", ");
        let mut text = String::new();
        for (layer, plan) in &self.contexts {
            // Writing to a String does not fail.
            let _ = writeln!(
                text,
                "context {layer:?}: from {} to {}",
                names(&plan.enters),
                names(&plan.leaves)
            );
            for (what, users) in set_up(*layer, plan) {
                let why = match users.is_empty() {
                    true => String::new(),
                    false => format!(": {}", names(&users)),
                };
                let _ = writeln!(text, "  {what}{why}");
            }
        }
        text
    }
}

/// The services set up in a context, each with the functions that need it; none if all contexts of
/// the layer have it.
pub fn set_up(layer: Layer, plan: &StreamPlan) -> Vec<(&'static str, Vec<u32>)> {
    let users = |part: &Part| {
        let functions = plan.functions.iter();
        let wanting = functions.filter(|(_, needs)| (part.is_needed)(needs.complete()));
        wanting.map(|(node, _)| *node).collect()
    };
    parts(layer, plan.needs).iter().map(|part| (part.what, users(part))).collect()
}

/// A service that is set up because a function needs it.
struct Part {
    what: &'static str,
    is_needed: fn(Needs) -> bool,
}

/// The services set up in a context for these needs.
fn parts(layer: Layer, needs: Needs) -> Vec<Part> {
    let always = Part { what: "place of the payload, lengths", is_needed: |_| false };
    if layer != Layer::Tcp {
        return vec![always];
    }
    let optional = [
        Part { what: "reordering, for payload in order", is_needed: |needs| needs.order },
        Part {
            what: "checksums verified, copies of unacknowledged data, so that \
                   retransmissions are what was inspected",
            is_needed: |needs| needs.guard,
        },
        Part {
            what: "sequence numbers of our own, edit map for acknowledgements, window and \
                   retransmission",
            is_needed: |needs| needs.resize || needs.stall,
        },
        Part { what: "resets to both ends", is_needed: |needs| needs.close },
    ];
    let state = Part { what: "state of connections", is_needed: |_| false };
    let wanted = optional.into_iter().filter(|part| (part.is_needed)(needs));
    [state].into_iter().chain(wanted).collect()
}
