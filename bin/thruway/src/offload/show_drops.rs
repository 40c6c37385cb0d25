//! What an XDP program drops in place of a classifier, for people and programs.

use std::fmt::Write as _;

use serde_json::{Value, json};
use thruway_flow::drop_table::{DropTable, TESTS_MAX};

use super::classifier_rules::ClassifierRules;
use crate::table::Table;

/// Packets of the classes that are dropped, which are left to the chain all the same, and why.
const LEFT: [(&str, &str); 6] = [
    ("fragments", "their ports are in the first one only"),
    ("frames with VLAN tags", "the chain looks behind them"),
    ("IPv6 with extension headers", "the chain looks behind them"),
    ("contradictory or truncated headers", "the chain does not read what is behind"),
    ("frames that end within a word that a rule tests", "the program tests whole words"),
    ("ICMP errors, where the chain has sessions", "they may belong to one"),
];

/// The numbers of classes, what their packets are, and whether the chain drops them at once.
fn classes(compiled: &ClassifierRules) -> impl Iterator<Item = (usize, &str, bool)> {
    let all = compiled.plan.leaves.iter().enumerate();
    all.map(|(number, leaf)| (number, leaf.class.as_str(), leaf.early_drop))
}

/// The table's size, what becomes of each class, and what stays with the chain.
pub(super) fn text(compiled: &ClassifierRules, table: &DropTable) -> String {
    let mut text = format!(
        "{}: {} tests (limit {TESTS_MAX}), at most {} for a packet\n\n",
        compiled.name,
        table.tests.len(),
        table.depth
    );
    if table.is_empty() {
        text += "The program would drop nothing, so none is put in front.\n\n";
    }
    let mut rows = Table::new(&["class", "XDP", "its packets"]);
    for (number, what, is_dropped) in classes(compiled) {
        let fate = if is_dropped { "dropped" } else { "left to the chain" };
        rows.row(vec![number.to_string(), fate.to_owned(), what.to_owned()]);
    }
    let _ = writeln!(text, "Classes\n\n{}", rows.render());
    let mut rows = Table::new(&["packets left to the chain", "reason"]);
    for (packets, why) in LEFT {
        rows.row(vec![packets.to_owned(), why.to_owned()]);
    }
    for (why, count) in &table.excluded {
        rows.row(vec![format!("of {count} ends of the decision"), why.to_string()]);
    }
    let _ = write!(text, "The chain\n\n{}", rows.render());
    text
}

/// The same, for programs.
pub(super) fn json(compiled: &ClassifierRules, table: &DropTable) -> Value {
    let classes = classes(compiled).map(|(number, what, is_dropped)| {
        json!({ "class": number, "packets": what, "dropped": is_dropped })
    });
    let excluded = table.excluded.iter();
    let excluded = excluded.map(|(why, count)| json!({ "ends": count, "why": why.to_string() }));
    json!({
        "element": compiled.name, "tests": table.tests.len(), "tests_max": TESTS_MAX,
        "depth": table.depth, "drops": !table.is_empty(),
        "classes": classes.collect::<Vec<_>>(), "excluded": excluded.collect::<Vec<_>>(),
    })
}
