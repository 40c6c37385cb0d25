//! The flow managers of a router's threads: one plan for all, sessions of each its own.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use thruway_element::{Addresses, Role, Settings};
use thruway_flow::chain::Chain;
use thruway_flow::manager::{Heirs, Manager, Taken, shared_flows_of};
use thruway_flow::plan::Plan;

use crate::build::Elements;
use crate::chain::{self, View};
use crate::engine::Engine;
use crate::error::{BuildError, Stage};
use crate::layout::Layout;
use crate::replica::Replica;

/// The flow manager's view of a configuration.
pub struct Flows {
    /// The configuration as it sees it.
    pub chain: Chain,
    /// Result of consolidation.
    pub plan: Arc<Plan>,
    /// The user's settings.
    pub settings: Settings,
}

/// Consolidates a configuration, and gives dispatchers without rules those that follow from the
/// elements behind them. Without sessions and classes in it the plan is empty.
///
/// # Errors
/// Demands that cannot be met.
pub(crate) fn plan(
    layout: &Layout,
    replicas: &mut [Elements],
    addresses: &Addresses,
) -> Result<Flows, Vec<BuildError>> {
    let nodes = 0..layout.graph.elements.len();
    let elements: Vec<Option<Replica<'_>>> =
        nodes.map(|node| layout.replica(replicas, node)).collect();
    let settings = settings(layout, &elements)?;
    let View { mut chain, derived } =
        chain::view((&layout.graph, &layout.checked), &elements, addresses)?;
    give_rules(layout, (&chain, &derived), replicas)?;
    let mut settings = settings.unwrap_or_default();
    settings.seeds = std::array::from_fn(|_| RandomState::new().build_hasher().finish());
    chain.early_drop = settings.early_drop;
    let plan = Arc::new(chain::plan(&chain)?);
    Ok(Flows { chain, plan, settings })
}

/// Hands dispatchers the rules that were derived for them.
fn give_rules(
    layout: &Layout,
    (chain, derived): (&Chain, &[(usize, Vec<String>)]),
    replicas: &mut [Elements],
) -> Result<(), Vec<BuildError>> {
    let mut errors = Vec::new();
    for (node, classes) in derived {
        let Role::Dispatcher(rules) = &chain.nodes[*node].role else { continue };
        let Some(entry) = layout.entries[*node] else { continue };
        for element in replicas.iter_mut().filter_map(|elements| elements[*node].as_deref_mut()) {
            let dispatch = entry.flow_dispatch_mut(element);
            if let Some(Err(message)) = dispatch.map(|own| own.take_rules(rules, classes)) {
                errors.push(BuildError::at(Stage::Arguments, *node, message));
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The user's settings, at any element; two different ones are an error.
fn settings(
    layout: &Layout,
    elements: &[Option<Replica<'_>>],
) -> Result<Option<Settings>, Vec<BuildError>> {
    let mut first: Option<(usize, Settings)> = None;
    for (node, element) in elements.iter().enumerate() {
        let Some(settings) = element.and_then(Replica::settings) else { continue };
        match first {
            None => first = Some((node, settings)),
            Some((_, same)) if same == settings => {}
            Some((other, _)) => {
                let message = format!(
                    "it sets other bounds or timeouts than '{}': all share one table, so set the \
                     same at each",
                    layout.graph.elements[other].name
                );
                return Err(vec![BuildError::at(Stage::Arguments, node, message)]);
            }
        }
    }
    Ok(first.map(|(_, settings)| settings))
}

/// Gives each thread its manager.
///
/// # Errors
/// Keys or tables without room.
pub(crate) fn install(flows: &Flows, engines: &mut [Engine]) -> Result<(), Vec<BuildError>> {
    let Some(first) = flows.plan.entries.first() else { return Ok(()) };
    let node = first.node as usize;
    let error = |message| vec![BuildError::at(Stage::Arguments, node, message)];
    let shared_flows = if engines.len() > 1 {
        shared_flows_of(&flows.plan, &flows.settings, engines.len())
            .map_err(|why| error(why.to_string()))?
    } else {
        Vec::new()
    };
    for engine in engines {
        let manager =
            Manager::with_shared_flows(Arc::clone(&flows.plan), &flows.settings, &shared_flows);
        engine.core.flows = Some(Box::new(manager.map_err(|why| vec![why.into()])?));
    }
    Ok(())
}

/// Passes the sessions of the previous threads to the present ones; `node_of` returns the number of
/// an element that exists in both.
pub(crate) fn take_over(
    new: &mut [Engine],
    old: &mut [Engine],
    node_of: impl Fn(u32) -> Option<u32>,
) {
    for (new, old) in new.iter_mut().zip(old) {
        if let (Some(new), Some(old)) = (&mut new.core.flows, &mut old.core.flows) {
            new.take_over(old, &node_of);
        }
    }
    new.iter_mut().filter_map(|new| new.core.flows.as_mut()).for_each(|new| new.rejoin());
}

/// The same where there are more or fewer threads: `heirs` go on for the previous ones.
pub(crate) fn inherit(
    new: &mut [Engine],
    old: &mut [Engine],
    (node_of, heirs): (impl Fn(u32) -> Option<u32>, &[usize]),
) {
    let threads = numbers(heirs);
    for (taken, thread) in in_order(heirs.len()) {
        let own = Heirs::new(&threads, thread);
        if let (Some(own), Some((new, old))) = (own, pair(new, old, (heirs, thread))) {
            new.inherit(old, &node_of, (&own, taken));
        }
    }
    new.iter_mut().filter_map(|new| new.core.flows.as_mut()).for_each(|new| new.rejoin());
}

/// Takes back what `new` inherited and never served.
pub(crate) fn take_back(
    old: &mut [Engine],
    new: &mut [Engine],
    (node_of, heirs): (impl Fn(u32) -> Option<u32>, &[usize]),
) {
    for (taken, thread) in in_order(heirs.len()) {
        if let Some((new, old)) = pair(new, old, (heirs, thread)) {
            old.take_back(new, &node_of, taken);
        }
    }
}

fn numbers(heirs: &[usize]) -> Vec<u16> {
    heirs.iter().map(|thread| *thread as u16).collect()
}

/// What is taken of each thread, in order.
fn in_order(threads: usize) -> impl Iterator<Item = (Taken, usize)> {
    [Taken::Main, Taken::Rest]
        .into_iter()
        .flat_map(move |taken| (0..threads).map(move |thread| (taken, thread)))
}

/// The managers of an old thread and of its heir: new and old.
fn pair<'a>(
    new: &'a mut [Engine],
    old: &'a mut [Engine],
    (heirs, thread): (&[usize], usize),
) -> Option<(&'a mut Manager, &'a mut Manager)> {
    let new = new.get_mut(heirs[thread])?.core.flows.as_deref_mut()?;
    Some((new, old.get_mut(thread)?.core.flows.as_deref_mut()?))
}
