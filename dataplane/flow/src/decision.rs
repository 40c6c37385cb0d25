//! The decision structure that consolidation ends in: conditions, switches and compiled rule lists,
//! in an acyclic graph with leaves as its ends.

use crate::IpProgram;
use crate::ast::{Base, Rule, Word};
use crate::common::Common;
use crate::key::PacketView;
use crate::pattern::PatternProgram;
use std::collections::BTreeSet;

/// A place in [`Plan::leaves`](crate::plan::Plan::leaves).
pub type LeafId = u16;

/// A target: a step's index, or (top bit set) a leaf.
pub type Goto = u32;
const LEAF: Goto = 1 << 31;
const EMPTY: Goto = Goto::MAX;
/// Largest table of a dense switch.
const DENSE_MAX: u32 = 1 << 12;
/// Fewer values than this are tested one by one.
pub(crate) const SWITCH_MIN: usize = 3;

/// The goto of a leaf.
pub(crate) fn to_leaf(leaf: LeafId) -> Goto {
    LEAF | Goto::from(leaf)
}

/// Where a goto leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another step.
    Step(u32),
    /// The end.
    Leaf(LeafId),
}

/// Reads a goto.
pub fn next(goto: Goto) -> Next {
    if goto & LEAF == 0 { Next::Step(goto) } else { Next::Leaf(goto as LeafId) }
}

/// The decision at a step.
#[derive(Clone, Debug)]
pub enum Choice<'a> {
    /// Whether a condition holds.
    Test {
        /// The condition.
        word: Word,
        /// Where packets go for which it holds.
        yes: Goto,
        /// Where all others go.
        no: Goto,
    },
    /// Which value a masked word has.
    Switch {
        /// The word; its bounds mean nothing.
        word: Word,
        /// Distinct values, in order, and where their packets go.
        branches: Vec<(u32, Goto)>,
        /// Target of packets with other values, and of those that are too short.
        otherwise: Goto,
    },
    /// Which of a node's rules is the first that holds.
    Rules {
        /// The node: a [`Dispatcher`](crate::chain::Role::Dispatcher) of the plan's chain.
        node: u32,
        /// Its rules.
        rules: &'a [Rule],
        /// By the rule's output; the last for all other packets.
        outputs: &'a [Goto],
    },
}

/// A rule list that is run as a whole.
#[derive(Clone, Debug)]
pub(crate) enum RuleProgram {
    /// Only the frame's bytes are tested.
    Pattern(PatternProgram),
    /// IP rules.
    Ip(Box<IpProgram>),
}

/// Several equality tests of one masked word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switch {
    pub word: Word,
    /// Of a dense table: bits below the mask. Of a hashed one: 32 less the table's bits.
    shift: u8,
    dense: bool,
    first: u32,
    /// Entries of the table.
    len: u32,
    otherwise: Goto,
}

/// One step of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A condition.
    Test { word: Word, yes: Goto, no: Goto },
    /// Many branches.
    Switch(Switch),
    /// A compiled rule list; its verdicts are looked up from `first` on, `len` of them, the last
    /// for all others.
    Run { program: u32, first: u32, len: u32 },
}

/// The structure.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    steps: Vec<Step>,
    /// Each with the node that defines its rules, and these.
    programs: Vec<(u32, RuleProgram, Vec<Rule>)>,
    /// Of dense switches by value, of runs by verdict.
    gotos: Vec<Goto>,
    /// Of hashed switches; where no value is, the goto is [`EMPTY`].
    slots: Vec<(u32, Goto)>,
}

fn hash(value: u32, shift: u8) -> usize {
    (value.wrapping_mul(0x9e37_79b1) >> shift) as usize
}

impl Decision {
    /// The leaf of a packet, from a starting point. Looks at no more steps than there are.
    #[inline]
    pub fn classify(&self, start: Goto, view: &PacketView<'_>) -> LeafId {
        let mut at = start;
        while at & LEAF == 0 {
            at = match &self.steps[at as usize] {
                Step::Test { word, yes, no } => {
                    if view.passes(word) {
                        *yes
                    } else {
                        *no
                    }
                }
                Step::Switch(switch) => self.choose(switch, view),
                Step::Run { program, first, len } => self.run(*program, (*first, *len), view),
            };
        }
        at as LeafId
    }

