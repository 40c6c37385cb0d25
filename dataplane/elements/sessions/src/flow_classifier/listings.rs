//! FlowClassifier: its handlers of many lines.

use std::fmt::Write as _;

use thruway_element::Cx;
use thruway_flow::manager::{ClassCounts, Counts, Cursor, Filter, Manager};
use thruway_flow::plan::{Leaf, ScratchSlot};
use thruway_flow::table::{LINE_SLOTS, Load as TableLoad};

/// The next lines of a listing.
pub(super) fn list(flows: &Manager, param: &str, now: i64) -> Result<String, String> {
    let (at, filter) = param.trim().split_once(' ').unwrap_or((param.trim(), ""));
    let numbers = if at.is_empty() { Some(("0", "0")) } else { at.split_once(':') };
    let from = numbers.and_then(|(level, index)| {
        Some(Cursor { level: level.parse().ok()?, index: index.parse().ok()? })
    });
    let from = from.ok_or_else(|| format!("'{at}' is no place to go on at, such as 0:0"))?;
    let filter = Filter::parse(filter)?;
    let mut text = String::new();
    let next = flows.list(from, now, |flow| {
        if filter.takes(flow) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{flow}");
        }
    });
    if let Some(Cursor { level, index }) = next {
        let _ = writeln!(text, "next {level}:{index}");
    }
    Ok(text)
}

/// A line for each level: how its table stands.
pub(super) fn table(flows: &Manager) -> String {
    let mut text = String::new();
    for (at, level) in flows.plan().levels.iter().enumerate() {
        let load = flows.load(at as u8);
        let lines = u64::from(load.buckets) + u64::from(load.overflow);
        let share = f64::from(load.slots_used) / (lines.max(1) * LINE_SLOTS) as f64;
        let TableLoad { buckets, overflow, slots_used, chain_max, moved, refused_full, .. } = load;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}\t{:?}\t{share:.2}\t{slots_used}\t{buckets}\t{overflow}\t{chain_max}\t{moved}\
             \t{refused_full}",
            level.session, level.family
        );
    }
    text
}

/// A line for each class of packets.
pub(super) fn classes(flows: &Manager) -> String {
    let leaves = flows.plan().leaves.iter().zip(flows.classes());
    let line = |(leaf, class): (&Leaf, &ClassCounts)| {
        let ClassCounts { now, counts } = class;
        let Counts { created, timed_out, closed, evicted, removed, .. } = counts;
        let class = &leaf.class;
        format!("{now}\t{created}\t{timed_out}\t{closed}\t{evicted}\t{removed}\t{class}\n")
    };
    leaves.map(line).collect()
}

/// A line for each function: what its state takes.
pub(super) fn scratch(cx: &mut Cx<'_>) -> String {
    let Some(flows) = cx.flows() else { return String::new() };
    let mut rows = Vec::new();
    for (at, level) in flows.plan().levels.iter().enumerate() {
        let (now, ..) = flows.counts(at as u8);
        let sort = format!("{}\t{:?}", level.session, level.family);
        let row = |room: &ScratchSlot| (room.node, sort.clone(), room.demand.size, now);
        rows.extend(level.scratch_slots.iter().filter(|room| room.demand.size > 0).map(row));
    }
    let mut text = String::new();
    for (node, sort, size, now) in rows {
        let name = cx.describe(node).map_or("", |(name, _)| name);
        let bytes = size as u64 * u64::from(now);
        let _ = writeln!(text, "{name}\t{sort}\t{size}\t{now}\t{bytes}");
    }
    text
}
