//! Rules of rte_flow in place of a classifier, for people and programs.

use std::fmt::{self, Write as _};

use serde_json::{Value, json};
use thruway_flow::hardware_rules::{Act, HardwareRule, HardwareTable, Header, Item};

use super::classifier_rules::ClassifierRules;
use crate::table::Table;

/// Packets of any class that are left to the chain all the same, and why.
const LEFT: [(&str, &str); 3] = [
    (
        "fragments, IPv6 with extension headers, VLAN tags",
        "where the chain might not drop them, a card must know the words that exclude them",
    ),
    ("marked packets that the chain reads otherwise", "the chain looks at the headers of each"),
    ("packets of rules that a card refuses", "a line at the start of the run says which"),
];

fn levels(table: &HardwareTable) -> u32 {
    table.rules().iter().map(|rule| rule.level + 1).max().unwrap_or(0)
}

/// What the rules do, the classes, and what stays with the chain; `print_rules`: each.
pub(super) fn text(compiled: &ClassifierRules, table: &HardwareTable, print_rules: bool) -> String {
    let [drop, mark, leave] = table.counts();
    let (rules, levels) = (table.rules().len(), levels(table));
    let mut text =
        format!("{}: {rules} rules of rte_flow, priorities: {levels}\n\n", compiled.name);
    let mut rows = Table::new(&["rules", "what they do"]);
    rows.row(vec![drop.to_string(), "drop packets that no element of the chain uses".to_owned()]);
    rows.row(vec![mark.to_string(), "mark packets with their class".to_owned()]);
    rows.row(vec![leave.to_string(), "leave packets to the chain".to_owned()]);
    let _ = writeln!(text, "{}", rows.render());
    let mut rows = Table::new(&["class", "by the card", "its packets"]);
    for (number, leaf) in compiled.plan.leaves.iter().enumerate() {
        let fate = if leaf.early_drop { "dropped" } else { "marked" };
        rows.row(vec![number.to_string(), fate.to_owned(), leaf.class.clone()]);
    }
    let _ = writeln!(text, "Classes\n\n{}", rows.render());
    let mut rows = Table::new(&["packets left to the chain", "reason"]);
    for (packets, why) in LEFT {
        rows.row(vec![packets.to_owned(), why.to_owned()]);
    }
    for (why, count) in table.left() {
        rows.row(vec![format!("of {count} rules"), why.to_string()]);
    }
    let _ = write!(text, "The chain\n\n{}", rows.render());
    if print_rules {
        text.push_str("\nRules, as dpdk-testpmd reads them\n\n");
        for rule in table.rules() {
            let _ = writeln!(text, "{}", TestPmd(rule));
        }
    }
    text
}

/// The same, for programs.
pub(super) fn json(compiled: &ClassifierRules, table: &HardwareTable) -> Value {
    let [drop, mark, leave] = table.counts();
    let left = table.left().iter();
    let left = left.map(|(why, count)| json!({ "rules": count, "why": why.to_string() }));
    let classes = compiled.plan.leaves.iter().enumerate().map(|(number, leaf)| {
        json!({ "class": number, "packets": leaf.class, "dropped": leaf.early_drop })
    });
    let rules = table.rules().iter().map(|rule| TestPmd(rule).to_string());
    json!({
        "element": compiled.name, "drop": drop, "mark": mark, "leave": leave,
        "priorities": levels(table), "classes": classes.collect::<Vec<_>>(),
        "left_to_the_chain": left.collect::<Vec<_>>(), "rules": rules.collect::<Vec<_>>(),
    })
}

/// A rule in the notation of dpdk-testpmd (DPDK, "Testpmd runtime functions", flow rules); what it
/// has no word for stands in braces.
struct TestPmd<'a>(&'a HardwareRule);

impl fmt::Display for TestPmd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = self.0;
        write!(f, "flow create 0 priority {} ingress pattern", rule.level)?;
        for item in rule.items().unwrap_or_default() {
            write!(f, " {}", name(item.header))?;
            fields(f, &item)?;
            f.write_str(" /")?;
        }
        f.write_str(" end actions")?;
        match rule.act {
            Act::Drop => f.write_str(" count / drop")?,
            Act::Class(class) => write!(f, " mark id {class} / queue index 0")?,
            Act::Pass(_) => f.write_str(" queue index 0")?,
        }
        f.write_str(" / end")
    }
}

fn name(header: Header) -> &'static str {
    match header {
        Header::Ethernet => "eth",
        Header::Ipv4 => "ipv4",
        Header::Ipv6 => "ipv6",
        Header::Tcp => "tcp",
        Header::Udp => "udp",
        Header::Sctp => "sctp",
        Header::Icmp => "icmp",
        Header::Icmp6 => "icmp6",
    }
}

/// The fields of a header: their names, first bytes and lengths in bytes.
fn layout(header: Header) -> &'static [(&'static str, usize, usize)] {
    match header {
        Header::Ethernet => &[("dst", 0, 6), ("src", 6, 6), ("type", 12, 2)],
        Header::Ipv4 => &[
            ("tos", 1, 1),
            ("fragment_offset", 6, 2),
            ("ttl", 8, 1),
            ("proto", 9, 1),
            ("src", 12, 4),
            ("dst", 16, 4),
        ],
        Header::Ipv6 => &[("proto", 6, 1), ("hop", 7, 1), ("src", 8, 16), ("dst", 24, 16)],
        Header::Tcp => &[("src", 0, 2), ("dst", 2, 2), ("flags", 13, 1)],
        Header::Udp | Header::Sctp => &[("src", 0, 2), ("dst", 2, 2)],
        Header::Icmp | Header::Icmp6 => &[("type", 0, 1), ("code", 1, 1)],
    }
}

fn fields(f: &mut fmt::Formatter<'_>, item: &Item) -> fmt::Result {
    for &(name, at, len) in layout(item.header) {
        let (spec, mask) = (&item.spec[at..at + len], &item.mask[at..at + len]);
        if mask.iter().all(|byte| *byte == 0) {
            continue;
        }
        let (spec, mask) = (value(spec), value(mask));
        write!(f, " {name} spec {spec} {name} mask {mask}")?;
    }
    match (item.alone, item.header) {
        (true, Header::Ethernet) => f.write_str(" has_vlan spec 0 has_vlan mask 1"),
        (true, _) => f.write_str(" {no extension header}"),
        (false, _) => Ok(()),
    }
}

/// As testpmd reads a field of this length.
fn value(bytes: &[u8]) -> String {
    let number = bytes.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    match bytes.len() {
        4 => std::net::Ipv4Addr::from(number as u32).to_string(),
        6 => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"),
        16 => std::net::Ipv6Addr::from(number).to_string(),
        _ => format!("{number:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_testpmd_reads_them() {
        assert_eq!(value(&[10, 0, 0, 1]), "10.0.0.1");
        assert_eq!(value(&[2, 0, 0, 0, 0, 0xff]), "02:00:00:00:00:ff");
        assert_eq!(value(&[0, 53]), "0x35");
        let mut six = [0; 16];
        (six[0], six[15]) = (0xfd, 1);
        assert_eq!(value(&six), "fd00::1");
    }
}
