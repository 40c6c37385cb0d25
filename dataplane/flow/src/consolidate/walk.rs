//! The path of packets through the graph, from one decision to the next.

use std::collections::VecDeque;

use crate::ast::{Base, Expr, Rule, Word};
use crate::chain::{Chain, Changes, Node, Role};
use crate::general::{Program, Target, verdict};
use crate::plan::Hop;
use crate::{DROP, NO_MATCH};

/// Most different words (base and offset) that are distinguished when facts are forgotten.
const OFFSETS_MAX: usize = 128;

/// Most tests inspected to find the implications of a verdict.
const REQUIRED_MAX: usize = 32;

/// How a dispatcher's rules become part of the decision structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Test by test, so that facts simplify them.
    Tests,
    /// As one step that runs the compiled list.
    Whole,
    /// Not at all: it looks at packets itself.
    InPlace,
}

/// A dispatcher's rules, flattened.
#[derive(Debug)]
pub(super) struct Rules<'a> {
    pub list: &'a [Rule],
    pub program: Program,
    pub start: Target,
    /// Whether a test looks at the frame's bytes.
    pub frame: bool,
    pub manner: Manner,
    /// By instruction: the words that tests from there on look at, a bit each.
    words_from: Vec<u128>,
}

/// A node that packets come to, by an input, and the changes on their path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Visit {
    pub node: u32,
    pub input: u32,
    pub changed: Changes,
}

/// The progress on a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct WalkState {
    pub entry: u32,
    pending: VecDeque<Visit>,
    /// Visited inputs, a bit each.
    shared: Vec<u64>,
    /// Where the packets of dispatchers go, by node.
    pub hops: Vec<(u32, Hop)>,
    /// Functions with a demand that they come to while sessions hold.
    pub functions: Vec<u32>,
    /// Nodes that they reach after they may have become other packets.
    pub lost: Vec<(u32, u32)>,
    /// Whether anybody wants or counts them.
    pub wanted: bool,
    /// The dispatcher that decides next.
    pub at: Option<Visit>,
    /// The last node that made other packets of them.
    changer: u32,
}

impl WalkState {
    pub(super) fn weight(&self) -> usize {
        8 + self.shared.len() + (self.pending.len() + self.hops.len() + self.functions.len()) * 2
    }

    fn set_hop(&mut self, node: u32, hop: Hop) {
        match self.hops.binary_search_by_key(&node, |hop| hop.0) {
            // Met twice, once behind a change: only a look at the packet is right both times.
            Ok(at) if hop == Hop::InPlace => self.hops[at].1 = hop,
            Ok(_) => {}
            Err(at) => self.hops.insert(at, (node, hop)),
        }
    }
}

/// A chain, prepared for walking.
pub(super) struct Graph<'a> {
    pub chain: &'a Chain,
    /// By node: of dispatchers.
    pub rules: Vec<Option<Rules<'a>>>,
    /// By node: the first bit of its places in [`WalkState::shared`].
    bits: Vec<usize>,
    /// By node: words that dispatchers at and behind it test.
    words_behind: Vec<u128>,
    offsets: Vec<(Base, u16)>,
}

impl<'a> Graph<'a> {
    pub(super) fn new(chain: &'a Chain, manner: impl Fn(usize, usize) -> Manner) -> Graph<'a> {
        let mut offsets = Vec::new();
        let mut bits = vec![0];
        let mut rules = Vec::new();
        for (at, node) in chain.nodes.iter().enumerate() {
            bits.push(bits[at] + node.passes.len().max(1) * 4);
            rules.push(match &node.role {
                Role::Dispatcher(list) => {
                    Some(Rules::new(list, &mut offsets, |tests| manner(at, tests)))
                }
                _ => None,
            });
        }
        let mut graph = Graph { chain, rules, bits, words_behind: Vec::new(), offsets };
        graph.words_behind = graph.reach();
        graph
    }

    /// Words that dispatchers at and behind each node test: found by going round until nothing is
    /// added, which takes as many rounds as the graph is long.
    fn reach(&self) -> Vec<u128> {
        let own = |rules: &Option<Rules<'_>>| {
            rules.as_ref().map_or(0, |rules| rules.words_from(rules.start))
        };
        let mut words: Vec<u128> = self.rules.iter().map(own).collect();
        let mut sources: Vec<Vec<usize>> = vec![Vec::new(); words.len()];
        for (from, node) in self.chain.nodes.iter().enumerate() {
            for (to, _) in node.outputs.iter().flatten() {
                if let Some(list) = sources.get_mut(*to) {
                    list.push(from);
                }
            }
        }
        let mut changed: Vec<usize> = (0..words.len()).collect();
        while let Some(node) = changed.pop() {
            for source in &sources[node] {
                let with = words[*source] | words[node];
                if with != words[*source] {
                    words[*source] = with;
                    changed.push(*source);
                }
            }
        }
        words
    }

