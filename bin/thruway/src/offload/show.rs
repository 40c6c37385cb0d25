//! The rules of a switch, for people and programs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};
use thruway_flow::tags::Generation;
use thruway_offload::ovs::Port;
use thruway_offload::tagging::shown;
use thruway_offload::{Rule, Verdict};

use super::classifier_rules::ClassifierRules;
use crate::table::Table;

/// A class, and what becomes of its packets.
struct Class<'a> {
    number: usize,
    /// Of the first generation: what stands in the field, for each protocol with another value.
    tags: BTreeSet<u32>,
    tagged: usize,
    dropped: usize,
    /// Fewest and most steps that the host takes without a switch.
    steps: Option<(usize, usize)>,
    what: &'a str,
}

fn classes(compiled: &ClassifierRules) -> Vec<Class<'_>> {
    let rules = &compiled.table.rules;
    let count = |verdict| rules.iter().filter(|rule| rule.verdict == verdict).count();
    let all = compiled.plan.leaves.iter().zip(compiled.plan.steps_to_classes()).enumerate();
    let class = |(number, (leaf, steps))| {
        let class = number as u16;
        let of_class = |rule: &&Rule| rule.verdict == Verdict::Class(class);
        let tag =
            |rule: &Rule| shown(compiled.table.tags, Generation::default(), class, &rule.matches);
        let leaf: &thruway_flow::plan::Leaf = leaf;
        Class {
            number,
            tags: rules.iter().filter(of_class).filter_map(tag).collect(),
            tagged: count(Verdict::Class(class)),
            dropped: count(Verdict::Drop(class)),
            steps,
            what: &leaf.class,
        }
    };
    // Those of other classifiers have no rules.
    all.map(class).filter(|class| class.tagged + class.dropped > 0).collect()
}

fn of_verdict(rules: &[Rule], wanted: fn(&Verdict) -> bool) -> usize {
    rules.iter().filter(|rule| wanted(&rule.verdict)).count()
}

/// The counts of rules that tag, that drop, and that leave packets to the host.
fn counts(compiled: &ClassifierRules) -> [usize; 3] {
    let rules = &compiled.table.rules;
    [
        of_verdict(rules, |verdict| matches!(verdict, Verdict::Class(_))),
        of_verdict(rules, |verdict| matches!(verdict, Verdict::Drop(_))),
        of_verdict(rules, |verdict| matches!(verdict, Verdict::Software(_))),
    ]
}

fn steps(steps: Option<(usize, usize)>) -> String {
    match steps {
        Some((least, most)) if least == most => least.to_string(),
        Some((least, most)) => format!("{least} to {most}"),
        None => "-".to_owned(),
    }
}

/// How many classes and generations the tags have room for, and what to do if that is too little.
fn tags(compiled: &ClassifierRules) -> String {
    let kind = compiled.table.tags;
    let room = format!(
        "Tags: {}, room for {} classes in each of {} generations (the table shows generation 0)",
        kind.name(),
        kind.classes(),
        kind.generations()
    );
    let shortage = compiled.shortage();
    [Some(room), shortage].into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// What the switch does, what stays with the host and why, and the map of tags; `rules`: each.
pub(super) fn text(compiled: &ClassifierRules, rules: bool) -> anyhow::Result<String> {
    let [tag, drop, leave] = counts(compiled);
    let mut text = format!(
        "{}: {} switch rules (limit {}, besides those for packets that a switch cannot parse)\n\n",
        compiled.name,
        compiled.table.rules.len(),
        compiled.rules_max
    );
    let mut table = Table::new(&["rules", "what they do"]);
    table.row(vec![tag.to_string(), "tag packets with their class".to_owned()]);
    table.row(vec![drop.to_string(), "drop packets that no element of the chain uses".to_owned()]);
    table.row(vec![leave.to_string(), "leave packets to the host".to_owned()]);
    table.row(vec![compiled.table.needless.to_string(), "redundant, omitted".to_owned()]);
    let _ = writeln!(text, "{}", table.render());
    let _ = writeln!(text, "{}\n", tags(compiled));
    let mut table = Table::new(&["class", "tag", "rules", "steps saved", "its packets"]);
    for class in classes(compiled) {
        let tags: Vec<String> = class.tags.iter().map(u32::to_string).collect();
        let tag = if class.dropped == 0 { tags.join(", ") } else { "dropped".to_owned() };
        let rules = (class.tagged + class.dropped).to_string();
        let saved = steps(class.steps);
        table.row(vec![class.number.to_string(), tag, rules, saved, class.what.to_owned()]);
    }
    let _ = writeln!(text, "Classes\n\n{}", table.render());
    let mut table = Table::new(&["rules", "reason that packets stay with the host"]);
    for (fallback, count) in compiled.table.fallbacks() {
        table.row(vec![count.to_string(), fallback.to_string()]);
    }
    let _ = write!(text, "The host\n\n{}", table.render());
    if rules {
        let port = Port::new("BRIDGE", "FROM", "TO")?;
        let bundle = port.bundle(&compiled.table, Generation::default(), 0)?;
        let _ = write!(text, "\nRules\n\n{bundle}");
    }
    Ok(text)
}

/// The same, for programs.
pub(super) fn json(compiled: &ClassifierRules) -> Value {
    let [tag, drop, leave] = counts(compiled);
    let kind = compiled.table.tags;
    let classes = classes(compiled).into_iter().map(|class| {
        json!({
            "class": class.number, "tags": class.tags, "rules": class.tagged + class.dropped,
            "dropped": class.dropped > 0, "packets": class.what,
            "steps": class.steps.map(|(least, most)| [least, most]),
        })
    });
    let fallbacks = compiled.table.fallbacks().into_iter();
    let fallbacks =
        fallbacks.map(|(fallback, count)| json!({ "rules": count, "why": fallback.to_string() }));
    json!({
        "element": compiled.name, "rules": compiled.table.rules.len(), "rules_max": compiled.rules_max,
        "tags": {
            "kind": kind.name(), "classes": kind.classes(), "generations": kind.generations(),
            "classes_without": compiled.plan.leaves.len().saturating_sub(kind.classes().into()),
        },
        "tag": tag, "drop": drop, "leave": leave, "needless": compiled.table.needless,
        "classes": classes.collect::<Vec<_>>(), "left_to_the_host": fallbacks.collect::<Vec<_>>(),
        "fingerprint": compiled.plan.fingerprint().to_string(),
    })
}
