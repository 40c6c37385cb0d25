//! A plan in human-readable form: the output of `thruway check --explain`.

mod field;
mod table;
mod tree;

pub(crate) use field::{Field, protocol_name};

use std::cmp::Reverse;
use std::fmt::Write;

use crate::ast::{Expr, Rule};
use crate::chain::{Chain, Role};
use crate::plan::{Hop, Leaf, Plan, SessionTable};
use table::Table;

/// Most fields with a column of their own.
const COLUMNS_MAX: usize = 12;
/// Most classes in a table.
const ROWS_MAX: usize = 200;

impl Plan {
    /// The decision structure, the table of classes, keys and records, and its savings. `chain`
    /// must be the one of the plan.
    pub fn explain(&self, chain: &Chain) -> String {
        let mut out = String::new();
        let counts = format!(
            "{}, {}, {} of memory",
            many(self.decision.len(), "step"),
            many(self.leaves.len(), "class"),
            many(self.decision.memory_bytes(), "byte")
        );
        let _ = writeln!(out, "Decisions ({counts})\n");
        for entry in &self.entries {
            let _ = writeln!(out, "  from {}:", name(chain, entry.node));
            let _ = writeln!(out, "{}", tree::tree(self, entry.start));
        }
        let _ = writeln!(out, "Classes\n\n{}", self.classes(chain));
        for (at, level) in self.levels.iter().enumerate() {
            let _ = writeln!(out, "{}", self.level(chain, at, level));
        }
        let _ = writeln!(out, "What it saves\n\n{}", self.savings(chain));
        for remark in &self.remarks {
            let _ = writeln!(out, "Note: {remark}.");
        }
        out
    }

    /// By class: the fewest and the most steps that a packet takes to it; `None` if it is
    /// unreachable.
    pub fn steps_to_classes(&self) -> Vec<Option<(usize, usize)>> {
        tree::distances(self)
    }

    /// One line for each class: fixed fields as values, PFP for fields read for the key ("populated
    /// from the packet"), `*` for others.
    fn classes(&self, chain: &Chain) -> String {
        let fields = self.columns();
        let mut head = vec!["class".to_owned()];
        head.extend(fields.iter().cloned());
        head.extend(["also", "next hops", "state"].map(str::to_owned));
        let mut table = Table::new(head);
        for (at, leaf) in self.leaves.iter().enumerate().take(ROWS_MAX) {
            let keys = key_fields(leaf);
            let mut row = vec![at.to_string()];
            for field in &fields {
                let known = leaf.known.iter().find(|(name, _)| name == field).map(|k| k.1.as_str());
                row.push(match (known, keys.contains(field)) {
                    (Some(value), true) => format!("PFP: {value}"),
                    (Some(value), false) => value.to_owned(),
                    (None, true) => "PFP".to_owned(),
                    (None, false) => "*".to_owned(),
                });
            }
            let also = leaf.known.iter().filter(|(name, _)| !fields.contains(name));
            let also: Vec<String> = also.map(|(name, value)| format!("{name} {value}")).collect();
            row.push(if also.is_empty() { "-".to_owned() } else { also.join(", ") });
            row.push(self.next_hops(chain, at, leaf));
            row.push(self.state(chain, leaf));
            table.row(row);
        }
        let more = self.leaves.len().saturating_sub(ROWS_MAX);
        let more = if more > 0 { format!("  ... and {more} more\n") } else { String::new() };
        format!("{}{more}", table.without_empty())
    }

    /// Fields of keys, and fields that most classes restrict, in order of first occurrence.
    fn columns(&self) -> Vec<String> {
        let mut fields: Vec<(String, usize)> = Vec::new();
        for leaf in self.leaves.iter().take(ROWS_MAX) {
            let known = leaf.known.iter().map(|(field, _)| field.clone());
            for name in known.chain(key_fields(leaf)) {
                match fields.iter_mut().find(|(field, _)| *field == name) {
                    Some((_, count)) => *count += 1,
                    None => fields.push((name, 1)),
                }
            }
        }
        let mut counts: Vec<usize> = fields.iter().map(|(_, count)| *count).collect();
        counts.sort_unstable_by_key(|count| Reverse(*count));
        let least = counts.get(COLUMNS_MAX).copied().unwrap_or(0);
        fields.into_iter().filter(|(_, count)| *count > least).map(|(field, _)| field).collect()
    }

    fn next_hops(&self, chain: &Chain, at: usize, leaf: &Leaf) -> String {
        let mut hops = Vec::new();
        for (node, plan) in self.nodes.iter().enumerate() {
            let name = name(chain, node as u32);
            match plan.hops.get(at) {
                Some(Hop::Output(output)) => hops.push(format!("{name} {output}")),
                Some(Hop::Drop) => hops.push(format!("{name} drop")),
                Some(Hop::InPlace) => hops.push(format!("{name} looks itself")),
                Some(Hop::Never) | None => {}
            }
        }
        if leaf.early_drop {
            hops.push("dropped early".to_owned());
        }
        if hops.is_empty() { "-".to_owned() } else { hops.join(", ") }
    }

    fn state(&self, chain: &Chain, leaf: &Leaf) -> String {
        let names: Vec<String> = leaf.functions.iter().map(|node| name(chain, *node)).collect();
        if names.is_empty() { "-".to_owned() } else { names.join(", ") }
    }