    /// How many lists are run as a whole.
    pub(super) fn wholes(&self) -> usize {
        self.rules.iter().flatten().filter(|rules| rules.manner == Manner::Whole).count()
    }

    /// Whether a word is tested from here on.
    pub(super) fn matters(&self, state: &WalkState, target: Target) -> impl Fn(Base, u16) -> bool {
        let current = state.at.and_then(|visit| {
            let rules = self.rules[visit.node as usize].as_ref()?;
            Some(rules.words_from(target) | self.words_behind_outputs(visit.node as usize))
        });
        let pending = state.pending.iter().map(|visit| self.words_behind[visit.node as usize]);
        let words = pending.fold(current.unwrap_or(0), |all, words| all | words);
        move |base, at| words & self.bit(base, at) != 0
    }

    fn words_behind_outputs(&self, node: usize) -> u128 {
        let outputs = self.chain.nodes[node].outputs.iter().flatten();
        outputs.fold(0, |all, (to, _)| all | self.words_behind.get(*to).copied().unwrap_or(0))
    }

    fn bit(&self, base: Base, at: u16) -> u128 {
        bit_of(&self.offsets, base, at)
    }

    pub(super) fn start(&self, entry: usize) -> WalkState {
        let mut state = WalkState {
            entry: entry as u32,
            pending: VecDeque::new(),
            shared: vec![0; self.bits[self.bits.len() - 1].div_ceil(64)],
            hops: Vec::new(),
            functions: Vec::new(),
            lost: Vec::new(),
            wanted: false,
            at: None,
            changer: entry as u32,
        };
        for output in 0..self.chain.nodes[entry].outputs.len() {
            self.follow(&mut state, entry, Changes::Nothing, output);
        }
        state
    }

    fn follow(&self, state: &mut WalkState, from: usize, changed: Changes, output: usize) {
        let Some(Some((node, input))) = self.chain.nodes[from].outputs.get(output) else { return };
        let Some(to) = self.chain.nodes.get(*node) else { return };
        let input = (*input).min(to.passes.len().saturating_sub(1));
        let bit = self.bits[*node] + input * 4 + changed as usize;
        if state.shared[bit / 64] >> (bit % 64) & 1 == 0 {
            state.shared[bit / 64] |= 1 << (bit % 64);
            let visit = Visit { node: *node as u32, input: input as u32, changed };
            state.pending.push_back(visit);
        }
    }

    /// Advances to the next dispatcher that decides ([`WalkState::at`]), or to the end of all
    /// paths.
    pub(super) fn advance(&self, state: &mut WalkState) {
        state.at = None;
        while let Some(visit) = state.pending.pop_front() {
            let node = &self.chain.nodes[visit.node as usize];
            match &node.role {
                // Classification starts again there.
                Role::Entry => state.wanted = true,
                Role::Function => self.pass(state, visit, node),
                Role::Dispatcher(_) => {
                    state.wanted |= node.counts;
                    if self.decides(visit) {
                        state.at = Some(visit);
                        return;
                    }
                    state.wanted = true;
                    state.set_hop(visit.node, Hop::InPlace);
                    self.ask(state, visit, node);
                    self.leave_by_all(state, visit, node);
                }
            }
        }
    }

    /// Whether a dispatcher's rules can be decided before packets reach it by this path.
    fn decides(&self, visit: Visit) -> bool {
        let rules = self.rules[visit.node as usize].as_ref();
        rules.is_some_and(|rules| match visit.changed {
            _ if rules.manner == Manner::InPlace => false,
            Changes::Nothing => true,
            Changes::Frame => !rules.frame,
            Changes::Headers | Changes::Everything => false,
        })
    }

    fn pass(&self, state: &mut WalkState, visit: Visit, node: &Node) {
        let passes = node.passes.get(visit.input as usize);
        let ends = passes.is_none_or(|outputs| outputs.is_empty());
        state.wanted |= ends || node.counts || node.demand.is_some();
        self.ask(state, visit, node);
        if node.changes == Changes::Everything && visit.changed < Changes::Everything {
            state.changer = visit.node;
        }
        self.leave_by_all(state, visit, node);
    }

    /// Notes the session that a node wants.
    fn ask(&self, state: &mut WalkState, visit: Visit, node: &Node) {
        if node.demand.is_none() {
            return;
        }
        if visit.changed == Changes::Everything {
            state.lost.push((visit.node, state.changer));
        } else if !state.functions.contains(&visit.node) {
            state.functions.push(visit.node);
        }
    }

    fn leave_by_all(&self, state: &mut WalkState, visit: Visit, node: &Node) {
        let changed = visit.changed.max(node.changes);
        for output in node.passes.get(visit.input as usize).into_iter().flatten() {
            self.follow(state, visit.node as usize, changed, *output);
        }
    }

