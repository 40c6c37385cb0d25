//! Consolidation against walking element by element, on random chains and packets. More cases:
//! `THRUWAY_PLAN_CASES=100000 cargo test --release -p thruway-flow --test consolidation`.

mod chains;
mod examples;
mod hostile;
mod packets;
mod walking;

use proptest::prelude::*;
use std::collections::HashMap;
use thruway_flow::chain::{Chain, Role};
use thruway_flow::consolidate;
use thruway_flow::plan::{Hop, KeyPlan, LeafId, Orientation, Plan};

use packets::Packet;

fn cases(default: u32) -> ProptestConfig {
    let wanted = std::env::var("THRUWAY_PLAN_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(wanted.unwrap_or(default))
    }
}

/// The plan; functions that cannot have what they want lose their demands first.
fn plan_of(chain: &mut Chain) -> Plan {
    for _ in 0..chain.nodes.len() + 1 {
        match consolidate(chain) {
            Ok(plan) => return plan,
            Err(errors) => errors.iter().for_each(|error| chain.nodes[error.node].demand = None),
        }
    }
    panic!("errors remain: {:?}", consolidate(chain).map(|_| ()));
}

fn hops_are_right(chain: &Chain, plan: &Plan, entry: u32, packet: &Packet) {
    let leaf = plan.classify(entry, &packet.view());
    let shared = walking::walk(chain, plan.entries[entry as usize].node as usize, packet);
    let class = &plan.leaves[usize::from(leaf)];
    for (node, verdicts) in &shared.dispatchers {
        let hop = plan.nodes[*node].hops[usize::from(leaf)];
        for verdict in verdicts {
            assert!(
                hop == *verdict || hop == Hop::InPlace,
                "node {node}: {hop:?}, not {verdict:?}"
            );
        }
    }
    for function in &shared.functions {
        assert!(class.functions.contains(&(*function as u32)), "function {function}");
    }
    assert!(!class.early_drop || (chain.early_drop && !shared.wanted), "dropped though wanted");
}

/// Where nothing is changed and nothing is beyond the bounds, every hop is decided, and leaves have
/// the functions that packets come to and no others.
fn nothing_is_left_open(chain: &Chain, plan: &Plan, entry: u32, packet: &Packet) {
    let leaf = plan.classify(entry, &packet.view());
    let shared = walking::walk(chain, plan.entries[entry as usize].node as usize, packet);
    for (node, plan) in plan.nodes.iter().enumerate() {
        if let Some(hop) = plan.hops.get(usize::from(leaf)) {
            let expected = shared.dispatchers.get(&node).map_or(Hop::Never, |verdicts| verdicts[0]);
            assert_eq!(*hop, expected, "node {node}");
        }
    }
    let mut functions: Vec<u32> = shared.functions.iter().map(|node| *node as u32).collect();
    let mut reports = plan.leaves[usize::from(leaf)].functions.clone();
    functions.sort_unstable();
    reports.sort_unstable();
    assert_eq!(functions, reports);
    if chain.early_drop {
        assert_eq!(plan.leaves[usize::from(leaf)].early_drop, !shared.wanted);
    }
}

/// The record that a packet finds, by a key plan.
fn record(packet: &Packet, key: &KeyPlan) -> Option<(u8, Vec<u64>)> {
    let values: Option<Vec<u64>> = key.fields.iter().map(|f| packet.field(f)).collect();
    let mut values = values?;
    if key.orientation == Orientation::Compared {
        let mirror = key.fields.iter().map(|f| packet.field(&f.mirrored()?));
        values = values.min(mirror.collect::<Option<Vec<u64>>>()?);
    }
    Some((key.level, values))
}

/// The records that a packet of a leaf finds: its own, and those linked to, by level.
fn records(packet: &Packet, plan: &Plan, leaf: LeafId) -> Option<HashMap<u8, Vec<u64>>> {
    fn add(
        packet: &Packet,
        plan: &Plan,
        key: &KeyPlan,
        all: &mut HashMap<u8, Vec<u64>>,
    ) -> Option<()> {
        let (level, values) = record(packet, key)?;
        if let Some(old) = all.insert(level, values.clone()) {
            assert_eq!(old, values, "two keys for one level");
        }
        let levels: Vec<u8> = key.links.iter().map(|link| link.level).collect();
        assert_eq!(levels, plan.levels[usize::from(level)].links);
        key.links.iter().try_for_each(|link| add(packet, plan, link, all))
    }
    let key = plan.leaves[usize::from(leaf)].keys[packet.family() as usize].as_ref()?;
    let mut all = HashMap::new();
    add(packet, plan, key, &mut all)?;
    Some(all)
}

/// A packet with the records it finds.
struct Seen<'a> {
    packet: &'a Packet,
    leaf: LeafId,
    records: HashMap<u8, Vec<u64>>,
}

