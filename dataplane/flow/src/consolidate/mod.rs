//! Consolidation: the rules of all dispatchers become one decision structure with leaves that give
//! the packets' destination and the look-up of their sessions; the state of all functions becomes
//! one record for each session.
//!
//! Walks the graph from each entry with the facts about the packets (`walk`, `facts`): each test
//! that these do not decide is a step (`grow`), so impossible paths vanish. The facts about fields
//! on the paths to a leaf (`known`, `sets`) decide which fields of a session's key need not be read
//! (`keys`) and which functions can share space (`layout`).
//!
//! All of it is bounded: a list of rules that would grow the structure too much is run as a whole,
//! and dispatchers beyond the bound are left to look at packets themselves.

mod compile;
mod facts;
mod grow;
mod keys;
mod known;
mod layout;
mod sets;
mod walk;

use std::collections::{HashMap, HashSet};

use crate::ast::Word;
use crate::chain::{Chain, Role};
use crate::plan::{EntryPlan, FUNCTIONS_MAX, Hop, LEVELS_MAX, Leaf, Plan, PlanError, SCRATCH_MAX};
use grow::{Grown, TooMuch, grow};
use keys::{Part, Wants};
use known::Known;
use walk::{Graph, Manner};

/// Lists with more tests than this are run as a whole; tried one after the other.
const TESTS_MAX: [usize; 3] = [256, 16, 0];
/// Most hops of all dispatchers and leaves together.
const HOPS_MAX: usize = 1 << 22;
/// Most leaves that are split to determine the direction of packets.
const SPLITS_MAX: usize = 16;
/// Most elements of a chain.
const NODES_MAX: usize = 1 << 16;

/// Makes the plan of a chain.
///
/// # Errors
/// Everything that the configuration asks for and cannot have, each with the node and the remedy.
pub fn consolidate(chain: &Chain) -> Result<Plan, Vec<PlanError>> {
    check(chain)?;
    let entries: Vec<usize> = nodes_with(chain, |role| matches!(role, Role::Entry));
    let (graph, grown, mut remarks) = grown(chain, &entries)?;
    let errors = reached(chain, &grown, &mut remarks);
    if !errors.is_empty() {
        return Err(errors);
    }
    let Keyed { grown, mut leaves, wants, parts } = keyed(chain, &graph, grown, &mut remarks)?;
    for (at, leaf) in leaves.iter_mut().enumerate() {
        for (family, want) in wants.leaves[at].iter().enumerate() {
            leaf.keys[family] =
                want.as_ref().and_then(|(finest, _)| wants.key(&parts, *finest, at));
        }
    }
    let (levels, mut nodes) = layout::lay_out(chain, &leaves, &wants, &parts);
    let (decision, starts) = compile::compile(&graph, &grown)
        .map_err(|(node, error)| vec![error_at(node as usize, chain, &error.to_string())])?;
    let entries: Vec<EntryPlan> = entries
        .iter()
        .zip(starts)
        .map(|(node, start)| EntryPlan { node: *node as u32, start })
        .collect();
    for (at, entry) in entries.iter().enumerate() {
        nodes[entry.node as usize].entry = Some(at as u32);
    }
    for dispatcher in nodes_with(chain, |role| matches!(role, Role::Dispatcher(_))) {
        let key = dispatcher as u32;
        let hop = |end: &grow::End| {
            let found = end.hops.binary_search_by_key(&key, |hop| hop.0);
            found.map_or(Hop::Never, |at| end.hops[at].1)
        };
        nodes[dispatcher].hops = grown.ends.iter().map(hop).collect();
    }
    let plan = Plan { entries, leaves, levels, nodes, decision, remarks };
    let errors = too_large(chain, &plan);
    if errors.is_empty() { Ok(plan) } else { Err(errors) }
}

fn nodes_with(chain: &Chain, wanted: impl Fn(&Role) -> bool) -> Vec<usize> {
    let nodes = chain.nodes.iter().enumerate();
    nodes.filter(|(_, node)| wanted(&node.role)).map(|(at, _)| at).collect()
}

fn error_at(node: usize, chain: &Chain, message: &str) -> PlanError {
    let name = chain.nodes.get(node).map_or("", |node| node.name.as_str());
    PlanError { node, arg: None, message: format!("'{name}': {message}") }
}