    /// Whether the leaf of a packet is that of all packets of its direction of a session.
    pub fn is_common(&self, start: Goto, view: &PacketView<'_>, common: Common) -> bool {
        let mut at = start;
        while at & LEAF == 0 {
            let (is_common, next) = match &self.steps[at as usize] {
                Step::Test { word, yes, no } => {
                    (common.has(word), if view.passes(word) { *yes } else { *no })
                }
                Step::Switch(switch) => (common.has(&switch.word), self.choose(switch, view)),
                Step::Run { program, first, len } => {
                    let is_common = match &self.programs[*program as usize].1 {
                        RuleProgram::Pattern(program) => program.is_common(view, common),
                        RuleProgram::Ip(program) => program.is_common(view, common),
                    };
                    (is_common, self.run(*program, (*first, *len), view))
                }
            };
            if !is_common {
                return false;
            }
            at = next;
        }
        true
    }

    #[inline]
    fn choose(&self, switch: &Switch, view: &PacketView<'_>) -> Goto {
        let Some(value) = view.word(&switch.word) else { return switch.otherwise };
        if switch.dense {
            // The mask bounds the value, so the table has an entry for it.
            return self.gotos[(switch.first + (value >> switch.shift)) as usize];
        }
        let slots = &self.slots[switch.first as usize..(switch.first + switch.len) as usize];
        let mut slot = hash(value, switch.shift);
        loop {
            // At most half of the slots are taken, so an empty one ends this.
            let (found, goto) = slots[slot];
            if goto == EMPTY {
                return switch.otherwise;
            }
            if found == value {
                return goto;
            }
            slot = (slot + 1) & (slots.len() - 1);
        }
    }

    fn run(&self, program: u32, (first, len): (u32, u32), view: &PacketView<'_>) -> Goto {
        let verdict = match &self.programs[program as usize].1 {
            RuleProgram::Pattern(program) => program.classify_view(view),
            RuleProgram::Ip(program) => program.classify(view),
        };
        self.gotos[(first + verdict.min(len - 1)) as usize]
    }

    pub(crate) fn push(&mut self, step: Step) -> Goto {
        self.steps.push(step);
        (self.steps.len() - 1) as Goto
    }

    pub(crate) fn set(&mut self, at: Goto, step: Step) {
        self.steps[at as usize] = step;
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// A compiled rule list.
    pub(crate) fn program(&self, program: u32) -> &RuleProgram {
        &self.programs[program as usize].1
    }

    pub(crate) fn add_program(&mut self, node: u32, program: RuleProgram, rules: &[Rule]) -> u32 {
        self.programs.push((node, program, rules.to_vec()));
        (self.programs.len() - 1) as u32
    }

    /// A step that runs a program: `by_verdict` has one goto for each output, then one for the
    /// rest.
    pub(crate) fn run_step(&mut self, program: u32, by_verdict: &[Goto]) -> Step {
        let first = self.gotos.len() as u32;
        self.gotos.extend_from_slice(by_verdict);
        Step::Run { program, first, len: by_verdict.len() as u32 }
    }

    /// A switch over distinct values of a masked word; values outside the mask are left out.
    pub(crate) fn switch_step(
        &mut self,
        (base, at, mask): (Base, u16, u32),
        branches: &[(u32, Goto)],
        otherwise: Goto,
    ) -> Step {
        let word = Word { base, at, mask, lo: 0, hi: mask };
        let shift = mask.trailing_zeros().min(31) as u8;
        if mask >> shift < DENSE_MAX {
            let (first, len) = (self.gotos.len() as u32, (mask >> shift) + 1);
            self.gotos.resize(self.gotos.len() + len as usize, otherwise);
            for (value, goto) in branches.iter().filter(|(value, _)| value & !mask == 0) {
                self.gotos[(first + (value >> shift)) as usize] = *goto;
            }
            return Step::Switch(Switch { word, shift, dense: true, first, len, otherwise });
        }
        let bits = (branches.len() * 2).next_power_of_two().trailing_zeros().max(1);
        let (first, len, shift) = (self.slots.len() as u32, 1 << bits, (32 - bits) as u8);
        self.slots.resize(self.slots.len() + len as usize, (0, EMPTY));
        for (value, goto) in branches {
            let mut slot = hash(*value, shift);
            while self.slots[first as usize + slot].1 != EMPTY {
                slot = (slot + 1) & (len as usize - 1);
            }
            self.slots[first as usize + slot] = (*value, *goto);
        }
        Step::Switch(Switch { word, shift, dense: false, first, len, otherwise })
    }

    /// The values of a switch that lead elsewhere than its default, in order, and the default.
    pub(crate) fn branches(&self, switch: &Switch) -> (Vec<(u32, Goto)>, Goto) {
        let table = switch.first as usize..(switch.first + switch.len) as usize;
        let mut branches: Vec<(u32, Goto)> = if switch.dense {
            let values = (0_u32..).map(|value| value << switch.shift);
            values.zip(self.gotos[table].iter().copied()).collect()
        } else {
            self.slots[table].iter().copied().filter(|slot| slot.1 != EMPTY).collect()
        };
        branches.retain(|(_, goto)| *goto != switch.otherwise);
        branches.sort_unstable();
        (branches, switch.otherwise)
    }

    /// The decision at a step, for a compiler of rules for another device; `None` if there is no
    /// such step.
    pub fn choice(&self, step: u32) -> Option<Choice<'_>> {
        Some(match self.steps.get(step as usize)? {
            Step::Test { word, yes, no } => Choice::Test { word: *word, yes: *yes, no: *no },
            Step::Switch(switch) => {
                let (branches, otherwise) = self.branches(switch);
                Choice::Switch { word: switch.word, branches, otherwise }
            }
            Step::Run { program, first, len } => {
                let (node, _, rules) = self.programs.get(*program as usize)?;
                let outputs = self.verdicts(*first, *len);
                Choice::Rules { node: *node, rules, outputs }
            }
        })
    }

