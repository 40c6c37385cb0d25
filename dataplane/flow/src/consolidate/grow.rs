//! Grows the decision graph by partial evaluation: each step is a test of some dispatcher's rules
//! with a result that the path to it does not imply.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::facts::Facts;
use super::known::Known;
use super::walk::{Graph, Manner, WalkState};
use crate::NO_MATCH;
use crate::ast::Word;
use crate::general::{Target, verdict};
use crate::plan::{Hop, LEAVES_MAX};

/// Most steps.
pub(super) const STEPS_MAX: usize = 1 << 15;
/// Bounds on memory for states and facts, in words of eight bytes, approximately; and on tests
/// inspected.
const WORK_MAX: usize = 1 << 23;
/// Top bit of a target: a verdict.
const VERDICT: Target = 1 << 31;

/// Where a step leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Branch {
    Step(u32),
    Leaf(u32),
}

/// A step of the graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Draft {
    /// A test.
    Test { word: Word, yes: Branch, no: Branch },
    /// All rules of a dispatcher: where its outputs lead, and everything else.
    Whole { node: u32, outputs: Vec<(u32, Branch)>, otherwise: Branch },
}

impl Draft {
    /// Everywhere it leads.
    pub(super) fn branches(&self) -> Vec<Branch> {
        match self {
            Draft::Test { yes, no, .. } => vec![*yes, *no],
            Draft::Whole { outputs, otherwise, .. } => {
                outputs.iter().map(|(_, branch)| *branch).chain([*otherwise]).collect()
            }
        }
    }

    fn mapped(&self, map: impl Fn(Branch) -> Branch) -> Draft {
        match self {
            Draft::Test { word, yes, no } => {
                Draft::Test { word: *word, yes: map(*yes), no: map(*no) }
            }
            Draft::Whole { node, outputs, otherwise } => Draft::Whole {
                node: *node,
                outputs: outputs.iter().map(|(output, branch)| (*output, map(*branch))).collect(),
                otherwise: map(*otherwise),
            },
        }
    }
}

/// Ends in order of traversal, the first branch of each step first.
fn ends_in_order(starts: &[Branch], steps: &[Draft]) -> Vec<u32> {
    let (mut order, mut shared) = (Vec::new(), HashSet::new());
    let mut stack: Vec<Branch> = starts.iter().rev().copied().collect();
    while let Some(branch) = stack.pop() {
        if !shared.insert(branch) {
            continue;
        }
        match branch {
            Branch::Leaf(leaf) => order.push(leaf),
            Branch::Step(step) => stack.extend(steps[step as usize].branches().into_iter().rev()),
        }
    }
    order
}

/// An end: packets that take one path through the graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct End {
    pub entry: u32,
    pub hops: Vec<(u32, Hop)>,
    pub functions: Vec<u32>,
    pub lost: Vec<(u32, u32)>,
    pub wanted: bool,
}

/// The graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Grown {
    pub steps: Vec<Draft>,
    /// By entry.
    pub starts: Vec<Branch>,
    pub ends: Vec<End>,
}

/// More steps, leaves or work than are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

type Grow<T> = Result<T, TooMuch>;

/// A step to be made: the state it is reached in, the instruction, and the facts.
type Spot = (u32, Target, Facts);

struct Grower<'a, 'b> {
    graph: &'b Graph<'a>,
    states: Vec<Rc<WalkState>>,
    state_ids: HashMap<Rc<WalkState>, u32>,
    decided: HashMap<(u32, u32), u32>,
    spots: Vec<Rc<Spot>>,
    spot_ids: HashMap<Rc<Spot>, u32>,
    ends: Vec<End>,
    end_ids: HashMap<End, u32>,
    work: usize,
}

/// The decision graph of a chain from these entries.
pub(super) fn grow(graph: &Graph<'_>, entries: &[usize]) -> Grow<Grown> {
    let mut grower = Grower {
        graph,
        states: Vec::new(),
        state_ids: HashMap::new(),
        decided: HashMap::new(),
        spots: Vec::new(),
        spot_ids: HashMap::new(),
        ends: Vec::new(),
        end_ids: HashMap::new(),
        work: 0,
    };
    let mut grown = Grown::default();
    for entry in entries {
        let mut state = graph.start(*entry);
        graph.advance(&mut state);
        let state = grower.state(state)?;
        let start = grower.reach(state, None, Facts::default())?;
        grown.starts.push(start);
    }
    // Steps get their numbers when they are first reached; each is made in its turn.
    while grown.steps.len() < grower.spots.len() {
        let spot = Rc::clone(&grower.spots[grown.steps.len()]);
        grown.steps.push(grower.step(&spot)?);
    }
    grown.ends = grower.ends;
    Ok(grown)
}

impl Grower<'_, '_> {
    fn spend(&mut self, work: usize) -> Grow<()> {
        self.work += work;
        if self.work > WORK_MAX { Err(TooMuch) } else { Ok(()) }
    }

