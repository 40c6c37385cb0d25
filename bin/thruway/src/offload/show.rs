//! The rules of a switch, for people and programs.

use std::fmt::Write as _;

use serde_json::{Value, json};
use thruway_flow::tags::Generation;
use thruway_offload::ovs::Port;
use thruway_offload::{Rule, Verdict};

use super::made::Made;
use crate::table::Table;

/// A class, and what becomes of its packets.
struct Class<'a> {
    number: usize,
    /// Of the first generation.
    tag: Option<u16>,
    tagged: usize,
    dropped: usize,
    /// Fewest and most steps that the host takes without a switch.
    steps: Option<(usize, usize)>,
    what: &'a str,
}

fn classes(made: &Made) -> Vec<Class<'_>> {
    let rules = &made.table.rules;
    let count = |verdict| rules.iter().filter(|rule| rule.verdict == verdict).count();
    let all = made.plan.leaves.iter().zip(made.plan.steps_to_classes()).enumerate();
    let class = |(number, (leaf, steps))| {
        let class = number as u16;
        let tag = Generation::Even.tag(class);
        let leaf: &thruway_flow::plan::Leaf = leaf;
        Class {
            number,
            tag,
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
fn counts(made: &Made) -> [usize; 3] {
    let rules = &made.table.rules;
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

/// What the switch does, what stays with the host and why, and the map of tags; `rules`: each rule.
pub(super) fn text(made: &Made, rules: bool) -> anyhow::Result<String> {
    let [tag, drop, leave] = counts(made);
    let mut text = format!(
        "{}: {} rules of a switch, at most {} and those for what it cannot read\n\n",
        made.name,
        made.table.rules.len(),
        made.rules_max
    );
    let mut table = Table::new(&["rules", "what they do"]);
    table.row(vec![tag.to_string(), "put the tag of a class before a packet".to_owned()]);
    table.row(vec![drop.to_string(), "drop what nobody in the chain wants".to_owned()]);
    table.row(vec![leave.to_string(), "leave packets to the host".to_owned()]);
    table.row(vec![made.table.needless.to_string(), "needless, left out".to_owned()]);
    let _ = writeln!(text, "{}", table.render());
    let mut table = Table::new(&["class", "tag", "rules", "steps saved", "its packets"]);
    for class in classes(made) {
        let tag = match (class.dropped, class.tag) {
            (0, Some(tag)) => tag.to_string(),
            _ => "dropped".to_owned(),
        };
        let rules = (class.tagged + class.dropped).to_string();
        let saved = steps(class.steps);
        table.row(vec![class.number.to_string(), tag, rules, saved, class.what.to_owned()]);
    }
    let _ = writeln!(text, "Classes\n\n{}", table.render());
    let mut table = Table::new(&["rules", "why their packets stay with the host"]);
    for (doubt, count) in made.table.doubts() {
        table.row(vec![count.to_string(), doubt.to_string()]);
    }
    let _ = write!(text, "The host\n\n{}", table.render());
    if rules {
        let port = Port::new("BRIDGE", "FROM", "TO")?;
        let bundle = port.bundle(&made.table, Generation::Even)?;
        let _ = write!(text, "\nRules\n\n{bundle}");
    }
    Ok(text)
}

/// The same, for programs.
pub(super) fn json(made: &Made) -> Value {
    let [tag, drop, leave] = counts(made);
    let classes = classes(made).into_iter().map(|class| {
        let tag = class.tag.filter(|_| class.dropped == 0);
        json!({
            "class": class.number, "tag": tag, "rules": class.tagged + class.dropped,
            "dropped": class.dropped > 0, "packets": class.what,
            "steps": class.steps.map(|(least, most)| [least, most]),
        })
    });
    let doubts = made.table.doubts().into_iter();
    let doubts = doubts.map(|(doubt, count)| json!({ "rules": count, "why": doubt.to_string() }));
    json!({
        "element": made.name, "rules": made.table.rules.len(), "rules_max": made.rules_max,
        "tag": tag, "drop": drop, "leave": leave, "needless": made.table.needless,
        "classes": classes.collect::<Vec<_>>(), "left_to_the_host": doubts.collect::<Vec<_>>(),
        "fingerprint": made.plan.fingerprint().to_string(),
    })
}
