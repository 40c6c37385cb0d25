//! From the decision of a chain to a prioritised table.
//!
//! A condition needs no negation: the rules of packets that pass it come first, and those of all
//! others follow, for what passes is dealt with by then. So a decision becomes its ways to a
//! class, one after the other. Where a switch cannot tell whether it holds, a rule of its own
//! leaves the packets to the host.

use std::collections::BTreeMap;

use crate::ast::{self, Expr, Word};
use crate::decision::{Choice, Goto, LeafId, Next, next};
use crate::plan::Plan;

use crate::rule_table::fallback::Fallback;
use crate::rule_table::fields::{Field, Protocol};
use crate::rule_table::guards::{Needs, guards};
use crate::rule_table::matches::Match;
use crate::rule_table::words::{IPV4, IPV6, Passing, packets};
use crate::tags::TagKind;

/// Most rules of a switch that one rule of a chain may become.
const PER_RULE_MAX: usize = 1 << 12;
/// Tables with more rules than this are not searched for needless ones: the time is quadratic.
const SEARCHED_MAX: usize = 1 << 12;

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// It gets the tag of its class, and goes to the host.
    Class(LeafId),
    /// It is dropped, as the chain would drop it: of this class.
    Drop(LeafId),
    /// It goes to the host, which classifies it.
    Software(Fallback),
}

/// A rule: earlier ones come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its packets.
    pub matches: Match,
    /// What happens to them.
    pub verdict: Verdict,
}

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// What the switch speaks.
    pub protocol: Protocol,
    /// Most rules, those before all others besides.
    pub rules_max: usize,
    /// What carries the tags.
    pub tags: TagKind,
}

/// What bounds the rules, whatever takes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The fields there are.
    pub protocol: Protocol,
    /// Most rules.
    pub rules_max: usize,
    /// Most classes that a packet can be found to have.
    pub classes_max: LeafId,
}

impl Wanted {
    fn bounds(&self) -> Bounds {
        let Wanted { protocol, rules_max, tags } = *self;
        Bounds { protocol, rules_max, classes_max: tags.classes() }
    }
}

/// The table of one classifier. Every packet has a rule: the last ones take all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// What carries the tags that they give.
    pub tags: TagKind,
    /// In their order.
    pub rules: Vec<Rule>,
    /// Rules that the others made needless.
    pub needless: usize,
}

impl Table {
    /// The rule of a packet with these values of all fields.
    pub fn rule_of(&self, packet: &[u128; crate::rule_table::fields::FIELDS]) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.matches.holds(packet))
    }

    /// How many rules leave packets to the host, by the reason.
    pub fn fallbacks(&self) -> BTreeMap<Fallback, usize> {
        let mut fallbacks = BTreeMap::new();
        for rule in &self.rules {
            if let Verdict::Software(fallback) = rule.verdict {
                *fallbacks.entry(fallback).or_default() += 1;
            }
        }
        fallbacks
    }
}

/// The table of the classifier whose place among the plan's entries is `entry`; `None` if there is
/// no such entry.
pub fn table(plan: &Plan, entry: usize, wanted: &Wanted) -> Option<Table> {
    let mut rules = unguarded(plan, entry, wanted.bounds())?;
    let mut fields = Vec::new();
    rules.iter_mut().for_each(|rule| rule.verdict = allowed(rule, wanted));
    for rule in &rules {
        fields.extend(Field::ALL.into_iter().filter(|field| rule.matches.looks_at(*field)));
    }
    let needs = Needs {
        protocol: wanted.protocol,
        tags: wanted.tags,
        drops: rules.iter().any(|rule| matches!(rule.verdict, Verdict::Drop(_))),
        sessions: !plan.levels.is_empty(),
        fields,
    };
    let before = guards(&needs).into_iter();
    let before = before
        .map(|(matches, fallback)| Rule { matches, verdict: Verdict::Software(fallback) })
        .collect::<Vec<Rule>>();
    let all = before.len() + rules.len();
    let kept = without_needless(rules);
    let rules = [before, kept].concat();
    Some(Table { tags: wanted.tags, needless: all - rules.len(), rules })
}

/// Whether a packet of a rule's match can have a tag: a label hides which protocol is behind it, so
/// only packets of IP have one.
fn can_have_tag(kind: TagKind, matches: &Match) -> bool {
    kind != TagKind::Mpls || matches!(matches.exact(Field::EthType), Some(IPV4 | IPV6))
}