fn sessions_are_right(chain: &Chain, plan: &Plan, packets: &[Packet]) {
    let mut seen = Vec::new();
    for entry in 0..plan.entries.len() as u32 {
        for packet in packets {
            let leaf = plan.classify(entry, &packet.view());
            if let Some(records) = records(packet, plan, leaf) {
                seen.push(Seen { packet, leaf, records });
            }
        }
    }
    for a in &seen {
        for b in &seen {
            same_sessions(chain, plan, a, b);
            apart(plan, a, b);
        }
    }
}

/// Two packets find the same state of a function where its definition says so, and only there.
fn same_sessions(chain: &Chain, plan: &Plan, a: &Seen<'_>, b: &Seen<'_>) {
    let on_b = &plan.leaves[usize::from(b.leaf)].functions;
    for function in &plan.leaves[usize::from(a.leaf)].functions {
        let demand = chain.nodes[*function as usize].demand.as_ref().unwrap();
        if !on_b.contains(function) {
            continue;
        }
        let plain = a.packet.same_session(b.packet, &demand.session);
        let found = |seen: &Seen<'_>| {
            let key =
                plan.leaves[usize::from(seen.leaf)].keys[seen.packet.family() as usize].as_ref();
            let access = plan.nodes[*function as usize].access[usize::from(key?.level)]?;
            let level = &plan.levels[usize::from(key?.level)];
            if let Some(via) = access.via {
                assert_eq!(level.links[usize::from(via)], access.level);
            }
            Some((access.level, access.offset, seen.records[&access.level].clone()))
        };
        match (plain, found(a), found(b)) {
            (None, _, _) => {}
            (Some(same), Some(a), Some(b)) => {
                assert_eq!(a.1, b.1, "offset differs");
                assert_eq!((a.0, &a.2) == (b.0, &b.2), same, "{a:?} {b:?} {}", demand.session);
            }
            (Some(_), a, b) => panic!("no session: {a:?} {b:?}"),
        }
    }
}

/// Functions that packets of one record reach do not overlap in it; and a record has one set of
/// links, whichever function opened it.
fn apart(plan: &Plan, a: &Seen<'_>, b: &Seen<'_>) {
    for (level, key) in &a.records {
        if b.records.get(level) != Some(key) {
            continue;
        }
        let level = &plan.levels[usize::from(*level)];
        for link in &level.links {
            assert_eq!(a.records[link], b.records[link], "links differ");
        }
        let room = |seen: &Seen<'_>, node: u32| {
            let on = plan.leaves[usize::from(seen.leaf)].functions.contains(&node);
            level.scratch_slots.iter().find(|room| on && room.node == node)
        };
        for one in &level.scratch_slots {
            for other in level.scratch_slots.iter().filter(|other| other.node != one.node) {
                assert_ne!(one.bit, other.bit);
                if let (Some(one), Some(other)) = (room(a, one.node), room(b, other.node)) {
                    let (f, g) = (&one.demand, &other.demand);
                    let (at, end) = (one.offset as usize, one.offset as usize + f.size);
                    let (from, to) = (other.offset as usize, other.offset as usize + g.size);
                    assert!(end <= from || to <= at || f.size == 0 || g.size == 0, "overlap");
                    let (at, end) = (one.shared_at, usize::from(one.shared_at) + f.shared_words);
                    let to = usize::from(other.shared_at) + g.shared_words;
                    let apart = end <= usize::from(other.shared_at) || to <= usize::from(at);
                    assert!(apart || f.shared_words == 0 || g.shared_words == 0, "shared overlap");
                }
            }
        }
    }
}

fn rooms_are_sound(plan: &Plan) {
    let mut offsets: HashMap<u32, u32> = HashMap::new();
    for level in &plan.levels {
        for room in &level.scratch_slots {
            assert_eq!(*offsets.entry(room.node).or_insert(room.offset), room.offset);
            assert_eq!(room.offset as usize % room.demand.align, 0);
            assert!(room.offset as usize + room.demand.size <= level.scratch_len);
            assert!(room.demand.align <= level.scratch_align);
        }
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn packets_go_where_each_element_alone_would_send_them(
        (mut chain, packets) in (chains::any_chain(), packets::packets())
    ) {
        let plan = plan_of(&mut chain);
        rooms_are_sound(&plan);
        let changed = chain.nodes.iter().any(|node| {
            matches!(node.role, Role::Function | Role::Dispatcher(_))
                && node.changes != thruway_flow::chain::Changes::Nothing
        });
        for entry in 0..plan.entries.len() as u32 {
            for packet in &packets {
                hops_are_right(&chain, &plan, entry, packet);
                if !changed && plan.remarks.is_empty() {
                    nothing_is_left_open(&chain, &plan, entry, packet);
                }
            }
        }
    }

    #[test]
    fn sessions_are_those_of_the_definitions(
        (mut chain, packets) in (
            prop_oneof![chains::session_chain().boxed(), chains::web_chain().boxed()],
            packets::connections(),
        )
    ) {
        let plan = plan_of(&mut chain);
        rooms_are_sound(&plan);
        sessions_are_right(&chain, &plan, &packets);
    }
}