/// Checks that concern each element alone.
fn check(chain: &Chain) -> Result<(), Vec<PlanError>> {
    if chain.nodes.len() > NODES_MAX {
        let message = format!("more than {NODES_MAX} elements: split the configuration");
        return Err(vec![PlanError { node: NODES_MAX, arg: None, message }]);
    }
    let mut errors = Vec::new();
    let mut stateful = chain.nodes.iter().enumerate().filter(|(_, node)| node.demand.is_some());
    if let Some((at, _)) = stateful.nth(LEVELS_MAX * FUNCTIONS_MAX) {
        let message = format!(
            "with it there are more than {} functions with state for sessions: use fewer",
            LEVELS_MAX * FUNCTIONS_MAX
        );
        return Err(vec![error_at(at, chain, &message)]);
    }
    for (at, node) in chain.nodes.iter().enumerate() {
        let Some(demand) = &node.demand else { continue };
        if !demand.align.is_power_of_two() || demand.align > 64 {
            let message = format!("alignment {} is no power of two up to 64", demand.align);
            errors.push(error_at(at, chain, &message));
        }
        if demand.size > SCRATCH_MAX || demand.initial.len() > demand.size {
            let message = format!(
                "{} bytes of state for each session with {} of initial value: at most \
                 {SCRATCH_MAX} and no more than the state has",
                demand.size,
                demand.initial.len()
            );
            errors.push(error_at(at, chain, &message));
        }
        if demand.session.fields.is_empty() {
            errors.push(error_at(at, chain, "its session has no fields: name at least one"));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Grows the decision graph within its bounds: first with all rules test by test, then with long
/// lists as a whole, then with fewer and fewer dispatchers decided in front.
fn grown<'a>(
    chain: &'a Chain,
    entries: &[usize],
) -> Result<(Graph<'a>, Grown, Vec<String>), Vec<PlanError>> {
    let dispatchers = nodes_with(chain, |role| matches!(role, Role::Dispatcher(_)));
    let mut wholes = usize::MAX;
    for tests_max in TESTS_MAX {
        let graph = Graph::new(chain, |_, tests| by_length(tests, tests_max));
        if wholes == graph.wholes() {
            continue;
        }
        wholes = graph.wholes();
        if let Ok(grown) = tidy(&graph, entries, dispatchers.len()) {
            return Ok((graph, grown, Vec::new()));
        }
    }
    let mut decided = dispatchers.len();
    while decided > 0 {
        decided /= 2;
        let kept = &dispatchers[..decided];
        let manner = |node, tests| match kept.binary_search(&node) {
            Ok(_) => by_length(tests, TESTS_MAX[1]),
            Err(_) => Manner::InPlace,
        };
        let graph = Graph::new(chain, manner);
        if let Ok(grown) = tidy(&graph, entries, dispatchers.len()) {
            let remark = format!(
                "{} of {} dispatchers look at packets themselves: together they have more \
                 combinations of outputs than are decided in front; put a FlowClassifier between",
                dispatchers.len() - decided,
                dispatchers.len()
            );
            return Ok((graph, grown, vec![remark]));
        }
    }
    let message = "the graph is too large to be walked: use fewer elements".to_owned();
    Err(vec![PlanError { node: entries.first().copied().unwrap_or(0), arg: None, message }])
}

fn by_length(tests: usize, tests_max: usize) -> Manner {
    if tests <= tests_max { Manner::Tests } else { Manner::Whole }
}

fn tidy(graph: &Graph<'_>, entries: &[usize], dispatchers: usize) -> Result<Grown, TooMuch> {
    let grown = grow(graph, entries)?.tidy();
    if grown.ends.len() * dispatchers > HOPS_MAX { Err(TooMuch) } else { Ok(grown) }
}

fn leaf(chain: &Chain, end: &grow::End, known: &Known) -> Leaf {
    let known = known.describe();
    let class: Vec<String> =
        known.iter().map(|(field, value)| format!("{field} {value}")).collect();
    let demands =
        end.functions.iter().filter_map(|node| chain.nodes[*node as usize].demand.as_ref());
    Leaf {
        class: if class.is_empty() { "all other".to_owned() } else { class.join(", ") },
        known,
        keys: [const { None }; 3],
        functions: end.functions.clone(),
        early_drop: chain.early_drop && !end.wanted,
        timeout_s: demands.clone().filter_map(|demand| demand.timeout_s).max(),
        closed_s: demands.filter_map(|demand| demand.closed_s).max(),
    }
}

/// Functions that want sessions and get none.
fn reached(chain: &Chain, grown: &Grown, remarks: &mut Vec<String>) -> Vec<PlanError> {
    let mut errors = Vec::new();
    let ends = || grown.ends.iter();
    let shared: HashSet<u32> = ends().flat_map(|end| end.functions.iter().copied()).collect();
    let lost: HashMap<u32, u32> = ends().flat_map(|end| end.lost.iter().copied()).collect();
    for (at, node) in chain.nodes.iter().enumerate() {
        if node.demand.is_none() {
            continue;
        }
        let found = shared.contains(&(at as u32));
        let changer = lost.get(&(at as u32)).and_then(|node| chain.nodes.get(*node as usize));
        match (found, changer) {
            (false, None) => {
                let message = "it wants sessions, and no FlowClassifier stands before it: put one \
                               behind the input that its packets come from";
                errors.push(error_at(at, chain, message));
            }
            (false, Some(changer)) => {
                let message = format!(
                    "it wants sessions, and behind '{}' packets are others than those that were \
                     classified: put a FlowClassifier between the two",
                    changer.name
                );
                errors.push(error_at(at, chain, &message));
            }
            (true, Some(changer)) => remarks.push(format!(
                "packets that come to '{}' through '{}' have no session there",
                node.name, changer.name
            )),
            (true, None) => {}
        }
    }
    errors
}

/// Leaves with the demands of their packets, and the levels.
struct Keyed {
    grown: Grown,
    leaves: Vec<Leaf>,
    wants: Wants,
    parts: Vec<Part>,
}

impl Keyed {
    fn of(chain: &Chain, graph: &Graph<'_>, grown: Grown) -> Keyed {
        let known = grown.known(graph);
        let leaves: Vec<Leaf> =
            grown.ends.iter().zip(&known).map(|(end, known)| leaf(chain, end, known)).collect();
        let wants = Wants::of(chain, &leaves, known);
        let parts = if wants.sorts.len() <= LEVELS_MAX { wants.parts(false) } else { Vec::new() };
        Keyed { grown, leaves, wants, parts }
    }

    /// The same with leaves split.
    fn split(&self, chain: &Chain, graph: &Graph<'_>, tests: &[(usize, Word)]) -> Keyed {
        let mut grown = self.grown.clone();
        tests.iter().for_each(|(leaf, word)| grown.split(*leaf, *word));
        Keyed::of(chain, graph, grown)
    }
}

/// The levels: with leaves split if that determines the direction of packets and so shortens keys;
/// with simpler keys if there would be too many tables.
fn keyed(
    chain: &Chain,
    graph: &Graph<'_>,
    grown: Grown,
    remarks: &mut Vec<String>,
) -> Result<Keyed, Vec<PlanError>> {
    let mut plain = Keyed::of(chain, graph, grown);
    if plain.wants.sorts.len() > LEVELS_MAX {
        return Err(too_many(chain, &plain.wants));
    }
    let mut tests = plain.wants.nearly_directed();
    if !tests.is_empty() && tests.len() <= SPLITS_MAX {
        let all = plain.split(chain, graph, &tests);
        tests.retain(|(leaf, _)| all.wants.is_directed(&all.parts, *leaf));
        let useful = plain.split(chain, graph, &tests);
        if !tests.is_empty() && useful.parts.len() <= LEVELS_MAX {
            return Ok(useful);
        }
    }
    if plain.parts.len() > LEVELS_MAX {
        plain.parts = plain.wants.parts(true);
        if plain.parts.len() > LEVELS_MAX {
            return Err(too_many(chain, &plain.wants));
        }
        remarks.push(format!(
            "keys have fields that their class fixes: leaving them out would need more than \
             {LEVELS_MAX} tables"
        ));
    }
    Ok(plain)
}

fn too_many(chain: &Chain, wants: &Wants) -> Vec<PlanError> {
    let mut names: Vec<String> = wants.sorts.iter().map(|s| s.session.to_string()).collect();
    names.sort();
    names.dedup();
    names.truncate(LEVELS_MAX + 1);
    let last = chain.nodes.iter().rposition(|node| node.demand.is_some()).unwrap_or(0);
    let message = format!(
        "with it there are more than {LEVELS_MAX} sorts of sessions ({}; each for IPv4 and for \
         IPv6, unless a class excludes one): use the same definition for several functions, or \
         classes of one version of IP",
        names.join("; ")
    );
    vec![error_at(last, chain, &message)]
}

/// Levels and functions beyond the bounds.
fn too_large(chain: &Chain, plan: &Plan) -> Vec<PlanError> {
    let mut errors = Vec::new();
    for level in &plan.levels {
        let Some(last) = level.scratch_slots.last() else { continue };
        let node = last.node as usize;
        if level.scratch_slots.len() > FUNCTIONS_MAX {
            let message = format!(
                "with it more than {FUNCTIONS_MAX} functions have state in sessions of '{}': put a \
                 second FlowClassifier before some of them",
                level.session
            );
            errors.push(error_at(node, chain, &message));
        }
        if level.scratch_len > SCRATCH_MAX {
            let message = format!(
                "with it a session of '{}' has {} bytes of state; at most {SCRATCH_MAX}",
                level.session, level.scratch_len
            );
            errors.push(error_at(node, chain, &message));
        }
        if level.shared_words > usize::from(u16::MAX) {
            errors.push(error_at(node, chain, "too many words for the other direction"));
        }
        let raw = level.fields.iter().filter(|field| field.mirrored().is_none()).count();
        if raw > crate::session::RAW_WORDS_MAX {
            let message = format!(
                "its sessions and those of functions on the same path have together more than {} \
                 raw words: use fewer",
                crate::session::RAW_WORDS_MAX
            );
            errors.push(error_at(node, chain, &message));
        }
    }
    for (at, node) in chain.nodes.iter().enumerate() {
        let none = plan.nodes[at].access.iter().all(Option::is_none);
        if let Some(demand) = node.demand.as_ref().filter(|_| none) {
            let message = format!(
                "it wants sessions of '{}', which none of the packets that come to it can have",
                demand.session
            );
            errors.push(error_at(at, chain, &message));
        }
    }
    errors
}