/// The rules of whole packets without VLAN tags: those of IPv4, of IPv6 without extension headers,
/// and of all others, in this order. `None` if there is no such entry.
pub(crate) fn unguarded(plan: &Plan, entry: usize, bounds: Bounds) -> Option<Vec<Rule>> {
    let start = plan.entries.get(entry)?.start;
    let mut rules = Vec::new();
    let ip = [IPV4, IPV6].map(|ethertype| Match::of(Field::EthType, ethertype));
    for within in ip.into_iter().chain([Match::ANY]) {
        let left = bounds.rules_max.saturating_sub(rules.len());
        let mut walk = Walk { plan, bounds, left, rules: Vec::new() };
        walk.go(start, &within);
        let mut own = walk.rules;
        if own.len() >= left {
            own.truncate(left.saturating_sub(1));
            own.push(Rule { matches: within, verdict: Verdict::Software(Fallback::Limit) });
        }
        rules.extend(own);
    }
    Some(rules)
}

/// A rule's verdict where the switch may give it.
fn allowed(rule: &Rule, wanted: &Wanted) -> Verdict {
    match rule.verdict {
        Verdict::Drop(_) => {}
        Verdict::Class(_) if !can_have_tag(wanted.tags, &rule.matches) => {
            return Verdict::Software(Fallback::NotIp);
        }
        other => return other,
    }
    let ethertype = rule.matches.exact(Field::EthType);
    if ethertype == Some(IPV6) && rule.matches.looks_at(Field::IpProtocol) {
        // Behind extension headers, where the chain's rules do not look.
        return Verdict::Software(Fallback::Extensions);
    }
    if !wanted.protocol.has(Field::IpFragment) && matches!(ethertype, Some(IPV4 | IPV6)) {
        // A chain may know that it is none of the packets that it drops, and the switch does not.
        return Verdict::Software(Fallback::Fragment);
    }
    rule.verdict
}

/// The rules without those whose packets meet the same verdict by later ones.
pub(crate) fn without_needless(rules: Vec<Rule>) -> Vec<Rule> {
    if rules.len() > SEARCHED_MAX {
        return rules;
    }
    let mut kept: Vec<Rule> = Vec::new();
    for rule in rules.into_iter().rev() {
        // In `kept` the next rule is the last.
        let next = kept.iter().rev().find(|later| {
            later.verdict != rule.verdict && later.matches.intersection(&rule.matches).is_some()
                || later.matches.covers(&rule.matches)
        });
        if next.is_none_or(|next| next.verdict != rule.verdict) {
            kept.push(rule);
        }
    }
    kept.reverse();
    kept
}

/// A walk through the decision.
struct Walk<'a> {
    plan: &'a Plan,
    bounds: Bounds,
    /// Most rules that are left.
    left: usize,
    rules: Vec<Rule>,
}

impl Walk<'_> {
    fn push(&mut self, matches: Match, verdict: Verdict) {
        if self.rules.len() < self.left {
            self.rules.push(Rule { matches, verdict });
        }
    }

    fn is_full(&self) -> bool {
        self.rules.len() >= self.left
    }

    /// The rules of the packets that look like `within` from a place of the decision on.
    ///
    /// Calls itself along the ways only; what follows a condition that fails is a loop, so that the
    /// depth is that of conditions that hold, of which each narrows the match.
    fn go(&mut self, start: Goto, within: &Match) {
        let mut at = start;
        loop {
            if self.is_full() {
                return;
            }
            let step = match next(at) {
                Next::Leaf(leaf) => {
                    let verdict = self.verdict(leaf);
                    return self.push(*within, verdict);
                }
                Next::Step(step) => step,
            };
            let plan = self.plan;
            let Some(choice) = plan.decision.choice(step) else { return };
            let rest = match choice {
                Choice::Test { word, yes, no } => self.test(&word, (yes, no), within),
                Choice::Switch { word, branches, otherwise } => {
                    let of = |(value, goto): (u32, Goto)| {
                        (Word::equal(word.base, word.at, word.mask, value), goto)
                    };
                    self.cases(branches.into_iter().map(of), otherwise, within)
                }
                Choice::Rules { rules, outputs, .. } => self.rules(rules, outputs, within),
            };
            match rest {
                Some(rest) => at = rest,
                None => return,
            }
        }
    }

    fn verdict(&self, leaf: LeafId) -> Verdict {
        match self.plan.leaves.get(usize::from(leaf)) {
            Some(class) if class.early_drop => Verdict::Drop(leaf),
            _ if leaf < self.bounds.classes_max => Verdict::Class(leaf),
            _ => Verdict::Software(Fallback::Tags),
        }
    }

    /// A condition: rules of those packets that pass it, or fail it, whichever are fewer. Says
    /// where the others go on; `None` if there are none.
    fn test(&mut self, word: &Word, (yes, no): (Goto, Goto), within: &Match) -> Option<Goto> {
        let of = |passes| packets(word, passes, within, self.bounds.protocol);
        let (passing, failing) = (of(true), of(false));
        // Without a call of its own: nothing narrows the match, so nothing bounds how often.
        if failing.is_empty() {
            return Some(yes);
        }
        let is_sure = failing.iter().all(|one| one.fallback.is_none());
        match is_sure && failing.len() < passing.len() {
            true => self.first(failing, no, within).then_some(yes),
            false => self.first(passing, yes, within).then_some(no),
        }
    }

    /// Conditions of which each packet passes at most one.
    fn cases(
        &mut self,
        cases: impl Iterator<Item = (Word, Goto)>,
        otherwise: Goto,
        within: &Match,
    ) -> Option<Goto> {
        for (word, goto) in cases {
            let passing = packets(&word, true, within, self.bounds.protocol);
            if !self.first(passing, goto, within) {
                return None;
            }
        }
        Some(otherwise)
    }

    /// A list of rules, of which the first that holds counts.
    fn rules(&mut self, rules: &[ast::Rule], outputs: &[Goto], within: &Match) -> Option<Goto> {
        let otherwise = *outputs.last()?;
        for ast::Rule { expr, output, .. } in rules {
            let of_output = outputs.split_last().and_then(|(_, all)| all.get(*output as usize));
            let goto = *of_output.unwrap_or(&otherwise);
            let passing = holding(expr, true, Passing::surely(*within), self.bounds.protocol);
            let passing = passing.unwrap_or_else(|| {
                vec![Passing { matches: *within, fallback: Some(Fallback::TooMany) }]
            });
            if !self.first(passing, goto, within) {
                return None;
            }
        }
        Some(otherwise)
    }

    /// The rules of packets that go on at `goto`. Says whether any of `within` are left.
    fn first(&mut self, packets: Vec<Passing>, goto: Goto, within: &Match) -> bool {
        let mut left = true;
        for Passing { matches, fallback } in packets {
            match fallback {
                None => self.go(goto, &matches),
                Some(fallback) => self.push(matches, Verdict::Software(fallback)),
            }
            left &= !matches.covers(within);
        }
        left && !self.is_full()
    }
}

