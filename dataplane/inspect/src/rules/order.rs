//! Which rules are obeyed first.

use crate::rules::compiled::Compiled;

/// For each rule its place in the order: first those that let pass, then those that drop, reject,
/// alert; among them those that set flow bits before those that test them; then by priority.
pub(super) fn ranks(rules: &[Compiled]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rules.len() as u32).collect();
    order.sort_by_key(|number| {
        let rule = &rules[*number as usize];
        (rule.action, bits_class(rule), rule.priority, rule.about.sid, *number)
    });
    let mut ranks = vec![0; rules.len()];
    for (rank, rule) in (0u32..).zip(order) {
        ranks[rule as usize] = rank;
    }
    ranks
}

fn bits_class(rule: &Compiled) -> u8 {
    let asks = rule.bits.iter().any(|bit| bit.op.is_test());
    let sets = rule.bits.iter().any(|bit| !bit.op.is_test());
    match (sets, asks) {
        (true, false) => 0,
        (true, true) => 1,
        (false, true) => 2,
        (false, false) => 3,
    }
}