    fn state(&mut self, state: WalkState) -> Grow<u32> {
        if let Some(id) = self.state_ids.get(&state) {
            return Ok(*id);
        }
        self.spend(state.weight())?;
        let (id, state) = (self.states.len() as u32, Rc::new(state));
        self.states.push(Rc::clone(&state));
        self.state_ids.insert(state, id);
        Ok(id)
    }

    fn after_verdict(&mut self, state: u32, value: u32) -> Grow<u32> {
        if let Some(id) = self.decided.get(&(state, value)) {
            return Ok(*id);
        }
        let next = self.graph.decided(&self.states[state as usize], value);
        // The walk from one decision to the next may have been long.
        self.spend(next.weight())?;
        let id = self.state(next)?;
        self.decided.insert((state, value), id);
        Ok(id)
    }

    /// The continuation of packets in this state at this instruction (`None`: the first), given
    /// these facts.
    fn reach(&mut self, mut state: u32, target: Option<Target>, facts: Facts) -> Grow<Branch> {
        let mut target = target;
        loop {
            self.spend(1)?;
            let now = Rc::clone(&self.states[state as usize]);
            let rules = now.at.and_then(|visit| self.graph.rules[visit.node as usize].as_ref());
            let Some(rules) = rules else { return self.end(&now) };
            let at = target.unwrap_or(rules.start);
            if at & VERDICT != 0 {
                state = self.after_verdict(state, at & !VERDICT)?;
                target = None;
                continue;
            }
            if rules.manner == Manner::Tests
                && let Some(insn) = rules.program.insn(at)
                && let Some(holds) = facts.decide(&insn.word)
            {
                target = Some(if holds { insn.yes } else { insn.no });
                continue;
            }
            return self.spot(state, at, &facts);
        }
    }

    fn spot(&mut self, state: u32, target: Target, facts: &Facts) -> Grow<Branch> {
        let matters = self.graph.matters(&self.states[state as usize], target);
        let spot = (state, target, facts.about(matters));
        if let Some(id) = self.spot_ids.get(&spot) {
            return Ok(Branch::Step(*id));
        }
        let id = self.spots.len() as u32;
        if self.spots.len() >= STEPS_MAX {
            return Err(TooMuch);
        }
        self.spend(4 + spot.2.weight())?;
        let spot = Rc::new(spot);
        self.spots.push(Rc::clone(&spot));
        self.spot_ids.insert(spot, id);
        Ok(Branch::Step(id))
    }

    fn end(&mut self, state: &WalkState) -> Grow<Branch> {
        let end = End {
            entry: state.entry,
            hops: state.hops.clone(),
            functions: state.functions.clone(),
            lost: state.lost.clone(),
            wanted: state.wanted,
        };
        if let Some(id) = self.end_ids.get(&end) {
            return Ok(Branch::Leaf(*id));
        }
        let id = self.ends.len() as u32;
        if self.ends.len() >= LEAVES_MAX {
            return Err(TooMuch);
        }
        self.spend(state.weight())?;
        self.ends.push(end.clone());
        self.end_ids.insert(end, id);
        Ok(Branch::Leaf(id))
    }

    fn step(&mut self, (state, target, facts): &Spot) -> Grow<Draft> {
        let graph = self.graph;
        let visit = self.states[*state as usize].at.ok_or(TooMuch)?;
        let rules = graph.rules[visit.node as usize].as_ref().ok_or(TooMuch)?;
        if rules.manner == Manner::Tests
            && let Some(insn) = rules.program.insn(*target)
        {
            let yes = self.reach(*state, Some(insn.yes), facts.with(&insn.word, true))?;
            let no = self.reach(*state, Some(insn.no), facts.with(&insn.word, false))?;
            return Ok(Draft::Test { word: insn.word, yes, no });
        }
        let rest = verdict(rules.rest().unwrap_or(NO_MATCH));
        let otherwise = self.reach(*state, Some(rest), facts.clone())?;
        let mut outputs = Vec::new();
        for output in rules.outputs() {
            let implied = rules.implied(output);
            let possible = implied.iter().all(|word| facts.decide(word) != Some(false));
            if possible {
                let facts = implied.iter().fold(facts.clone(), |all, word| all.with(word, true));
                let output = output.min(NO_MATCH);
                outputs.push((output, self.reach(*state, Some(verdict(output)), facts)?));
            }
        }
        Ok(Draft::Whole { node: visit.node, outputs, otherwise })
    }
}

impl Grown {
    /// Removes redundancy: merges equal steps, and drops a step if all its branches are the same.
    /// Then each step comes before those it leads to.
    pub(super) fn tidy(self) -> Grown {
        let order = self.order();
        let mut new: Vec<Branch> = vec![Branch::Leaf(0); self.steps.len()];
        let mut ids: HashMap<Draft, u32> = HashMap::new();
        let mut steps: Vec<Draft> = Vec::new();
        for old in order {
            let map = |branch: Branch| match branch {
                Branch::Step(step) => new[step as usize],
                leaf @ Branch::Leaf(_) => leaf,
            };
            let draft = self.steps[old as usize].mapped(map);
            let branches = draft.branches();
            if branches.iter().all(|branch| *branch == branches[0]) {
                new[old as usize] = branches[0];
                continue;
            }
            let id = *ids.entry(draft.clone()).or_insert_with(|| {
                steps.push(draft);
                steps.len() as u32 - 1
            });
            new[old as usize] = Branch::Step(id);
        }
        self.renumbered(steps, &new)
    }

