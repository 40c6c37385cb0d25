//! The decision structure as an indented tree, and how many steps lead to each leaf.

use std::collections::HashSet;
use std::fmt::Write;

use super::field::Field;
use crate::decision::{Decision, Goto, Next, Step, next};
use crate::plan::Plan;

/// Most lines of one tree.
const LINES_MAX: usize = 400;

struct Tree<'a> {
    plan: &'a Plan,
    out: String,
    shown: HashSet<u32>,
    lines: usize,
}

/// The branches of a step, with their conditions.
fn branches(decision: &Decision, step: &Step) -> (String, Vec<(String, Goto)>) {
    match step {
        Step::Test { word, yes, no } => {
            let branches = vec![("yes".to_owned(), *yes), ("no".to_owned(), *no)];
            (format!("{}?", Field::condition(word)), branches)
        }
        Step::Switch(switch) => {
            let field = Field::of(&switch.word);
            let (branches, otherwise) = decision.branches(switch);
            let branches = branches.into_iter().map(|(value, goto)| (field.value(value), goto));
            let all = branches.chain([("else".to_owned(), otherwise)]).collect();
            (format!("switch on {}", field.name()), all)
        }
        Step::Run { program, first, len } => {
            let verdicts = decision.verdicts(*first, *len);
            let last = verdicts.len().saturating_sub(1);
            let mut branches: Vec<(String, Goto)> = Vec::new();
            for (verdict, goto) in verdicts.iter().enumerate().filter(|(at, _)| *at < last) {
                if *goto != verdicts[last] {
                    branches.push((format!("output {verdict}"), *goto));
                }
            }
            branches.extend(verdicts.last().map(|goto| ("else".to_owned(), *goto)));
            (format!("rule list {program}, compiled as a whole"), branches)
        }
    }
}

impl Tree<'_> {
    /// Shows the subtree of a goto; gotos are put on a stack, so depth does not matter.
    fn show(&mut self, start: Goto) {
        let mut stack = vec![(1_usize, String::new(), start)];
        while let Some((depth, label, goto)) = stack.pop() {
            self.lines += 1;
            if self.lines > LINES_MAX {
                let _ = writeln!(self.out, "  ... more than {LINES_MAX} lines");
                return;
            }
            // Deep trees (long lists of conditions) are not pushed out of sight.
            let indent = "  ".repeat(depth.min(40));
            let label = if label.is_empty() { label } else { format!("{label}: ") };
            let step = match next(goto) {
                Next::Leaf(leaf) => {
                    let class = &self.plan.leaves[usize::from(leaf)];
                    let drop = if class.early_drop { " (dropped here)" } else { "" };
                    let _ = writeln!(self.out, "{indent}{label}class {leaf}{drop}");
                    continue;
                }
                Next::Step(step) => step,
            };
            if !self.shown.insert(step) {
                let _ = writeln!(self.out, "{indent}{label}go on at {step}");
                continue;
            }
            let decision = &self.plan.decision;
            let (text, branches) = branches(decision, &decision.steps()[step as usize]);
            let _ = writeln!(self.out, "{indent}{label}[{step}] {text}");
            for (label, goto) in branches.into_iter().rev() {
                stack.push((depth + 1, label, goto));
            }
        }
    }
}

/// The tree behind a goto, a step a line.
pub(super) fn tree(plan: &Plan, start: Goto) -> String {
    let mut tree = Tree { plan, out: String::new(), shown: HashSet::new(), lines: 0 };
    tree.show(start);
    tree.out
}

/// By leaf: fewest and most steps from any entry.
pub(super) fn distances(plan: &Plan) -> Vec<Option<(usize, usize)>> {
    let steps = plan.decision.steps();
    let mut to_step: Vec<Option<(usize, usize)>> = vec![None; steps.len()];
    let mut to_leaf = vec![None; plan.leaves.len()];
    let nearer = |to: &mut Option<(usize, usize)>, (least, most): (usize, usize)| {
        *to = Some(to.map_or((least, most), |old| (old.0.min(least), old.1.max(most))));
    };
    let mut reach = |to_step: &mut Vec<_>, goto: Goto, distance| match next(goto) {
        Next::Step(step) => nearer(&mut to_step[step as usize], distance),
        Next::Leaf(leaf) => nearer(&mut to_leaf[usize::from(leaf)], distance),
    };
    for entry in &plan.entries {
        reach(&mut to_step, entry.start, (0, 0));
    }
    for step in parents_first(plan) {
        let Some((least, most)) = to_step[step as usize] else { continue };
        for (_, goto) in branches(&plan.decision, &steps[step as usize]).1 {
            reach(&mut to_step, goto, (least + 1, most + 1));
        }
    }
    to_leaf
}

/// All steps, each before those it leads to.
fn parents_first(plan: &Plan) -> Vec<u32> {
    let steps = plan.decision.steps();
    let mut order = Vec::with_capacity(steps.len());
    let mut shared = vec![false; steps.len()];
    let mut stack: Vec<(u32, bool)> = Vec::new();
    for entry in &plan.entries {
        stack.extend(step_at(entry.start).map(|step| (step, false)));
        while let Some((step, done)) = stack.pop() {
            if done {
                order.push(step);
            } else if !std::mem::replace(&mut shared[step as usize], true) {
                stack.push((step, true));
                let branches = branches(&plan.decision, &steps[step as usize]).1;
                stack.extend(
                    branches.into_iter().filter_map(|(_, goto)| Some((step_at(goto)?, false))),
                );
            }
        }
    }
    order.reverse();
    order
}

fn step_at(goto: Goto) -> Option<u32> {
    match next(goto) {
        Next::Step(step) => Some(step),
        Next::Leaf(_) => None,
    }
}