    /// A level: its key, its records.
    fn level(&self, chain: &Chain, at: usize, level: &SessionTable) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "Sessions {at}: {} of {}\n", level.session, level.family);
        let fields: Vec<String> = level.fields.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "  key: {}", fields.join(", "));
        for remark in &level.remarks {
            let _ = writeln!(out, "    {remark}");
        }
        let links: Vec<String> =
            level.links.iter().map(|link| format!("sessions {link}")).collect();
        if !links.is_empty() {
            let _ = writeln!(out, "  links to: {}", links.join(", "));
        }
        if level.translates {
            let _ = writeln!(out, "  a second key for replies: addresses are translated");
        }
        let size = many(level.scratch_len, "byte");
        let _ = writeln!(out, "  record: {size}, aligned to {}\n", level.scratch_align);
        let head = ["offset", "bytes", "function", "shares with"];
        let mut table = Table::new(head.map(str::to_owned).to_vec());
        for scratch_slot in &level.scratch_slots {
            let range = |at: &crate::plan::ScratchSlot| {
                at.offset as usize..at.offset as usize + at.demand.size
            };
            let own = range(scratch_slot);
            let shares = level.scratch_slots.iter().filter(|other| {
                let others = range(other);
                other.node != scratch_slot.node && own.start < others.end && others.start < own.end
            });
            let shares: Vec<String> = shares.map(|other| name(chain, other.node)).collect();
            table.row(vec![
                scratch_slot.offset.to_string(),
                scratch_slot.demand.size.to_string(),
                name(chain, scratch_slot.node),
                if shares.is_empty() { "-".to_owned() } else { shares.join(", ") },
            ]);
        }
        let _ = write!(out, "{table}");
        out
    }

    /// For each class: steps and lookups with and without consolidation; then bytes of records.
    fn savings(&self, chain: &Chain) -> String {
        let head = ["class", "steps", "tests one by one", "lookups", "lookups one by one"];
        let mut table = Table::new(head.map(str::to_owned).to_vec());
        let distances = tree::distances(self);
        for (at, leaf) in self.leaves.iter().enumerate().take(ROWS_MAX) {
            let steps = match distances[at] {
                Some((least, most)) if least == most => least.to_string(),
                Some((least, most)) => format!("{least} to {most}"),
                None => "-".to_owned(),
            };
            let found = leaf.keys.iter().any(Option::is_some);
            table.row(vec![
                at.to_string(),
                steps,
                format!("{} or more", self.tests_alone(chain, at)),
                usize::from(found).to_string(),
                if found { leaf.functions.len().to_string() } else { "0".to_owned() },
            ]);
        }
        let mut out = table.to_string();
        for (at, level) in self.levels.iter().enumerate() {
            let alone: usize =
                level.scratch_slots.iter().map(|scratch_slot| scratch_slot.demand.size).sum();
            let size = level.scratch_len;
            let _ = writeln!(
                out,
                "  Sessions {at}: {} of state; {alone} if nothing shared space",
                many(size, "byte")
            );
        }
        out
    }

    /// Tests that the dispatchers of a class need at least when each goes through its own rules.
    fn tests_alone(&self, chain: &Chain, leaf: usize) -> usize {
        let mut tests = 0;
        for (node, plan) in self.nodes.iter().enumerate() {
            let Role::Dispatcher(rules) = &chain.nodes[node].role else { continue };
            tests += match plan.hops.get(leaf) {
                Some(Hop::Output(output)) => tests_to(rules, Some(u32::from(*output))),
                Some(Hop::Drop) => tests_to(rules, None),
                Some(Hop::InPlace | Hop::Never) | None => 0,
            };
        }
        tests
    }
}

/// Fewest tests until a rule for this output (`None`: no rule, or one that drops) is found.
fn tests_to(rules: &[Rule], output: Option<u32>) -> usize {
    let mut tests = 0;
    for rule in rules {
        if Some(rule.output) == output {
            return tests + fewest(&rule.expr, true).unwrap_or(0);
        }
        tests += fewest(&rule.expr, false).unwrap_or(0);
    }
    tests
}

/// Fewest tests after which an expression is known to hold, or not to; `None`: it never is.
fn fewest(expr: &Expr, holds: bool) -> Option<usize> {
    let all = |list: &[Expr]| list.iter().try_fold(0, |sum, e| Some(sum + fewest(e, holds)?));
    match expr {
        Expr::Const(value) => (*value == holds).then_some(0),
        Expr::Test(_) => Some(1),
        Expr::Not(e) => fewest(e, !holds),
        Expr::All(list) if holds => all(list),
        Expr::Any(list) if !holds => all(list),
        Expr::All(list) | Expr::Any(list) => list.iter().filter_map(|e| fewest(e, holds)).min(),
        Expr::Choice(cases, otherwise) => {
            let taken = |(c, then): &(Expr, Expr)| Some(fewest(c, true)? + fewest(then, holds)?);
            cases.iter().filter_map(taken).chain(fewest(otherwise, holds)).min()
        }
    }
}

fn key_fields(leaf: &Leaf) -> Vec<String> {
    let keys = leaf.keys.iter().flatten();
    let mut fields: Vec<String> =
        keys.flat_map(|key| key.fields.iter().map(ToString::to_string)).collect();
    fields.dedup();
    fields
}

fn name(chain: &Chain, node: u32) -> String {
    chain.nodes.get(node as usize).map_or_else(|| format!("#{node}"), |node| node.name.clone())
}

fn many(count: usize, what: &str) -> String {
    match (count, what) {
        (1, _) => format!("1 {what}"),
        (_, "class") => format!("{count} classes"),
        _ => format!("{count} {what}s"),
    }
}