    /// Children come first in `steps`: turns them round. Ends get their numbers in the order in
    /// of a traversal that tries "yes" first; unreachable ones are left out.
    fn renumbered(self, steps: Vec<Draft>, new: &[Branch]) -> Grown {
        let last = steps.len() as u32;
        let turned = |branch: Branch| match branch {
            Branch::Step(step) => Branch::Step(last - 1 - step),
            leaf @ Branch::Leaf(_) => leaf,
        };
        let starts = self.starts.iter().map(|branch| match branch {
            Branch::Step(step) => turned(new[*step as usize]),
            leaf @ Branch::Leaf(_) => *leaf,
        });
        let starts: Vec<Branch> = starts.collect();
        let steps: Vec<Draft> = steps.iter().rev().map(|draft| draft.mapped(turned)).collect();
        let order = ends_in_order(&starts, &steps);
        let mut number = vec![0; self.ends.len()];
        for (new, old) in order.iter().enumerate() {
            number[*old as usize] = new as u32;
        }
        let renamed = |branch: Branch| match branch {
            Branch::Leaf(leaf) => Branch::Leaf(number[leaf as usize]),
            step @ Branch::Step(_) => step,
        };
        Grown {
            steps: steps.iter().map(|draft| draft.mapped(renamed)).collect(),
            starts: starts.into_iter().map(renamed).collect(),
            ends: order.into_iter().map(|end| self.ends[end as usize].clone()).collect(),
        }
    }

    /// Splits an end by one more test: packets that pass it get an end of their own.
    pub(super) fn split(&mut self, end: usize, word: Word) {
        let (old, new) = (Branch::Leaf(end as u32), Branch::Leaf(self.ends.len() as u32));
        let test = Branch::Step(self.steps.len() as u32);
        let redirected = |branch: Branch| if branch == old { test } else { branch };
        self.starts.iter_mut().for_each(|branch| *branch = redirected(*branch));
        self.steps.iter_mut().for_each(|draft| *draft = draft.mapped(redirected));
        self.steps.push(Draft::Test { word, yes: new, no: old });
        self.ends.push(self.ends[end].clone());
    }

    /// All steps, each after those that it leads to.
    fn order(&self) -> Vec<u32> {
        let mut order = Vec::with_capacity(self.steps.len());
        let mut shared = vec![false; self.steps.len()];
        let mut stack: Vec<(u32, bool)> = Vec::new();
        for start in self.starts.iter().rev() {
            if let Branch::Step(step) = start {
                stack.push((*step, false));
            }
            while let Some((step, done)) = stack.pop() {
                if done {
                    order.push(step);
                    continue;
                }
                if std::mem::replace(&mut shared[step as usize], true) {
                    continue;
                }
                stack.push((step, true));
                for branch in self.steps[step as usize].branches().into_iter().rev() {
                    if let Branch::Step(next) = branch {
                        stack.push((next, false));
                    }
                }
            }
        }
        order
    }

    /// By end: the facts about its packets. The steps must be in order ([`Grown::tidy`]).
    pub(super) fn known(&self, graph: &Graph<'_>) -> Vec<Known> {
        let mut steps: Vec<Option<Known>> = vec![None; self.steps.len()];
        let mut ends: Vec<Option<Known>> = vec![None; self.ends.len()];
        let mut add = |steps: &mut Vec<Option<Known>>, branch: Branch, known: Known| {
            let to = match branch {
                Branch::Step(step) => &mut steps[step as usize],
                Branch::Leaf(leaf) => &mut ends[leaf as usize],
            };
            match to {
                Some(so_far) => so_far.join(known),
                None => *to = Some(known),
            }
        };
        for start in &self.starts {
            add(&mut steps, *start, Known::nothing());
        }
        for (at, draft) in self.steps.iter().enumerate() {
            let Some(known) = steps[at].take() else { continue };
            match draft {
                Draft::Test { word, yes, no } => {
                    add(&mut steps, *yes, known.after(word, true));
                    add(&mut steps, *no, known.after(word, false));
                }
                Draft::Whole { node, outputs, otherwise } => {
                    let rules = graph.rules[*node as usize].as_ref();
                    for (output, branch) in outputs {
                        let words = rules.map(|rules| rules.implied(*output)).unwrap_or_default();
                        let known = words.iter().fold(known.clone(), |all, w| all.after(w, true));
                        add(&mut steps, *branch, known);
                    }
                    add(&mut steps, *otherwise, known);
                }
            }
        }
        ends.into_iter().map(|known| known.unwrap_or_else(Known::nothing)).collect()
    }
}