    /// The state after the dispatcher at hand has given a verdict.
    pub(super) fn decided(&self, state: &WalkState, verdict: u32) -> WalkState {
        let mut state = state.clone();
        let Some(visit) = state.at.take() else { return state };
        let node = &self.chain.nodes[visit.node as usize];
        let output = u16::try_from(verdict).ok().filter(|at| usize::from(*at) < node.outputs.len());
        state.set_hop(visit.node, output.map_or(Hop::Drop, Hop::Output));
        if let Some(output) = output {
            self.ask(&mut state, visit, node);
            let changed = visit.changed.max(node.changes);
            self.follow(&mut state, visit.node as usize, changed, usize::from(output));
        }
        self.advance(&mut state);
        state
    }
}

fn bit_of(offsets: &[(Base, u16)], base: Base, at: u16) -> u128 {
    let found = offsets.iter().position(|visit| *visit == (base, at));
    1 << found.unwrap_or(OFFSETS_MAX - 1)
}

impl<'a> Rules<'a> {
    fn new(
        list: &'a [Rule],
        offsets: &mut Vec<(Base, u16)>,
        manner: impl Fn(usize) -> Manner,
    ) -> Rules<'a> {
        let tests: usize = list.iter().map(|rule| tests_in(&rule.expr)).sum();
        let manner = manner(tests);
        let mut program = Program::default();
        let mut start = verdict(NO_MATCH);
        for rule in list.iter().rev() {
            start = program.add(&rule.expr, verdict(rule.output.min(NO_MATCH)), start);
        }
        let mut words_from: Vec<u128> = Vec::with_capacity(program.len());
        let mut frame = false;
        // Jumps go to instructions emitted before.
        for at in 0..program.len() as Target {
            let Some(insn) = program.insn(at) else { break };
            let visit = (insn.word.base, insn.word.at);
            if !offsets.contains(&visit) && offsets.len() < OFFSETS_MAX {
                offsets.push(visit);
            }
            frame |= insn.word.base == Base::Frame;
            let behind = |target: Target| words_from.get(target as usize).copied().unwrap_or(0);
            let bit = bit_of(offsets, visit.0, visit.1);
            let words = bit | behind(insn.yes) | behind(insn.no);
            words_from.push(words);
        }
        Rules { list, program, start, frame, manner, words_from }
    }

    fn words_from(&self, target: Target) -> u128 {
        self.words_from.get(target as usize).copied().unwrap_or(0)
    }

    /// Tests that hold for certain where the whole list gives this verdict.
    pub(super) fn implied(&self, wanted: u32) -> Vec<Word> {
        let matching = self.list.iter().filter(|rule| rule.output.min(NO_MATCH) == wanted);
        let mut common: Option<Vec<Word>> = None;
        for rule in matching {
            let own = required(&rule.expr);
            common = Some(match common {
                Some(words) => words.into_iter().filter(|word| own.contains(word)).collect(),
                None => own,
            });
        }
        if wanted == NO_MATCH || wanted == DROP { Vec::new() } else { common.unwrap_or_default() }
    }

    /// Whether all tests look at the frame's bytes.
    pub(super) fn only_frame(&self) -> bool {
        let insns = (0..self.program.len() as Target).filter_map(|at| self.program.insn(at));
        insns.map(|insn| insn.word.base).all(|base| base == Base::Frame)
    }

    /// The verdict of packets that no rule with a condition matches, if there is a rule for all.
    pub(super) fn rest(&self) -> Option<u32> {
        let last = self.list.iter().find(|rule| rule.expr == Expr::Const(true));
        last.map(|rule| rule.output.min(NO_MATCH))
    }

    /// Outputs that rules name, sorted.
    pub(super) fn outputs(&self) -> Vec<u32> {
        let mut outputs: Vec<u32> = self.list.iter().map(|rule| rule.output).collect();
        outputs.sort_unstable();
        outputs.dedup();
        outputs
    }
}

/// Tests that hold wherever an expression does.
fn required(expr: &Expr) -> Vec<Word> {
    match expr {
        Expr::Test(word) => vec![*word],
        Expr::All(list) => list.iter().flat_map(required).take(REQUIRED_MAX).collect(),
        Expr::Any(list) => {
            let mut common = list.first().map(required).unwrap_or_default();
            for other in list.iter().skip(1).map(required) {
                common.retain(|word| other.contains(word));
            }
            common
        }
        Expr::Const(_) | Expr::Not(_) | Expr::Choice(..) => Vec::new(),
    }
}

/// Number of tests in an expression.
fn tests_in(expr: &Expr) -> usize {
    match expr {
        Expr::Const(_) => 0,
        Expr::Test(_) => 1,
        Expr::Not(e) => tests_in(e),
        Expr::All(list) | Expr::Any(list) => list.iter().map(tests_in).sum(),
        Expr::Choice(cases, otherwise) => {
            let cases = cases.iter().map(|(c, then)| tests_in(c) + tests_in(then));
            cases.sum::<usize>() + tests_in(otherwise)
        }
    }
}