/// The packets for which an expression holds, or does not; `None` if they are too many matches.
fn holding(expr: &Expr, holds: bool, within: Passing, protocol: Protocol) -> Option<Vec<Passing>> {
    let of = |expr: &Expr, holds, within| holding(expr, holds, within, protocol);
    let found = match expr {
        Expr::Const(value) => (*value == holds).then_some(within).into_iter().collect(),
        Expr::Test(word) => {
            let passing = packets(word, holds, &within.matches, protocol);
            passing
                .into_iter()
                .map(|one| Passing { fallback: one.fallback.or(within.fallback), ..one })
                .collect()
        }
        Expr::Not(expr) => of(expr, !holds, within)?,
        // It is enough that one of them is as wanted.
        Expr::Any(list) if holds => list
            .iter()
            .try_fold(Vec::new(), |found, expr| joined(found, of(expr, true, within)?))?,
        // All hold, or none does.
        Expr::All(list) | Expr::Any(list) if holds == matches!(expr, Expr::All(_)) => {
            list.iter().try_fold(vec![within], |so_far, expr| {
                each_of(&so_far, |one| of(expr, holds, one))
            })?
        }
        // One of all does not hold: the first of them, so that it is read in packets of which is
        // known what is before it.
        Expr::All(list) | Expr::Any(list) => {
            let (mut so_far, mut found) = (vec![within], Vec::new());
            for expr in list {
                found = joined(found, each_of(&so_far, |one| of(expr, false, one))?)?;
                so_far = each_of(&so_far, |one| of(expr, true, one))?;
            }
            found
        }
        Expr::Choice(cases, otherwise) => {
            let (mut so_far, mut found) = (vec![within], Vec::new());
            for (condition, then) in cases {
                let taken = each_of(&so_far, |one| of(condition, true, one))?;
                found = joined(found, each_of(&taken, |one| of(then, holds, one))?)?;
                so_far = each_of(&so_far, |one| of(condition, false, one))?;
            }
            joined(found, each_of(&so_far, |one| of(otherwise, holds, one))?)?
        }
    };
    (found.len() <= PER_RULE_MAX).then_some(found)
}

/// Both, if they are not too many.
fn joined(mut found: Vec<Passing>, more: Vec<Passing>) -> Option<Vec<Passing>> {
    found.extend(more);
    (found.len() <= PER_RULE_MAX).then_some(found)
}

/// The results for each of some packets.
fn each_of(
    packets: &[Passing],
    of: impl Fn(Passing) -> Option<Vec<Passing>>,
) -> Option<Vec<Passing>> {
    packets.iter().try_fold(Vec::new(), |found, one| joined(found, of(*one)?))
}
