//! The oracle: evaluates a tree on a packet by walking it.

use crate::NO_MATCH;
use crate::ast::{Expr, Rule};
use crate::key::PacketView;

/// Whether a packet matches an expression.
pub fn matches(expr: &Expr, view: &PacketView<'_>) -> bool {
    match expr {
        Expr::Const(b) => *b,
        Expr::Test(word) => view.passes(word),
        Expr::Not(e) => !matches(e, view),
        Expr::All(list) => list.iter().all(|e| matches(e, view)),
        Expr::Any(list) => list.iter().any(|e| matches(e, view)),
        Expr::Choice(cases, otherwise) => {
            let case = cases.iter().find(|(c, _)| matches(c, view));
            matches(case.map_or(otherwise, |(_, then)| then), view)
        }
    }
}

/// The verdict of the first rule that matches, or [`NO_MATCH`].
pub fn evaluate_naive(rules: &[Rule], view: &PacketView<'_>) -> u32 {
    rules.iter().find(|r| matches(&r.expr, view)).map_or(NO_MATCH, |r| r.output)
}
