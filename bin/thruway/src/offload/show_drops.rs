//! What an XDP program drops and notes in place of a classifier, for people and programs.

use std::fmt::Write as _;

use serde_json::{Value, json};
use thruway_flow::drop_table::{DropTable, TESTS_MAX};

use super::classifier_rules::ClassifierRules;
use crate::table::Table;

/// The tables of a program.
pub(super) struct Tables {
    /// By packet sockets, and by AF_XDP where the other one would be too large.
    pub drops: DropTable,
    /// By AF_XDP.
    pub classes: DropTable,
}

/// Packets of any class that are left to the chain all the same, and why.
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

/// How large a table is.
fn size(table: &DropTable) -> String {
    format!("at most {} tests for a packet, {} in all", table.depth, table.tests.len())
}

/// The tables' sizes, what becomes of each class, and what stays with the chain.
pub(super) fn text(compiled: &ClassifierRules, tables: &Tables) -> String {
    let Tables { drops, classes: noted } = tables;
    let mut text = format!("{} (limit {TESTS_MAX} tests)\n\n", compiled.name);
    let by_xdp = match (noted.is_whole(), noted.is_empty()) {
        (true, false) => format!("{}; classes are noted", size(noted)),
        (true, true) => "none: nothing is dropped, and there is one class".to_owned(),
        (false, _) => "as by packet sockets: a table with classes would be too large".to_owned(),
    };
    let by_packet = match drops.is_empty() {
        true => "none: nothing is dropped".to_owned(),
        false => size(drops),
    };
    let mut rows = Table::new(&["received by", "program"]);
    rows.row(vec!["AF_XDP".to_owned(), by_xdp]);
    rows.row(vec!["packet sockets".to_owned(), by_packet]);
    let _ = writeln!(text, "{}", rows.render());
    let mut rows = Table::new(&["class", "by AF_XDP", "by packet sockets", "its packets"]);
    for (number, what, is_dropped) in classes(compiled) {
        let passed = "left to the chain";
        let fates = match (is_dropped, noted.is_whole()) {
            (true, _) => ["dropped"; 2],
            (false, true) => ["noted", passed],
            (false, false) => [passed; 2],
        };
        let [by_xdp, by_packet] = fates.map(str::to_owned);
        rows.row(vec![number.to_string(), by_xdp, by_packet, what.to_owned()]);
    }
    let _ = writeln!(text, "Classes\n\n{}", rows.render());
    let mut rows = Table::new(&["packets left to the chain", "reason"]);
    for (packets, why) in LEFT {
        rows.row(vec![packets.to_owned(), why.to_owned()]);
    }
    for (why, count) in &drops.excluded {
        rows.row(vec![format!("of {count} ends of the decision"), why.to_string()]);
    }
    let _ = write!(text, "The chain\n\n{}", rows.render());
    text
}

fn excluded(table: &DropTable) -> Vec<Value> {
    let excluded = table.excluded.iter();
    excluded.map(|(why, count)| json!({ "ends": count, "why": why.to_string() })).collect()
}

/// The same, for programs.
pub(super) fn json(compiled: &ClassifierRules, tables: &Tables) -> Value {
    let Tables { drops, classes: noted } = tables;
    let classes = classes(compiled).map(|(number, what, is_dropped)| {
        json!({ "class": number, "packets": what, "dropped": is_dropped })
    });
    json!({
        "element": compiled.name, "tests": drops.tests.len(), "tests_max": TESTS_MAX,
        "depth": drops.depth, "drops": !drops.is_empty(),
        "classes": classes.collect::<Vec<_>>(), "excluded": excluded(drops),
        "with_classes": {
            "tests": noted.tests.len(), "depth": noted.depth,
            "notes": noted.is_whole() && !noted.is_empty(), "excluded": excluded(noted),
        },
    })
}
