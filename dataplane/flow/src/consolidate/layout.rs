//! The place of each function's state in the records: one offset on all paths, and the same space
//! for functions that no session reaches both of.

use std::collections::{BTreeMap, BTreeSet};

use super::keys::{COMPARED_MAX, FAMILIES, Part, Wants};
use crate::chain::{Chain, Demand};
use crate::plan::{Access, LEVELS_MAX, Leaf, LevelId, NodePlan, ScratchSlot, SessionTable};

/// A function's demand, and the functions that must not share with it.
struct Asking<'a> {
    node: u32,
    demand: &'a Demand,
    /// By place in the list.
    conflicts: BTreeSet<usize>,
}

/// Functions with state in most levels first, so that records of the other levels have no hole
/// before them; then in order of traversal.
fn in_order(leaves: &[Leaf], tenants: &[BTreeMap<u32, Vec<usize>>]) -> Vec<u32> {
    let mut order: Vec<u32> = Vec::new();
    for node in leaves.iter().flat_map(|leaf| &leaf.functions) {
        if !order.contains(node) {
            order.push(*node);
        }
    }
    let levels = |node: &u32| tenants.iter().filter(|level| level.contains_key(node)).count();
    order.sort_by_key(|node| std::cmp::Reverse(levels(node)));
    order
}

/// By level: the functions with sessions of their own in it, and the leaves that reach them.
fn tenants(
    chain: &Chain,
    leaves: &[Leaf],
    wants: &Wants,
    parts: &[Part],
) -> Vec<BTreeMap<u32, Vec<usize>>> {
    let mut tenants = vec![BTreeMap::new(); parts.len()];
    for (at, leaf) in leaves.iter().enumerate() {
        for family in FAMILIES {
            if wants.leaves[at][family as usize].is_none() {
                continue;
            }
            for node in &leaf.functions {
                let demand = chain.nodes[*node as usize].demand.as_ref();
                let Some(sort) = demand.and_then(|d| wants.sort_of(&d.session, family)) else {
                    continue;
                };
                let mine = |part: &Part| part.sort == sort && part.leaves.contains(&at);
                if let Some(level) = parts.iter().position(mine) {
                    let shared: &mut Vec<usize> = tenants[level].entry(*node).or_default();
                    if shared.last() != Some(&at) {
                        shared.push(at);
                    }
                }
            }
        }
    }
    tenants
}

/// Whether a session of the level can reach both functions. Of too many leaves to compare it is
/// taken to be so.
fn meet(wants: &Wants, part: &Part, a: &[usize], b: &[usize]) -> bool {
    part.leaves.len() > COMPARED_MAX
        || part.groups.iter().any(|group| {
            let inside = |leaves: &[usize]| -> Vec<usize> {
                leaves.iter().copied().filter(|leaf| group.contains(leaf)).collect()
            };
            let (a, b) = (inside(a), inside(b));
            a.iter().any(|a| b.iter().any(|b| a == b || wants.share(*a, *b, part.sort)))
        })
}

