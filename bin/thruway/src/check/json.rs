//! What `thruway check` reports, for programs.

use serde_json::{Map, Value, json};
use thruway_engine::{Layout, Router, set_up};
use thruway_flow::KeyField;
use thruway_flow::chain::Chain;
use thruway_flow::plan::{Hop, Leaf, NodePlan, Plan, SessionTable};
use thruway_lang::{Port, Processing};

/// What is reported besides the elements.
pub(super) struct More {
    /// How threads reach each element.
    pub paths: bool,
    /// How packets are classified, and where functions keep state.
    pub explain: bool,
}

/// The requested output.
pub(super) fn all(router: &Router, more: &More) -> Value {
    let layout = router.layout();
    let mut output = Map::new();
    let elements = 0..layout.graph.elements.len();
    let elements = elements.map(|node| element(layout, node, more.paths)).collect();
    output.insert("elements".into(), Value::Array(elements));
    output.insert("exceptions".into(), exceptions(router));
    output.insert("connections".into(), layout.graph.edges.len().into());
    if more.explain {
        let flows = router.flows();
        let (plan, chain) = (&flows.plan, &flows.chain);
        output.insert("decision".into(), decision(plan));
        output.insert("classes".into(), classes(plan, chain));
        let sessions = plan.levels.iter().map(|level| sessions(level, chain));
        output.insert("sessions".into(), sessions.collect());
        output.insert("contexts".into(), contexts(router));
    }
    Value::Object(output)
}

/// Ports with their processing, and the threads that run it; `paths`: how these come to it.
fn element(layout: &Layout, node: usize, paths: bool) -> Value {
    let word = |port: &Port| if port.processing == Processing::Push { "push" } else { "pull" };
    let words = |ports: &[Port]| ports.iter().map(word).collect::<Vec<_>>();
    let (decl, ports) = (&layout.graph.elements[node], &layout.checked.elements[node]);
    let mut output = json!({
        "element": decl.name, "class": decl.class,
        "inputs": words(&ports.inputs), "outputs": words(&ports.outputs),
        "threads": layout.threads[node], "has_task_in_none": layout.parked[node],
    });
    if paths {
        output["paths"] = layout.describe_paths(node).into();
        if layout.threads[node].len() > 1 {
            output["replicas"] = decl.spec.replicas.to_string().into();
        }
    }
    output
}

/// Each case in which functions cannot inspect traffic.
fn exceptions(router: &Router) -> Value {
    let name = |node: u32| router.layout().graph.elements[node as usize].name.as_str();
    let of = router.streams().exceptions.iter().flat_map(|(node, all)| {
        all.iter().map(move |one| {
            json!({
                "element": name(*node), "exception": one.what, "does": one.done,
                "fails": one.fails.name(), "argument": one.argument,
            })
        })
    });
    of.collect()
}

/// The structure by which packets are classified: null where no FlowClassifier does.
fn decision(plan: &Plan) -> Value {
    if plan.entries.is_empty() {
        return Value::Null;
    }
    json!({
        "steps": plan.decision.len(), "bytes": plan.decision.memory_bytes(),
        "remarks": plan.remarks,
    })
}

/// Each class of packets: its known fields, its output, and the functions that keep state for it.
fn classes(plan: &Plan, chain: &Chain) -> Value {
    let class = |(at, leaf): (usize, &Leaf)| {
        let known: Map<String, Value> = leaf
            .known
            .iter()
            .map(|(field, value)| (field.clone(), value.as_str().into()))
            .collect();
        let state: Vec<&str> = leaf.functions.iter().map(|node| name(chain, *node)).collect();
        let mut sessions: Vec<u8> = leaf.keys.iter().flatten().map(|key| key.level).collect();
        sessions.dedup();
        json!({
            "class": at, "known": known, "next_hops": next_hops(plan, chain, at), "state": state,
            "sessions": sessions, "dropped_early": leaf.early_drop,
        })
    };
    plan.leaves.iter().enumerate().map(class).collect()
}

/// What each dispatcher that packets of a class come to does with them.
fn next_hops(plan: &Plan, chain: &Chain, class: usize) -> Vec<Value> {
    let hop = |(node, of): (usize, &NodePlan)| {
        let element = name(chain, node as u32);
        match of.hops.get(class)? {
            Hop::Output(output) => Some(json!({ "element": element, "output": output })),
            Hop::Drop => Some(json!({ "element": element, "drop": true })),
            Hop::InPlace => Some(json!({ "element": element, "looks_itself": true })),
            Hop::Never => None,
        }
    };
    plan.nodes.iter().enumerate().filter_map(hop).collect()
}

/// One sort of sessions: their key, and where functions have their state in a record.
fn sessions(level: &SessionTable, chain: &Chain) -> Value {
    let slots = level.scratch_slots.iter().map(|slot| {
        json!({
            "element": name(chain, slot.node), "offset": slot.offset, "bytes": slot.demand.size,
        })
    });
    json!({
        "session": level.session.to_string(), "of": level.family.to_string(),
        "key": level.fields.iter().map(KeyField::to_string).collect::<Vec<_>>(),
        "remarks": level.remarks, "links": level.links, "translates": level.translates,
        "record_bytes": level.scratch_len, "aligned_to": level.scratch_align,
        "state": slots.collect::<Vec<_>>(),
    })
}

/// Each context of streams: its beginning and end, and the services set up for its functions.
fn contexts(router: &Router) -> Value {
    let name = |node: &u32| router.layout().graph.elements[*node as usize].name.as_str();
    let names = |nodes: &[u32]| nodes.iter().map(name).collect::<Vec<_>>();
    let contexts = router.streams().contexts.iter().map(|(layer, plan)| {
        let set_up = set_up(*layer, plan).into_iter();
        let set_up = set_up.map(|(what, nodes)| json!({ "what": what, "for": names(&nodes) }));
        json!({
            "layer": format!("{layer:?}"), "from": names(&plan.enters), "to": names(&plan.leaves),
            "set_up": set_up.collect::<Vec<_>>(),
        })
    });
    contexts.collect()
}

fn name(chain: &Chain, node: u32) -> &str {
    chain.nodes.get(node as usize).map_or("", |node| node.name.as_str())
}
