//! From the grown graph to the structure that packets go through.

use std::collections::HashMap;

use super::grow::{Branch, Draft, Grown};
use super::walk::Graph;
use crate::ast::{Base, Word};
use crate::decision::{Decision, Goto, RuleProgram, SWITCH_MIN, Step, to_leaf};
use crate::error::CompileError;
use crate::pattern::PatternProgram;
use crate::plan::LeafId;
use crate::program::IpProgram;

type Field = (Base, u16, u32);

/// Several tests of one field in a row, as one switch.
struct Chain {
    field: Field,
    branches: Vec<(u32, Branch)>,
    otherwise: Branch,
}

fn equality(draft: &Draft) -> Option<(Field, u32, Branch, Branch)> {
    match draft {
        Draft::Test { word: Word { base, at, mask, lo, hi }, yes, no }
            if lo == hi && lo & !mask == 0 && *mask != 0 =>
        {
            Some(((*base, *at, *mask), *lo, *yes, *no))
        }
        _ => None,
    }
}

/// The tests that follow each other from a step on, if they are enough for a switch.
fn chain(grown: &Grown, step: u32) -> Option<Chain> {
    let (field, value, yes, no) = equality(&grown.steps[step as usize])?;
    let mut chain = Chain { field, branches: vec![(value, yes)], otherwise: no };
    while let Branch::Step(next) = chain.otherwise
        && let Some((same, value, yes, no)) = equality(&grown.steps[next as usize])
        && same == field
    {
        // A value that was tested before cannot come here.
        if chain.branches.iter().all(|(old, _)| *old != value) {
            chain.branches.push((value, yes));
        }
        chain.otherwise = no;
    }
    (chain.branches.len() >= SWITCH_MIN).then_some(chain)
}

struct Compiler<'a, 'b> {
    graph: &'b Graph<'a>,
    grown: &'b Grown,
    decision: Decision,
    steps: HashMap<u32, Goto>,
    todo: Vec<(u32, Goto)>,
    programs: HashMap<u32, u32>,
}

/// Compiles the graph; also returns the start of each entry.
///
/// # Errors
/// The node with too many rules, and why.
pub(super) fn compile(
    graph: &Graph<'_>,
    grown: &Grown,
) -> Result<(Decision, Vec<Goto>), (u32, CompileError)> {
    let (steps, programs, todo) = (HashMap::new(), HashMap::new(), Vec::new());
    let decision = Decision::default();
    let mut compiler = Compiler { graph, grown, decision, steps, todo, programs };
    let starts: Vec<Goto> = grown.starts.iter().map(|branch| compiler.goto(*branch)).collect();
    while let Some((step, at)) = compiler.todo.pop() {
        let made = compiler.step(step)?;
        compiler.decision.set(at, made);
    }
    Ok((compiler.decision, starts))
}

impl Compiler<'_, '_> {
    /// The target of a branch; a step that is reached for the first time gets the next place, so
    /// that consecutive steps are near.
    fn goto(&mut self, branch: Branch) -> Goto {
        let step = match branch {
            Branch::Leaf(leaf) => return to_leaf(leaf as LeafId),
            Branch::Step(step) => step,
        };
        if let Some(at) = self.steps.get(&step) {
            return *at;
        }
        let nothing = Word::equal(Base::Frame, 0, 0, 0);
        let at = self.decision.push(Step::Test { word: nothing, yes: to_leaf(0), no: to_leaf(0) });
        self.steps.insert(step, at);
        self.todo.push((step, at));
        at
    }

    fn step(&mut self, step: u32) -> Result<Step, (u32, CompileError)> {
        if let Some(chain) = chain(self.grown, step) {
            let branches: Vec<(u32, Goto)> =
                chain.branches.iter().map(|(value, branch)| (*value, self.goto(*branch))).collect();
            let otherwise = self.goto(chain.otherwise);
            return Ok(self.decision.switch_step(chain.field, &branches, otherwise));
        }
        match &self.grown.steps[step as usize] {
            Draft::Test { word, yes, no } => {
                Ok(Step::Test { word: *word, yes: self.goto(*yes), no: self.goto(*no) })
            }
            Draft::Whole { node, outputs, otherwise } => {
                let program = self.program(*node)?;
                let known = self.graph.chain.nodes[*node as usize].outputs.len();
                let highest =
                    outputs.iter().map(|(output, _)| *output as usize).filter(|o| *o < known);
                let len = highest.max().map_or(0, |output| output + 1);
                let otherwise = self.goto(*otherwise);
                let mut by_verdict = vec![otherwise; len + 1];
                for (output, branch) in outputs {
                    if (*output as usize) < len {
                        by_verdict[*output as usize] = self.goto(*branch);
                    }
                }
                Ok(self.decision.run_step(program, &by_verdict))
            }
        }
    }

    fn program(&mut self, node: u32) -> Result<u32, (u32, CompileError)> {
        if let Some(program) = self.programs.get(&node) {
            return Ok(*program);
        }
        let rules = self.graph.rules[node as usize].as_ref();
        let list = rules.map(|rules| rules.list).unwrap_or_default();
        let located = |error| (node, error);
        let only_frame = rules.is_some_and(|rules| rules.only_frame());
        let program = if only_frame {
            RuleProgram::Pattern(PatternProgram::compile(list).map_err(located)?)
        } else {
            RuleProgram::Ip(Box::new(IpProgram::compile(list).map_err(located)?))
        };
        let program = self.decision.add_program(node, program, list);
        self.programs.insert(node, program);
        Ok(program)
    }
}