    /// The target of each verdict of a run; the last one holds for all others.
    pub(crate) fn verdicts(&self, first: u32, len: u32) -> &[Goto] {
        &self.gotos[first as usize..(first + len) as usize]
    }

    /// Steps on the shortest path to a leaf, on average over the leaves; a list of rules counts for
    /// its own steps.
    pub fn steps_to_leaf(&self, start: Goto) -> f64 {
        let mut next = BTreeSet::from([(0, start)]);
        let mut seen = BTreeSet::new();
        let (mut sum, mut leaves) = (0, 0);
        while let Some((steps, at)) = next.pop_first() {
            if !seen.insert(at) {
                continue;
            }
            if at & LEAF != 0 {
                (sum, leaves) = (sum + steps, leaves + 1);
                continue;
            }
            let (own, branches) = self.branches_of(&self.steps[at as usize]);
            next.extend(branches.into_iter().map(|branch| (steps + own, branch)));
        }
        f64::from(sum) / f64::from(leaves.max(1))
    }

    /// The weight of a step, and its possible targets.
    fn branches_of(&self, step: &Step) -> (u32, Vec<Goto>) {
        match step {
            Step::Test { yes, no, .. } => (1, vec![*yes, *no]),
            Step::Switch(switch) => {
                let (branches, otherwise) = self.branches(switch);
                (1, branches.into_iter().map(|(_, goto)| goto).chain([otherwise]).collect())
            }
            Step::Run { program, first, len } => {
                let steps = match &self.programs[*program as usize].1 {
                    RuleProgram::Pattern(program) => {
                        program.steps().iter().map(|(_, steps)| *steps).min().unwrap_or(0)
                    }
                    RuleProgram::Ip(program) => program.steps().round() as u32,
                };
                (steps.max(1), self.verdicts(*first, *len).to_vec())
            }
        }
    }

    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether every packet's leaf is known without a look at it.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Bytes of memory held by the steps and tables, about; without compiled rule lists.
    pub fn memory_bytes(&self) -> usize {
        self.steps.len() * size_of::<Step>() + self.gotos.len() * 4 + self.slots.len() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn a_switch_is_a_map() {
        for mask in [0x00ff_0000, 0xffff_0000, 0x0000_0f0f, 0xffff_ffff, 0x0fff_0000_u32] {
            let mut decision = Decision::default();
            let branches: HashMap<u32, Goto> = (1..=9_u32)
                .map(|i| (i.wrapping_mul(0x0101_0101) & mask, to_leaf(i as LeafId)))
                .collect();
            let list: Vec<(u32, Goto)> = branches.iter().map(|(v, g)| (*v, *g)).collect();
            let step = decision.switch_step((Base::Frame, 0, mask), &list, to_leaf(0));
            let start = decision.push(step);
            for probe in 0..20_000_u32 {
                let bytes = probe.wrapping_mul(0x9e37_79b1).to_be_bytes();
                for bytes in [bytes, (probe % 11).wrapping_mul(0x0101_0101).to_be_bytes()] {
                    let value = u32::from_be_bytes(bytes) & mask;
                    let expected = branches.get(&value).copied().unwrap_or(to_leaf(0)) as LeafId;
                    let view = PacketView::from_frame(&bytes);
                    assert_eq!(decision.classify(start, &view), expected, "{mask:x} {value:x}");
                }
            }
            assert_eq!(decision.classify(start, &PacketView::from_frame(&[])), 0);
        }
    }
}