/// Places of things in a row: each at the lowest aligned place where nothing of its conflicts is.
fn allocate(asking: &[Asking<'_>], extent: impl Fn(&Demand) -> (usize, usize)) -> Vec<usize> {
    let mut offsets: Vec<usize> = Vec::with_capacity(asking.len());
    for one in asking {
        let (size, align) = extent(one.demand);
        let align = align.max(1);
        let mut taken: Vec<(usize, usize)> = one
            .conflicts
            .iter()
            .filter_map(|other| Some((*offsets.get(*other)?, extent(asking[*other].demand).0)))
            .filter(|(_, size)| *size > 0)
            .collect();
        taken.sort_unstable();
        let mut at = 0_usize;
        for (begin, len) in taken {
            if begin >= at.saturating_add(size) {
                break;
            }
            at = at.max(begin.saturating_add(len)).next_multiple_of(align);
        }
        offsets.push(at);
    }
    offsets
}

/// The levels with their slots, and the access of each node.
pub(super) fn lay_out(
    chain: &Chain,
    leaves: &[Leaf],
    wants: &Wants,
    parts: &[Part],
) -> (Vec<SessionTable>, Vec<NodePlan>) {
    let tenants = tenants(chain, leaves, wants, parts);
    let mut asking: Vec<Asking<'_>> = in_order(leaves, &tenants)
        .into_iter()
        .filter_map(|node| {
            let demand = chain.nodes[node as usize].demand.as_ref()?;
            Some(Asking { node, demand, conflicts: BTreeSet::new() })
        })
        .collect();
    let number: BTreeMap<u32, usize> =
        asking.iter().enumerate().map(|(at, one)| (one.node, at)).collect();
    for (part, tenants) in parts.iter().zip(&tenants) {
        let all: Vec<(&u32, &Vec<usize>)> = tenants.iter().collect();
        for (at, (a, on_a)) in all.iter().enumerate() {
            for (b, on_b) in &all[at + 1..] {
                if meet(wants, part, on_a, on_b) {
                    asking[number[*a]].conflicts.insert(number[*b]);
                    asking[number[*b]].conflicts.insert(number[*a]);
                }
            }
        }
    }
    let offsets = allocate(&asking, |demand| (demand.size, demand.align));
    let shared = allocate(&asking, |demand| (demand.shared_words, 1));
    let scratch_slot = |at: usize, bit: usize| ScratchSlot {
        node: asking[at].node,
        demand: asking[at].demand.clone(),
        offset: u32::try_from(offsets[at]).unwrap_or(u32::MAX),
        bit: bit as u8,
        shared_at: u16::try_from(shared[at]).unwrap_or(u16::MAX),
    };
    let levels: Vec<SessionTable> = (0..parts.len())
        .map(|at| {
            let mut order: Vec<usize> = tenants[at].keys().map(|node| number[node]).collect();
            order.sort_unstable();
            let scratch_slots =
                order.iter().enumerate().map(|(bit, at)| scratch_slot(*at, bit)).collect();
            level(wants, parts, at, scratch_slots)
        })
        .collect();
    let nodes = accesses(chain.nodes.len(), &levels);
    (levels, nodes)
}

fn level(
    wants: &Wants,
    parts: &[Part],
    at: usize,
    scratch_slots: Vec<ScratchSlot>,
) -> SessionTable {
    let part = &parts[at];
    let sort = &wants.sorts[part.sort];
    let end = |scratch_slot: &ScratchSlot| scratch_slot.offset as usize + scratch_slot.demand.size;
    let shared_end = |scratch_slot: &ScratchSlot| {
        usize::from(scratch_slot.shared_at) + scratch_slot.demand.shared_words
    };
    // A sort that others link to is whole: one level.
    let link = |sort: &usize| parts.iter().position(|part| part.sort == *sort);
    SessionTable {
        session: sort.session.clone(),
        fields: part.fields.clone(),
        remarks: part.remarks.clone(),
        family: sort.family,
        scratch_len: scratch_slots.iter().map(end).max().unwrap_or(0),
        scratch_align: scratch_slots
            .iter()
            .map(|scratch_slot| scratch_slot.demand.align.max(1))
            .max()
            .unwrap_or(1),
        links: part.links.iter().filter_map(link).map(|level| level as LevelId).collect(),
        translates: wants.translates(part.sort),
        shared_words: scratch_slots.iter().map(shared_end).max().unwrap_or(0),
        scratch_slots,
    }
}

fn accesses(nodes: usize, levels: &[SessionTable]) -> Vec<NodePlan> {
    let mut plans = vec![NodePlan::default(); nodes];
    for (from, level) in levels.iter().enumerate().take(LEVELS_MAX) {
        let own = [(from as LevelId, None)];
        let linked = level.links.iter().enumerate().map(|(via, to)| (*to, Some(via as u8)));
        for (holder, via) in own.into_iter().chain(linked) {
            for scratch_slot in &levels[usize::from(holder)].scratch_slots {
                plans[scratch_slot.node as usize].access[from] = Some(Access {
                    level: holder,
                    via,
                    offset: scratch_slot.offset,
                    size: u32::try_from(scratch_slot.demand.size).unwrap_or(u32::MAX),
                    bit: scratch_slot.bit,
                    shared_at: scratch_slot.shared_at,
                });
            }
        }
    }
    plans
}
